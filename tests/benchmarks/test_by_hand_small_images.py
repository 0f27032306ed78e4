"""Hand-written kernels of the benchmarks: they compile for the GPU that they are for, and compute what they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.by_hand_small_images import LAYERS, LOADS, STORES, Variant, compiled, kind_of, layer, variants
from tests.covering import each_value
from tests.emulator.device import emulation
from tests.emulator.marks import emulates
from tests.topi.test_direct import EPILOGUES, check, problem
from tilewright.topi.templates import Depthwise

SMALL = Depthwise.of((4, 16, 14, 14), 3, stride=2), Depthwise.of((4, 16, 7, 7), 5, dtype="float16")


@pytest.mark.parametrize(("load", "store"), each_value(LOADS, STORES))
def test_every_kind_compiles(load: str, store: str) -> None:
    for name in ("mbv2-b128-dw576x14s2", "b128-dw768x7-k7"):
        of = layer(name, "float16")
        variant = next(v for v in variants(of) if (v.load, v.store, v.rows) == (load, store, 7))
        (used,) = variant.program(of).resources.values()
        assert used.spill_store_bytes == used.stack_bytes == 0


@emulates
@pytest.mark.parametrize(
    ("of", "how", "store"),
    each_value(
        SMALL,
        [("load", 1), ("cp.async", 1), ("cp.async", 2), ("cp.async", 3)],
        [store for store in STORES if store != "bulk"],
    ),
)
def test_the_source_computes_it(of: Depthwise, how: tuple[str, int], store: str) -> None:
    """All but bulk copies, which the emulator does not have."""
    load, copies = how
    rows, columns = {1: (7, 7), 2: (7, 1), 3: (1, 1)}[copies]
    computed(
        of, Variant(16 if rows == columns == 7 else 8, copies if copies < 3 else 4, rows, columns, copies, load, store)
    )


def computed(of: Depthwise, variant: Variant) -> None:
    assert variant.is_possible(of)
    inputs, right, allowed = problem(of, EPILOGUES[0])
    with emulation():
        device: Any = tw.cuda()
        arrays = [tw.nd.array(a, device) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
        launch = device.driver.load(variant.program(of, compiled=False), 0)["planes"]
        launch(*variant.extents(of), *(int(array.handle) for array in arrays))
        check(arrays[-1].numpy(), right, allowed)


@pytest.mark.parametrize("name", LAYERS)
def test_each_layer_has_variants_of_every_kind(name: str) -> None:
    found = list(variants(layer(name, "float32")))
    assert {v.load for v in found} == set(LOADS)
    assert {v.store for v in found} >= {"straight", "vectors", "elements"}
    assert len(set(found)) == len(found) > 20


def test_configurations_of_the_strategy_are_compiled_beside_them() -> None:
    title, extents, program = compiled((SMALL[0], 0))
    assert title.startswith("topi/depthwise.planes: ")
    assert extents is None
    assert program.binary


def test_kinds_are_told_by_how_planes_arrive() -> None:
    found = [kind_of(str(variant)) for variant in variants(SMALL[1]) if variant.store == "vectors"]
    assert {"by hand, 1 copies, load", "by hand, 1 copies, cp.async", "by hand, 2 copies, bulk"} <= set(found)
    assert kind_of(compiled((SMALL[0], 0))[0]) in ("topi/depthwise.planes, 1 copies", "topi/depthwise.planes, 2 copies")
