"""Which library's kernel a call runs, by the layers that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.functional.problem import CONV, Problem
from tilewright.functional.rivals import (
    Measured,
    cpu_device,
    distance,
    estimate,
    is_faster,
    known_on_cpu,
    table,
    verdict,
)  # fmt: skip
from tilewright.runtime.device import cpu
from tilewright.topi.templates.processor import instruction_set

KNOWN = Problem(CONV, (8, 64, 28, 28), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16", "NHWC")
SLOWER = Measured(KNOWN, "a GPU", 3e-6, 2e-6)


def test_a_measured_layer_is_decided_by_its_measurement() -> None:
    others = [Measured(KNOWN._replace(shape=(8, 64, 28, n)), "a GPU", 1e-6, 9e-6) for n in (27, 29)]
    assert "measured 1.50 times as fast as ours for this layer" in verdict(KNOWN, [SLOWER, *others])
    assert not verdict(KNOWN, [replace(SLOWER, ours=2.02e-6), *others])  # noise


def test_layers_count_by_their_likeness() -> None:
    near, far = KNOWN._replace(shape=(8, 64, 30, 30)), KNOWN._replace(shape=(1, 64, 7, 7), kernel=(5, 5))
    found = estimate(near, [SLOWER, Measured(far, "a GPU", 1e-6, 4e-6)])
    assert found is not None
    assert found.nearest is SLOWER
    assert 1.0 < found.ratio < 1.5
    assert "expected to be 1.50 times as fast as ours, by conv  8x64x28x28" in verdict(near, [SLOWER])


@pytest.mark.parametrize(
    "other",
    [
        KNOWN._replace(layout="NCHW"),
        KNOWN._replace(groups=1),
        KNOWN._replace(op="conv_transpose"),
        KNOWN._replace(filters=192, dtype="float32", kernel=(9, 9)),
    ],
    ids="layout dense operator alike-in-nothing".split(),
)
def test_other_kinds_of_layers_say_nothing(other: Problem) -> None:
    assert estimate(other, [SLOWER]) is None


def test_products_of_matrices_are_the_librarys_without_a_record() -> None:
    dense = KNOWN._replace(groups=1)
    assert "a sum over 576 products is a matrix product" in verdict(dense, [])
    assert not verdict(KNOWN._replace(groups=16, kernel=(5, 5)), [])  # four channels of a group


def test_layers_with_weights_in_another_order_say_nothing_of_matrix_products() -> None:
    dense = KNOWN._replace(groups=1, weights="OHWI")
    faster = Measured(dense, "a GPU", 1e-6, 2e-6)
    near = dense._replace(shape=(8, 64, 30, 30))
    assert not verdict(near, [faster])
    assert "is a matrix product, and no record" in verdict(near._replace(weights="OIHW"), [faster])
    one_tap = Measured(dense._replace(kernel=(1, 1)), "a GPU", 1e-6, 2e-6)  # of one tap, both orders are the same
    assert not verdict(near._replace(kernel=(1, 1), weights="OIHW"), [one_tap])


def test_the_table_that_ships() -> None:
    known = [one for one in table() if one.device == "NVIDIA H200"]
    assert len(known) > 300
    assert len({one.problem for one in known}) == len(known)
    assert all(one.ours > 0 and one.theirs > 0 for one in known)
    assert distance(known[0].problem, known[0].problem) == 0


@pytest.mark.parametrize("instructions", ["AVX2", "AVX-512"])
def test_layers_on_a_cpu_are_decided_by_measurements_on_a_cpu(instructions: str) -> None:
    """Those that PyTorch computes faster are its own, as they are on a GPU."""
    known = [one for one in table() if one.device == cpu_device(instructions)]
    assert len({one.problem for one in known}) == len(known) > 100
    for one in known:
        assert bool(verdict(one.problem, known_on_cpu(one.problem.dtype, instructions))) is (one.ratio > 1.03)
    here = known_on_cpu("float32", instruction_set())
    assert bool(is_faster(here[0].problem, cpu())) is (here[0].ratio > 1.03)


def test_an_estimate_on_a_cpu_has_to_be_clear() -> None:
    by_one = replace(SLOWER, ours=1.2 * SLOWER.theirs)
    near = KNOWN._replace(shape=(KNOWN.shape[0] * 2, *KNOWN.shape[1:]))
    assert verdict(near, [by_one])
    assert not verdict(near, [by_one], 1.3)
    assert verdict(KNOWN, [by_one], 1.3), "it was measured itself"


def test_layers_that_are_not_alike_decide_a_matrix_product_only_where_they_are_clear() -> None:
    dense, far = (
        KNOWN._replace(groups=1),
        KNOWN._replace(groups=1, shape=(1, 3, 224, 224), kernel=(7, 7), stride=(4, 4)),
    )
    assert estimate(dense, [Measured(far, "a CPU", 1e-6, 9e-6)]) is None
    for ratio, theirs in ((0.9, True), (1.2, True), (1.5, False), (9.0, False)):
        known = [Measured(far, "a CPU", 1e-6, ratio * 1e-6)]
        assert bool(verdict(dense, known, 1.3, from_afar=True)) is theirs
        assert verdict(dense, known, 1.3)
    depthwise = Measured(KNOWN, "a CPU", 1e-6, 9e-6)
    assert verdict(dense, [depthwise], 1.3, from_afar=True), "it is of another kind"


def test_processors_with_the_same_instructions_decide_a_layer_on_a_cpu() -> None:
    for instructions in ("AVX2", "AVX-512"):
        known = known_on_cpu("float32", instructions)
        assert {one.device for one in known} == {cpu_device(instructions)}
        assert {one.problem.dtype for one in known} == {"float32"}
    nobodys = known_on_cpu("float32", "SSE")
    assert {one.device for one in nobodys} == {cpu_device("AVX2"), cpu_device("AVX-512")}  # better than nothing
