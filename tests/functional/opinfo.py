"""PyTorch's own samples of the operators that Tilewright has, and the results that PyTorch computes in float64.

The samples are those of PyTorch's test suite, `torch.testing._internal.common_methods_invocations.op_db`. This is a
private interface, which changes between versions; `VERSIONS` lists the versions that these tests know.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import torch

import tilewright as tw
from tests.functional.testing_tools import import_testing_tools

VERSIONS = ("2.11", "2.13")
OPERATORS = ("conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "max_pool2d", "avg_pool2d")
FLOATS = ("float64", "float32", "float16", "bfloat16")
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
"""The largest relative error of one rounding."""
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": torch.nn.functional.relu,
    "silu": torch.nn.functional.silu,
    "hardswish": torch.nn.functional.hardswish,
}


def version_is_known() -> bool:
    """Whether these tests know the private interface of the installed PyTorch."""
    return ".".join(torch.__version__.split(".")[:2]) in VERSIONS


@functools.cache
def database() -> dict[str, Any]:
    """Return PyTorch's description of each operator; ImportError if it or `expecttest`, which it needs, is missing."""
    module = import_testing_tools("common_methods_invocations")
    names = {f"nn.functional.{name}": name for name in OPERATORS}
    return {names[op.name]: op for op in module.op_db if op.name in names and not op.variant_test_name}


@dataclass(frozen=True, eq=False)
class Sample:
    """A call of PyTorch's test suite. `arrays` are its operands by name: x, weight, bias."""

    operator: str
    dtype: str
    index: int
    arrays: dict[str, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(a.shape)}" for name, a in self.arrays.items())
        options = [*map(repr, self.args), *(f"{key}={value!r}" for key, value in self.kwargs.items())]
        return f"{self.operator} {self.dtype} #{self.index} ({'; '.join([shapes, *options])})"

    @property
    def is_convolution(self) -> bool:
        return "conv" in self.operator

    @property
    def rank(self) -> int:
        return 1 if "1d" in self.operator else 2

    @property
    def is_batched(self) -> bool:
        return self.arrays["x"].dim() == self.rank + 2

    def empty(self) -> Sample:
        """Return the sample with a batch of 0."""
        return replace(self, arrays={**self.arrays, "x": self.arrays["x"][:0]})


def call(function: Callable[..., Any], sample: Sample, arrays: dict[str, Any], **more: Any) -> Any:
    """Call a public function as the sample calls PyTorch's, with other arrays and further options."""
    weights = [arrays["weight"], arrays.get("bias")] if sample.is_convolution else []
    return function(arrays["x"], *weights, *sample.args, **sample.kwargs, **more)


@functools.cache
def samples(operator: str, dtype: str) -> list[Sample]:
    """Return the samples of an operator on the CPU, always with the same values; equal calls appear once."""
    found: dict[str, Sample] = {}
    with patch.object(torch.cuda, "manual_seed_all"):  # PyTorch seeds for each sample, and keeps a trace of the call
        torch.manual_seed(0)
        for index, given in enumerate(database()[operator].sample_inputs("cpu", getattr(torch, dtype))):
            sample = _sample(operator, dtype, index, given)
            found.setdefault(str(sample).replace(f"#{index} ", ""), sample)
    return list(found.values())


def mistakes(operator: str) -> list[Sample]:
    """Return the calls of an operator that PyTorch refuses, in float32."""
    info = database()[operator]
    found = info.error_inputs("cpu") if info.error_inputs_func is not None else ()
    return [_sample(operator, "float32", index, given.sample_input) for index, given in enumerate(found)]


def _sample(operator: str, dtype: str, index: int, given: Any) -> Sample:
    args, arrays = given.args, {"x": given.input.detach()}
    if "conv" in operator:
        weights = dict(zip(("weight", "bias"), args, strict=False))
        arrays |= {name: a for name, a in weights.items() if isinstance(a, torch.Tensor)}
        args = args[2:]
    return Sample(operator, dtype, index, arrays, args, given.kwargs)


