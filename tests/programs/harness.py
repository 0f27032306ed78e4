"""Programs of every kind on every target: how each is scheduled there, and how its result is fetched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.runtime.array import array, empty
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
    """Schedule the data axes of `tensor` as one grid of threads (or one vectorised loop); gives the innermost axis."""
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


def pointwise(value: Callable[..., Any], dtypes: Sequence[str], target: str, size: Any = None) -> Module:
    """B[i] = value(A0[i], A1[i], ...), for any length unless `size` is given."""
    return _pointwise(value, tuple(dtypes), target, size)


@functools.cache
def _pointwise(value: Callable[..., Any], dtypes: tuple[str, ...], target: str, size: Any) -> Module:
    extent = te.size_var("n") if size is None else size
    inputs = [te.placeholder((extent,), dtype, f"A{i}") for i, dtype in enumerate(dtypes)]
    out = te.compute((extent,), lambda i: value(*(a[i] for a in inputs)), name="B")
    s = te.create_schedule(out.op)
    spread(s, out, target)
    return build(s, [*inputs, out], target)


def result(module: Module, inputs: Sequence[np.ndarray], shape: Sequence[int], dtype: str) -> np.ndarray:
    """What the module's last argument holds after a call; it starts as something that no program computes."""
    on = device(module.target)
    kind = DType(dtype)
    poison = np.full(tuple(shape), 113 if kind.is_int or kind.is_bool else np.nan, kind.numpy)
    out = array(poison, on)
    module(*(array(x, on, dtype=str(DType(x.dtype))) for x in inputs), out)
    return out.numpy()


def zeros(shape: Sequence[int], dtype: str, target: str) -> Any:
    """An array on the target's device."""
    return empty(tuple(shape), dtype, device(target))
