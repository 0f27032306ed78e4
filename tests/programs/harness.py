"""Programs of every kind on every target: how each is scheduled there, and how its result is fetched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.runtime.module import Module

TARGETS = [
    "llvm",
    pytest.param("opencl", marks=pytest.mark.opencl),
    pytest.param("cuda", marks=pytest.mark.cuda),
]
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

every_target = pytest.mark.parametrize("target", TARGETS)


def spread(s: te.Schedule, tensor: te.Tensor, target: str, threads: int = 32) -> Any:
    """Schedule the data axes of `tensor` as one grid of threads (or one vectorised loop); returns the innermost."""
    stage = s[tensor]
    fused = stage.fuse(*stage.op.axis)
    outer, inner = stage.split(fused, factor=8 if target == "llvm" else threads)
    if target == "llvm":
        stage.vectorize(inner)
        return inner
    stage.bind(outer, te.thread_axis("blockIdx.x"))
    stage.bind(inner, te.thread_axis("threadIdx.x"))
    return inner


def build(s: te.Schedule, args: Sequence[Any], target: str) -> Module:
    """The module; what is built for OpenCL is compiled for CUDA as well, which needs no GPU."""
    if target == "opencl":
        tilewright.build(s, list(args), "cuda")
    return tilewright.build(s, list(args), target)


def pointwise(values: Callable[..., Any], dtypes: Sequence[str], target: str, size: Any = None) -> Module:
    """Elementwise: `values(A0[i], A1[i], ...)` gives the values of the results, computed by one kernel.

    For any length unless `size` is given.
    """
    extent = te.size_var("n") if size is None else size
    inputs = [te.placeholder((extent,), dtype, f"A{i}") for i, dtype in enumerate(dtypes)]
    made = te.compute((extent,), lambda i: tuple(values(*(a[i] for a in inputs))), name="B")
    outputs = made if isinstance(made, tuple) else (made,)
    s = te.create_schedule(outputs[0].op)
    spread(s, outputs[0], target)
    return build(s, [*inputs, *outputs], target)


def results(module: Module, inputs: Sequence[np.ndarray], dtypes: Sequence[str]) -> list[np.ndarray]:
    """What the module's last arguments hold after a call, one of each type, as long as the first input."""
    on = device(module.target)
    outputs = [array(poison(inputs[0].shape, dtype), on) for dtype in dtypes]
    module(*(array(x, on, dtype=str(DType(x.dtype))) for x in inputs), *outputs)
    return [out.numpy() for out in outputs]


def poison(shape: Sequence[int], dtype: str) -> np.ndarray:
    """What no program here computes."""
    kind = DType(dtype)
    return np.full(tuple(shape), np.nan if kind.is_float else 113, kind.numpy)


def result(module: Module, inputs: Sequence[np.ndarray], shape: Sequence[int], dtype: str) -> np.ndarray:
    """What the module's last argument holds after a call."""
    on = device(module.target)
    out = array(poison(shape, dtype), on)
    module(*(array(x, on, dtype=str(DType(x.dtype))) for x in inputs), out)
    return out.numpy()