@dataclass(frozen=True)
class Wanted:
    """The result of a call in exact arithmetic, and the largest error of a computation in its type."""

    value: Any
    bound: Any

    def fault(self, found: Any) -> str:
        """Return the difference of a result of float64 on the CPU from the exact one; "" if it is within the bound."""
        if tuple(found.shape) != tuple(self.value.shape):
            return f"has the shape {tuple(found.shape)}, not {tuple(self.value.shape)}"
        error = (found - self.value).abs()
        if bool(((found == self.value) | (error <= self.bound)).all()):
            return ""
        return f"has an error of {float(error.max()):.3g}, and {float(self.bound.max()):.3g} is allowed"


def _double(a: Any) -> Any:
    """The values in float64, in rows: with other strides, PyTorch's own kernels fail or compute wrong gradients."""
    return a.detach().cpu().double().contiguous()


def computed(sample: Sample, arrays: dict[str, Any], activation: str | None = None) -> Any:
    """Compute a call by PyTorch in the type of the arrays, residual and activation included."""
    made = call(getattr(torch.nn.functional, sample.operator), sample, arrays)
    made = made + arrays["residual"] if "residual" in arrays else made
    return made if activation is None else ACTIVATIONS[activation](made)


def wanted(sample: Sample, arrays: dict[str, Any], roundings: int = 1, activation: str | None = None) -> Wanted:
    """Compute a call in float64, with a bound on the error by the type and the number of summands.

    The bound is a multiple of the sum of the absolute values of the summands. `roundings` is the number of times that
    a result is rounded to the type of the call; a kernel of Tilewright rounds once.
    """
    doubles = {name: _double(a) for name, a in arrays.items()}
    value = computed(sample, doubles, activation)
    if sample.operator == "max_pool2d":
        return Wanted(value, torch.zeros_like(value))
    magnitude = computed(sample, {name: a.abs() for name, a in doubles.items()}).abs()  # abs: of a negative divisor
    rounded = value.abs() if roundings == 1 else roundings * magnitude
    return Wanted(value, 1.01 * UNIT[sample.dtype] * rounded + _error_of_sum(sample, 0) * magnitude)


def gradients(sample: Sample, arrays: dict[str, Any], along: Any) -> dict[str, Wanted]:
    """Compute the gradients of a call in float64, with bounds on their errors."""
    along = _double(along)
    doubles = {name: _double(a) for name, a in arrays.items()}
    values = _differentiated(sample, doubles, along)
    if sample.operator == "max_pool2d":  # linear in `along`, but not in x: absolute values have their maxima elsewhere
        magnitudes = _differentiated(sample, doubles, along.abs())
    else:
        magnitudes = _differentiated(sample, {name: a.abs() for name, a in doubles.items()}, along.abs())
    # PyTorch computes most gradients, and rounds more than once.
    factor = 4 * UNIT[sample.dtype] + _error_of_sum(sample, along.numel())
    return {name: Wanted(values[name], factor * magnitudes[name].abs()) for name in arrays}


def _differentiated(sample: Sample, arrays: dict[str, Any], along: Any) -> dict[str, Any]:
    leaves = {name: a.requires_grad_() for name, a in arrays.items()}
    found = torch.autograd.grad(computed(sample, leaves), list(leaves.values()), along)
    return dict(zip(leaves, found, strict=True))


def _error_of_sum(sample: Sample, places: int) -> float:
    """Return the relative error of sums over a window, or over `places`, in the type of the accumulator."""
    summands = max(places, sample.arrays.get("weight", sample.arrays["x"]).numel())
    return (summands + 8) * UNIT["float64" if sample.dtype == "float64" else "float32"]


def ours(sample: Sample) -> Callable[..., Any]:
    """Return the public function of Tilewright."""
    function: Callable[..., Any] = getattr(tw, sample.operator)
    return function
