"""Weight gradients against sums from the definition, on the CPU, on an emulated GPU, and on a GPU."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.topi.templates import WeightGradient, named

CUDA, LLVM = Target("cuda -arch=sm_90"), Target("llvm")
TEMPLATE, COPIES = named("topi/weight_gradient"), named("topi/weight_gradient.copied")
LAYERS = {
    "depthwise": WeightGradient.of((2, 3, 12, 8), 3, groups=3),
    "depthwise, channels last": WeightGradient.of((2, 6, 9, 7), 6, groups=6, layout="NHWC", dtype="float16"),
    "multiplier, strides, uneven border": WeightGradient.of(
        (3, 4, 9, 7), 8, (5, 4), 2, (2, 1, 3, 0), groups=4, dtype="float16"
    ),
    "multiplier, channels last": WeightGradient.of((2, 3, 6, 7), 6, 3, (1, 2), groups=3, layout="NHWC"),
    "groups": WeightGradient.of((3, 8, 9, 8), 16, 3, padding=1, dilation=2, groups=2),
    "groups, channels last": WeightGradient.of((3, 8, 9, 7), 8, 3, 1, 1, 2, 2, dtype="bfloat16", layout="NHWC"),
    "line, not rounded": WeightGradient.of(
        (2, 5, 40), 5, 4, padding=(3, 0), groups=5, layout="NCW", dtype="bfloat16", wide=True
    ),
    "a window of padding only": WeightGradient.of((1, 2, 3, 4), 2, 3, 4, 4, groups=2, dtype="float64"),
    "few columns, a step": WeightGradient.of((2, 8, 5, 2), 3, (3, 1), 3, 0, dtype="float16"),
    "large window": WeightGradient.of((1, 2, 14, 16), 2, 13, groups=2),
    "one number": WeightGradient.of((1, 1, 1, 1), 1, 1, padding=0),
}
BIASED = {
    "depthwise": replace(LAYERS["depthwise"], bias=True),
    "channels last, not rounded": replace(LAYERS["depthwise, channels last"], bias=True, wide=True),
    "multiplier": replace(LAYERS["multiplier, strides, uneven border"], bias=True),
    "groups": replace(LAYERS["groups"], bias=True),
    "groups, channels last": replace(LAYERS["groups, channels last"], bias=True),
    "large window": replace(LAYERS["large window"], bias=True),
}
TOLERANCE = {"float64": 1e-14, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}


def by_definition(of: WeightGradient, data: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Return the sums, in float64, one product after another."""
    if of.layout == "NHWC":
        data, gradient = (np.moveaxis(values, 3, 1) for values in (data, gradient))
    out = np.zeros(of.weights_shape)
    per_group, shared = of.shape[1] // of.groups, of.filters // of.groups
    for o, i, ky, kx in np.ndindex(*of.weights_shape):
        for y, x in product(range(gradient.shape[2]), range(gradient.shape[3])):
            row = y * of.stride[0] + ky * of.dilation[0] - of.padding[0]
            column = x * of.stride[1] + kx * of.dilation[1] - of.padding[1]
            if 0 <= row < of.shape[2] and 0 <= column < of.shape[3]:
                channel = o // shared * per_group + i
                out[o, i, ky, kx] += np.dot(data[:, channel, row, column], gradient[:, o, y, x])
    return np.concatenate([out.ravel(), gradient.sum((0, 2, 3))]) if of.bias else out


def check(of: WeightGradient, target: Target, compiled: Any, choice: tuple[Any, Any]) -> None:
    given = of.inputs(np.random.default_rng(0))
    device = tw.cuda() if target.is_gpu else tw.cpu()
    out = tw.nd.array(np.full(of.out_shape, np.nan, "float32" if of.wide else given[0].dtype), device)
    template, config = choice
    compiled(*template.program(config, of, target))(*(tw.nd.array(values, device) for values in given), out)
    right = by_definition(of, *(values.astype(np.float64) for values in given))
    error = np.linalg.norm(out.numpy().astype(np.float64) - right)
    assert error <= TOLERANCE["float32" if of.wide else of.dtype] * np.linalg.norm(right)


