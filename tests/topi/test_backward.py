"""All gradients of a depthwise layer from one kernel, beside sums from the definition."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright.core.target import Target
from tilewright.topi.templates import Backward, named

CUDA = Target("cuda -arch=sm_90")
TEMPLATE = named("topi/backward")
ACTIVATIONS = {
    "": lambda v: v,
    "silu": lambda v: v / (1 + math.exp(-v)),
    "relu": lambda v: max(v, 0.0),
    "gelu": lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2,
    "mish": lambda v: v * math.tanh(math.log1p(math.exp(v))),
    "elu": lambda v: v if v > 0 else math.expm1(v),
}
LAYERS = {
    "causal, channels last": (Backward.of((2, 6, 70), 4, (3, 0), 1, True, "silu", "bfloat16", "NWC"), {"stretch": 32}),
    "causal": (Backward.of((4, 3, 64), 4, (3, 0), 1, True, "silu", "float16", "NCW"), {"images": 2}),
    "same, channels last": (Backward.of((1, 5, 37), 7, 3, 1, False, "gelu", "float32", "NWC"), {"times": 4}),
    "same": (Backward.of((2, 3, 45), 5, 2, 1, True, "relu", "float32", "NCW"), {"times": 16}),
    "no border, channels last": (Backward.of((2, 4, 20), 3, 0, 2, True, "", "float64", "NWC"), {"channels": 4}),
    "no border": (Backward.of((2, 2, 20), 3, 0, 2, False, "silu", "float64", "NCW"), {"times": 4}),
    "more results than inputs": (Backward.of((3, 2, 16), 4, (3, 3), 1, True, "silu", "float32", "NCW"), {"times": 8}),
    "the same, channels last": (Backward.of((3, 2, 64), 4, (3, 3), 1, True, "silu", "float32", "NWC"), {}),
    "border on the right": (Backward.of((1, 3, 33), 4, (0, 3), 1, True, "silu", "float32", "NCW"), {}),
    "the same, last": (Backward.of((1, 3, 33), 4, (0, 3), 1, True, "silu", "float32", "NWC"), {"stretch": 32}),
    "one tap": (Backward.of((1, 1, 5), 1, 0, 1, True, "mish", "float32", "NCW"), {}),
    "one tap, channels last": (Backward.of((1, 3, 5), 1, 0, 1, True, "elu", "float32", "NWC"), {}),
}
TOLERANCE = {"float64": 1e-6, "float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""Of float64 too, because derivatives are differences here."""


def by_definition(of: Backward, given: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients, one product after another, in channels first."""
    data, weights, *bias, above = (values.astype(np.float64) for values in given)
    if of.layout == "NHWC":
        data, above = (np.moveaxis(values, 3, 1) for values in (data, above))
    activation, taps = ACTIVATIONS[of.activation], of.kernel[1]
    of_data, of_weights, of_bias = np.zeros_like(data), np.zeros((of.shape[1], taps)), np.zeros(of.shape[1])
    for n, c, t in np.ndindex(above.shape[0], above.shape[1], above.shape[3]):
        seen = [(r, t + r * of.dilation[1] - of.padding[1]) for r in range(taps)]
        seen = [(r, place) for r, place in seen if 0 <= place < data.shape[3]]
        before = sum(data[n, c, 0, place] * weights[c, 0, 0, r] for r, place in seen) + (bias[0][c] if bias else 0)
        slope = (activation(before + 1e-6) - activation(before - 1e-6)) / 2e-6
        gradient = above[n, c, 0, t] * slope
        of_bias[c] += gradient
        for r, place in seen:
            of_weights[c, r] += gradient * data[n, c, 0, place]
            of_data[n, c, 0, place] += gradient * weights[c, 0, 0, r]
    flat = np.concatenate([of_weights.ravel(), *([of_bias] if of.bias else [])])
    return np.moveaxis(of_data, 1, 3) if of.layout == "NHWC" else of_data, flat


def check(of: Backward, choices: dict[str, int], compiled: Any) -> None:
    config = TEMPLATE.gpu.nearest(of, {**TEMPLATE.strategy(CUDA).default_choices(of), **choices})
    assert all(config[name].val == value for name, value in choices.items())
    given = of.inputs(np.random.default_rng(0))
    right = by_definition(of, given)
    outs = [tw.nd.array(np.full(each.shape, np.nan, given[0].dtype), tw.cuda()) for each in right]
    compiled(*TEMPLATE.program(config, of, CUDA))(*(tw.nd.array(values, tw.cuda()) for values in given), *outs)
    for made, exact in zip(outs, right, strict=True):
        error = np.linalg.norm(made.numpy().astype(np.float64) - exact)
        assert error <= TOLERANCE[of.dtype] * np.linalg.norm(exact)


@pytest.mark.parametrize("name", LAYERS)
def test_the_reference_follows_the_definition(name: str) -> None:
    of, _ = LAYERS[name]
    given = [values.astype(np.float64) for values in of.inputs(np.random.default_rng(0))]
    for made, exact in zip(of.numpy(*given), by_definition(of, given), strict=True):
        np.testing.assert_allclose(made, exact, rtol=1e-7, atol=1e-7)


@emulates
@pytest.mark.parametrize("name", LAYERS)
def test_the_source_computes_it(name: str) -> None:
    with emulation():
        check(*LAYERS[name], emulated)


@pytest.mark.parametrize(("layout", "vector"), [("NCW", "uint4"), ("NWC", "unsigned int")])
def test_neighbours_are_loaded_and_stored_at_once(layout: str, vector: str) -> None:
    of = Backward.of((2, 64, 256), 4, (3, 0), 1, True, "silu", "bfloat16", layout)
    schedule, args = TEMPLATE.program(TEMPLATE.default_config(of, CUDA), of, CUDA)
    source = emulated(schedule, args).imported_modules[0].get_source()
    for name in ("data", "gradient"):
        assert f"*(const {vector}*)({name} + " in source
        assert not re.search(rf"value\({name}\[", source)
    assert f"*({vector}*)(T_backward_v0 + " in source


@pytest.mark.cuda
@pytest.mark.parametrize("name", LAYERS)
def test_gpus_compute_it(name: str) -> None:
    check(*LAYERS[name], lambda s, args: tw.build(s, args, CUDA))


def test_titles_name_only_what_differs() -> None:
    for layout in ("NWC", "NCW"):
        of = Backward.of((2, 8, 9), 3, bias=True, activation="silu", layout=layout)
        assert Backward.of(**of.options) == of
        assert Backward.of(*of.args) == of


def test_long_windows_are_refused() -> None:
    assert not TEMPLATE.covers(Backward.of((2, 8, 99), 31, 15, layout="NCW"), CUDA)
    assert not TEMPLATE.covers(Backward.of((2, 8, 9, 9), 3, 1, layout="NCHW"), CUDA)
