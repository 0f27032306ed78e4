"""First configurations on a CPU: their sums fit the vector registers of the processor."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.core.target import Target
from tilewright.topi.templates import ALL, CONV2D, DEPTHWISE, TRANSPOSED, Conv2d, Depthwise, Transposed
from tilewright.topi.templates.processor import VectorRegisters

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
    (CONV2D, Conv2d.of((1, 64, 14, 14), filters=64, kernel=3, padding=1, layout="NHWC")),
    (CONV2D, Conv2d.of((1, 64, 14, 14), filters=64, kernel=3, padding=1)),
    (CONV2D, Conv2d.of((1, 64, 14, 14), filters=64, kernel=3, padding=1, groups=4, layout="NHWC")),
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


@pytest.mark.parametrize("template", ALL, ids=lambda template: template.name)
def test_a_processor_changes_only_first_configurations(template: Any) -> None:
    general, here = template.cpu, template.strategy(Target("llvm -mcpu=haswell"))
    for field in ("space", "schedule", "declare", "covers", "expected"):
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