def drawn(of: WeightGradient) -> Any:
    """A random configuration with few products written out."""
    space, rng = TEMPLATE.gpu.space(of), np.random.default_rng(len(of.title))
    small = {"rows": 2, "columns": 4, "tap_rows": 1, "jobs": 2, "warps": 2, "shares": 3}
    return TEMPLATE.gpu.nearest(
        of, {**{k.name: k.choices[int(rng.integers(len(k)))].wanted for k in space.knobs}, **small}
    )


@pytest.mark.parametrize("name", LAYERS)
def test_the_reference_follows_the_definition(name: str) -> None:
    of = LAYERS[name]
    given = [values.astype(np.float64) for values in of.inputs(np.random.default_rng(0))]
    np.testing.assert_allclose(of.numpy(*given), by_definition(of, *given), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_cpus_compute_it(name: str) -> None:
    of = LAYERS[name]
    check(of, LLVM, lambda s, args: build(s, args, LLVM), TEMPLATE.choose(of, LLVM))


@emulates
@pytest.mark.parametrize("name", LAYERS)
def test_the_source_computes_it(name: str) -> None:
    of = LAYERS[name]
    with emulation():
        check(of, CUDA, emulated, TEMPLATE.choose(of, CUDA))


@emulates
@pytest.mark.parametrize("name", BIASED)
def test_the_source_computes_a_bias_too(name: str) -> None:
    of = BIASED[name]
    with emulation():
        check(of, CUDA, emulated, TEMPLATE.choose(of, CUDA))
    assert WeightGradient.of(*of.args) == WeightGradient.of(**of.options) == of
    assert not TEMPLATE.covers(of, LLVM)


@emulates
@pytest.mark.parametrize("name", ["multiplier, strides, uneven border", "groups", "groups, channels last"])
def test_every_configuration_computes_it(name: str) -> None:
    with emulation():
        check(LAYERS[name], CUDA, emulated, (TEMPLATE, drawn(LAYERS[name])))


COPIED = {
    "whole planes": (WeightGradient.of((4, 32, 7, 7), 32, 3, groups=32), {"rows": 7, "columns": 7, "warps": 1}),
    "parts of planes": (
        WeightGradient.of((4, 40, 14, 14), 40, 5, groups=40, dtype="float16"),
        {"rows": 7, "columns": 14, "warps": 2, "chunk": 2, "shares": 2, "jobs": 2, "tap_rows": 3},
    ),
    "strides": (
        WeightGradient.of((3, 20, 9, 7), 20, (3, 5), 2, groups=20, dtype="bfloat16"),
        {"rows": 5, "columns": 4, "warps": 1, "shares": 3},
    ),
    "channels last": (
        WeightGradient.of((3, 20, 14, 13), 20, 7, groups=20, dtype="bfloat16", layout="NHWC"),
        {"rows": 2, "columns": 4, "filters": 2, "tap_rows": 4, "warps": 4, "jobs": 2, "shares": 2},
    ),
    "groups, channels last": (
        WeightGradient.of((2, 32, 9, 8), 16, 3, groups=8, dtype="float16", layout="NHWC"),
        {"rows": 2, "columns": 4, "filters": 1, "channels": 4, "tap_rows": 3, "warps": 2, "jobs": 1, "shares": 3},
    ),
}


@emulates
@pytest.mark.parametrize(("name", "copies"), list(zip(COPIED, [3, 2, 1, 2, 2], strict=True)))
def test_blocks_copy_their_part(name: str, copies: int) -> None:
    of, wanted = COPIED[name]
    of = replace(of, bias=copies == 3 or "last" in name)
    wanted = {**TEMPLATE.gpu.default_choices(of), "shares": 1, **wanted, "copies": copies}
    config = COPIES.gpu.nearest(of, wanted)
    assert {key: config[key].val for key in wanted} == wanted
    with emulation():
        check(of, CUDA, emulated, (COPIES, config))


@pytest.mark.cuda
@pytest.mark.parametrize("name", LAYERS)
def test_gpus_compute_it(name: str) -> None:
    of = LAYERS[name]
    check(of, CUDA, lambda s, args: build(s, args, CUDA), TEMPLATE.choose(of, CUDA))


def test_titles_name_only_what_differs() -> None:
    of = WeightGradient.of((2, 8, 9, 9), 8, 3, groups=8, layout="NHWC")
    assert WeightGradient.of(**of.shortest) == of
    assert WeightGradient.of(*of.args) == of
    assert of.out_shape == (8, 1, 3, 3)
