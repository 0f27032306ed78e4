"""Weight gradients on the CPU: layers that leave parts of vectors and blocks over, other configurations, same bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tilewright as tw
from tests.topi.test_weight_gradient import LLVM, TEMPLATE, check
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.runtime import set_num_threads
from tilewright.topi.templates import WeightGradient
from tilewright.tune.space.config import Config

LAYERS = {
    "a plane of odd size": WeightGradient.of((2, 3, 13, 19), 3, 3, groups=3),
    "a small plane in 16 bits": WeightGradient.of((3, 5, 5, 7), 5, 3, groups=5, dtype="bfloat16"),
    "large window over long rows": WeightGradient.of((1, 2, 6, 37), 2, (5, 7), groups=2),
    "taps in two blocks": WeightGradient.of((2, 2, 1, 70), 2, (1, 31), padding=(0, 15), groups=2),
    "step of three": WeightGradient.of((2, 3, 11, 40), 3, 4, 3, (1, 2, 0, 3), groups=3),
    "step and dilation": WeightGradient.of((1, 3, 12, 41), 6, 3, 2, 2, 2, 3, "float16"),
    "filters of a group": WeightGradient.of((2, 6, 7, 18), 8, 3, groups=2, dtype="float64"),
    "a row of several parts": WeightGradient.of((1, 1, 1, 4500), 1, (1, 4), padding=(0, 3, 0, 0)),
    "padding only": WeightGradient.of((1, 3, 1, 2), 3, 5, 1, (2, 3, 2, 3), groups=3),
    "vectors overlap": WeightGradient.of((2, 37, 5, 6), 37, 3, groups=37, layout="NHWC"),
    "few channels": WeightGradient.of((2, 3, 5, 9), 3, (3, 1), (2, 1), (1, 0), groups=3, layout="NHWC"),
    "columns are left over": WeightGradient.of((1, 16, 4, 13), 16, 5, 2, groups=16, layout="NHWC", dtype="float16"),
    "groups of three": WeightGradient.of((2, 15, 5, 6), 15, 3, 1, 1, 1, 5, layout="NHWC"),
    "groups with one filter": WeightGradient.of((2, 10, 5, 6), 5, 3, 1, 1, 1, 5, "float64", "NHWC"),
    "parts of groups": WeightGradient.of((1, 4, 3, 5), 42, 3, 1, 1, 1, 2, layout="NHWC"),
    "one group": WeightGradient.of((1, 3, 4, 5), 37, 3, 1, 1, layout="NHWC", dtype="bfloat16"),
    "long rows, channels last": WeightGradient.of((1, 5, 4300), 5, 4, 2, (3, 0), 2, 5, "bfloat16", "NWC"),
    "padding only, channels last": WeightGradient.of((1, 4, 1, 2), 8, 5, 1, 3, groups=4, layout="NHWC"),
}


def drawn(of: WeightGradient, seed: int) -> Config:
    """A random configuration with few products written out."""
    assert TEMPLATE.cpu is not None
    space, rng = TEMPLATE.cpu.space(of), np.random.default_rng(seed)
    small = {"taps_x": 2, "taps_y": 2, "filters": 1, "rows": 3, "columns": 2}
    chosen = {knob.name: knob.choices[int(rng.integers(len(knob)))].wanted for knob in space.knobs}
    return TEMPLATE.cpu.nearest(of, chosen if seed % 2 else {**chosen, **small})


@pytest.mark.parametrize("name", LAYERS)
def test_the_default_configuration_computes_it(name: str) -> None:
    of = LAYERS[name]
    check(of, LLVM, lambda s, args: build(s, args, LLVM), (TEMPLATE, TEMPLATE.default_config(of, LLVM)))


@pytest.mark.parametrize("seed", range(6))
def test_every_configuration_computes_it(seed: int) -> None:
    of = [*LAYERS.values()][7 * seed % len(LAYERS)]
    check(of, LLVM, lambda s, args: build(s, args, LLVM), (TEMPLATE, drawn(of, seed)))


def test_fewer_registers_hold_smaller_blocks() -> None:
    of = WeightGradient.of((2, 8, 28, 28), 8, 7, groups=8)
    targets = [Target(f"llvm -mcpu={cpu}") for cpu in ("skylake-avx512", "haswell")]
    chosen = [TEMPLATE.default_config(of, target) for target in targets]
    registers = [c["taps_y"].val * c["taps_x"].val * c["lanes"].val // n for c, n in zip(chosen, (16, 8), strict=True)]
    assert registers[1] < 16 < registers[0] < 32


def computed(of: WeightGradient, *given: np.ndarray) -> np.ndarray:
    out = tw.nd.array(np.full(of.weights_shape, np.nan, given[0].dtype))
    module = build(*TEMPLATE.program(TEMPLATE.default_config(of, LLVM), of, LLVM), LLVM)
    module(*map(tw.nd.array, given), out)
    return out.numpy()


@pytest.fixture
def threads() -> Iterator[None]:
    yield
    set_num_threads(None)


@pytest.mark.parametrize("name", ["a plane of odd size", "a row of several parts", "long rows, channels last"])
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: None) -> None:
    of = LAYERS[name]
    given, found = of.inputs(np.random.default_rng(0)), set()
    for number in (1, 3):
        set_num_threads(number)
        found.add(computed(of, *given).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_values_that_no_window_sees_have_no_effect(layout: str) -> None:
    of = WeightGradient.of((1, 4, 8, 8), 4, 3, 3, 0, groups=4, layout=layout)
    data, gradient = of.inputs(np.random.default_rng(0))
    unseen = data if layout == "NCHW" else data.transpose(0, 3, 1, 2)
    unseen[:, :, 6:], unseen[..., 6:] = np.inf, np.nan
    assert np.isfinite(computed(of, data, gradient)).all()
