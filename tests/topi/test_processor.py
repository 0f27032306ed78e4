"""First configurations on a CPU: their sums fit the vector registers of the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright.core.target import Target
from tilewright.topi.templates import (
    ALL,
    Conv2dLayer,
    Depthwise,
    Epilogue,
    Pooling,
    Transposed,
    cpu_channels_last,
    named,
    processor,
)
from tilewright.topi.templates.processor import VectorRegisters

CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")
TRANSPOSED = named("topi/conv_transpose")

DIRECT = next(template for template in ALL if template.name == "topi/depthwise.direct")

PROCESSORS = {
    "x86-64": (16, 16),
    "haswell": (16, 32),
    "znver3": (16, 32),
    "skylake-avx512": (32, 64),
    "znver4": (32, 64),
}
LAYERS: list[tuple[Any, Any]] = [
    (DEPTHWISE, Depthwise.of((1, 96, 56, 56), kernel=7, padding=3, layout="NHWC")),
    (DEPTHWISE, Depthwise.of((1, 256, 96, 96), kernel=3, padding=1, layout="NHWC")),
    (DEPTHWISE, Depthwise.of((1, 40, 9, 5), kernel=3, layout="NHWC", dtype="float64")),
    (DEPTHWISE, Depthwise.of((1, 48, 1, 3), kernel=(1, 3), padding=(0, 1), layout="NHWC", dtype="float16")),
    (CONV2D, Conv2dLayer.of((1, 64, 14, 14), filters=64, kernel=3, padding=1, layout="NHWC")),
    (CONV2D, Conv2dLayer.of((1, 64, 14, 14), filters=64, kernel=3, padding=1)),
    (CONV2D, Conv2dLayer.of((1, 64, 14, 14), filters=64, kernel=3, padding=1, groups=4, layout="NHWC")),
]


@pytest.mark.parametrize("name", PROCESSORS)
def test_the_registers_of_a_processor_that_a_target_names(name: str) -> None:
    found = VectorRegisters.of(Target(f"llvm -mcpu={name}"))
    assert (found.number, found.bytes) == PROCESSORS[name]


def test_a_target_without_a_processor_means_the_one_here() -> None:
    assert VectorRegisters.of(Target("llvm")) in {VectorRegisters(*each) for each in PROCESSORS.values()}
    assert VectorRegisters.of(Target("llvm -mattr=+avx2")) == VectorRegisters(16, 32)


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize(("template", "layer"), LAYERS)
def test_the_sums_of_a_tile_fill_half_of_the_registers_at_most(template: Any, layer: Any, name: str) -> None:
    number, size = PROCESSORS[name]
    _, config = template.choose(layer, Target(f"llvm -mcpu={name}"))
    lanes, columns = config["tile_c"].size[-1], config["tile_x"].size[-1]
    wide = 8 if layer.dtype == "float64" else 4
    assert lanes * columns * wide <= number * size // 2
    assert lanes * columns >= min(16, layer.filters), "a tile of one vector would leave most of the registers empty"


@pytest.mark.parametrize("template", [t for t in ALL if t.cpu is not None], ids=lambda template: template.name)
def test_a_processor_changes_only_first_configurations(template: Any) -> None:
    general, here = template.cpu, template.strategy(Target("llvm -mcpu=haswell"))
    for field in ("space", "schedule", "declare", "computes", "model"):
        assert getattr(here, field) == getattr(general, field), field


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("columns", [7, 14, 28, 32, 56, 64, 112])
def test_whole_rows_that_are_computed_together_fill_half_of_the_registers_at_most(columns: int, name: str) -> None:
    number, size = PROCESSORS[name]
    layer = Depthwise.of((1, 8, columns, columns), kernel=3, padding=1)
    _, config = DEPTHWISE.choose(layer, Target(f"llvm -mcpu={name}"))
    rows, lanes = config["tile_y"].size[-1], config["tile_x"].size[-1]
    assert rows == 1 or rows * lanes * 4 <= number * size // 2 or lanes == 16


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("stride", [1, 2])
def test_tiles_of_transposed_convolutions_fit_too(stride: int, layout: str, name: str) -> None:
    number, size = PROCESSORS[name]
    layer = Transposed.of((1, 64, 28, 28), filters=32, kernel=4, stride=stride, padding=1, layout=layout)
    _, config = TRANSPOSED.choose(layer, Target(f"llvm -mcpu={name}"))
    columns, filters = config["columns"].val, config["tile_f"].size[-1]
    assert columns * filters * stride * 4 <= max(number * size // 2, 16 * stride * 4)


def test_registers_hold_a_row_of_a_large_window_beside_the_sums() -> None:
    """Of 7×7, two vectors of channels: 4 columns see 10, so 28 vectors are live; 8 would be 44."""
    layer = Depthwise.of((1, 96, 56, 56), kernel=7, padding=3, layout="NHWC")
    _, wide = DEPTHWISE.choose(layer, Target("llvm -mcpu=skylake-avx512"))
    assert (wide["tile_c"].size[-1], wide["tile_x"].size[-1]) == (32, 4)
    _, narrow = DEPTHWISE.choose(layer, Target("llvm -mcpu=haswell"))
    assert narrow["tile_x"].size[-1] == 8, "four vectors of sums would leave the processor idle"


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize(("filters", "groups"), [(6, 6), (12, 12), (7, 1), (28, 1), (72, 6)])
def test_vectors_leave_no_filter_over(filters: int, groups: int, dtype: str) -> None:
    """A vector that sticks out is computed element by element, which takes up to five times as long."""
    options: dict[str, Any] = {"kernel": 3, "padding": 1, "dtype": dtype, "layout": "NHWC"}
    alone = groups == filters
    shape = (2, filters if groups > 1 else 16, 9, 9)
    layer = Depthwise.of(shape, **options) if alone else Conv2dLayer.of(shape, filters, groups=groups, **options)
    for name in ("haswell", "znver4"):
        target = Target(f"llvm -mcpu={name}")
        _, config = (DEPTHWISE if alone else CONV2D).choose(layer, target)
        lanes = config["tile_c"].size[-1]
        assert filters % lanes == 0, (name, lanes)
        assert lanes & (lanes - 1) == 0 or lanes <= max(7, VectorRegisters.of(target).lanes(dtype)), "one register"


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [6, 19, 24, 28, 47, 100, 147])
def test_vectors_of_poolings_leave_nothing_over(size: int, layout: str) -> None:
    shape = (1, 3, 4, 2 * size) if layout == "NCHW" else (1, size, 4, 6)
    _, config = named("topi/pool").choose(Pooling.of(shape, "max", 2, 2, layout=layout), Target("llvm"))
    assert size % config["tile_x"].size[-1] == 0
    assert config["tile_x"].size[-1] >= 6


@pytest.mark.parametrize(("cache", "lanes"), [(1 << 16, 16), (1 << 30, 32), (0, 32)])
def test_long_lines_that_pass_by_the_caches_take_half_as_many_channels(
    cache: int, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From memory, loads of the next tile have to be in sight; a cache of unknown size may hold the layer."""
    monkeypatch.setattr(processor, "cache_bytes", lambda: cache)
    registers = VectorRegisters(32, 64)
    line = Depthwise.of((1, 64, 1, 512), kernel=(1, 31), padding=(0, 15), layout="NHWC")
    assert cpu_channels_last.default_choices(line, registers)["tile_c"] == [lanes]
    image = Depthwise.of((1, 64, 32, 32), kernel=7, padding=3, layout="NHWC")
    assert cpu_channels_last.default_choices(image, registers)["tile_c"] == [32], (
        "rows of images wait in a cache in any case"
    )


LINES = Depthwise.of((2, 64, 1, 128), kernel=(1, 3), padding=(0, 1), layout="NHWC")
TOUCHED = 2 * 2 * 64 * 128 * 4
"""Bytes that they read and write."""


@pytest.mark.parametrize(
    ("lanes", "cache", "vector", "past"),
    [
        (16, TOUCHED - 1, 64, True),
        (32, TOUCHED - 1, 64, True),
        (16, TOUCHED, 64, False),  # what follows may find results in the cache
        (16, 0, 64, False),  # the system does not tell its size
        (8, TOUCHED - 1, 64, False),  # half a line at a time would reach memory twice
        (16, TOUCHED - 1, 32, False),  # and so would a line of two stores
    ],
)
def test_whole_lines_are_stored_past_caches_that_hold_less_than_a_layer_touches(
    lanes: int, cache: int, vector: int, past: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "cache_bytes", lambda: cache)
    monkeypatch.setattr(VectorRegisters, "of", staticmethod(lambda target: VectorRegisters(32, vector)))
    wanted = {"tile_c": [lanes], "tile_x": [4], "store_padding": False}
    schedule, _ = DIRECT.program(DIRECT.cpu.nearest(LINES, wanted), LINES, Target("llvm"))
    assert any("nontemporal_stores" in str(step) for step in schedule.steps) is past


def test_results_past_the_caches_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a bias and relu, and at a border that vectors and tiles do not divide."""
    monkeypatch.setattr(processor, "cache_bytes", lambda: 1)
    monkeypatch.setattr(VectorRegisters, "of", staticmethod(lambda target: VectorRegisters(32, 64)))
    layer = Depthwise.of((2, 40, 7, 13), kernel=3, padding=1, layout="NHWC")
    config = DIRECT.cpu.nearest(layer, {"tile_c": [16], "tile_x": [4], "store_padding": False})
    module = tvm.build(*DIRECT.program(config, layer, Target("llvm"), Epilogue(True, False, "relu")), "llvm")
    assert "!nontemporal" in module.get_source()
    rng = np.random.default_rng(0)
    data, weights, bias = (rng.standard_normal(shape, np.float32) for shape in ((2, 7, 13, 40), (40, 1, 3, 3), (40,)))
    out = tvm.nd.array(np.full(layer.out_shape, np.nan, np.float32))
    module(tvm.nd.array(data), tvm.nd.array(weights), tvm.nd.array(bias), out)
    padded = np.pad(data.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = ((y, x) for y in range(3) for x in range(3))
    wanted = sum(padded[:, y : y + 7, x : x + 13] * weights[:, 0, y, x] for y, x in taps) + bias
    np.testing.assert_allclose(out.numpy(), np.maximum(wanted, 0), rtol=1e-5, atol=1e-5)
