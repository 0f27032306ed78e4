"""Programs for `tw.auto_schedule`: declarations without a schedule, and the same computations on arrays.

Each has a reference for NumPy and PyTorch, and sizes for a GPU, a CPU and a test. This file has products and a
convolution layer; `benchmarks.automatic_fused` has the fused programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright import te, topi

Tensors = tuple[list[Any], list[Any]]
"""The inputs and the outputs of a program."""
FLOAT, HALF = "float32", "float16"


@dataclass(frozen=True)
class Program:
    """A declaration, its reference, and sizes.

    `reference` gets the library (NumPy or PyTorch) and the inputs, and returns an array, or a tuple of arrays.
    `library` is PyTorch's own function if it has one; `is_library` means that no compiler improves it. `limit` is the
    name of the size below which integers stay.
    """

    name: str
    declare: Callable[..., Tensors]
    reference: Callable[..., Any]
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    cpu: Mapping[str, int] = field(default_factory=dict)
    library: Callable[..., Any] | None = None
    limit: str = ""
    error: float = 1e-5
    is_library: bool = False

    def sizes_for(self, kind: str) -> dict[str, int]:
        """The sizes for "gpu", "cpu" or "small"."""
        return dict(self.small if kind == "small" else {**self.sizes, **(self.cpu if kind == "cpu" else {})})

    def arrays(self, tensors: Sequence[Any], sizes: Mapping[str, int], seed: int = 0) -> list[np.ndarray]:
        """Random values of the inputs."""
        rng = np.random.default_rng(seed)
        return [_values(rng, tensor, sizes.get(self.limit, 128)) for tensor in tensors]

    def expected(self, library: Any, arrays: Sequence[Any]) -> list[Any]:
        """The outputs by the reference."""
        made = self.reference(library, *arrays)
        return list(made) if isinstance(made, tuple) else [made]


def _values(rng: np.random.Generator, tensor: Any, limit: int) -> np.ndarray:
    shape, dtype = topi.utils.get_const_tuple(tensor.shape), str(tensor.dtype)
    if dtype.startswith("float"):
        return rng.standard_normal(shape, np.float32).astype(dtype)
    return rng.integers(-127 if dtype == "int8" else 0, limit, shape).astype(dtype)


def error_of(found: Any, expected: Any) -> float:
    """The norm of the difference, relative to the norm of the expected values."""
    found, expected = (np.asarray(each, np.float64) for each in (found, expected))
    return float(np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), 1e-30))


def input_of(name: str, *shape: int, dtype: str = FLOAT) -> Any:
    """An input."""
    return te.placeholder(shape, dtype, name)


def axis_of(extent: int, name: str) -> Any:
    """An axis of a reduction."""
    return te.reduce_axis((0, extent), name=name)


def product(m: int, n: int, k: int, batch: int = 0, fused: bool = False) -> Tensors:
    """float16 operands and results, float32 sums; `fused` adds a bias, applies GELU and adds a residual."""
    b = (batch,) if batch else ()
    left, right, r = input_of("left", *b, m, k, dtype=HALF), input_of("right", *b, k, n, dtype=HALF), axis_of(k, "r")
    shape = (*b, m, n)
    sums = te.compute(
        shape,
        lambda *i: te.sum(left[(*i[:-1], r)].astype(FLOAT) * right[(*i[:-2], r, i[-1])].astype(FLOAT), axis=r),
        name="sums",
    )
    if not fused:
        return [left, right], [te.compute(shape, lambda *i: sums[i].astype(HALF), name="product")]
    bias, residual = input_of("bias", n, dtype=HALF), input_of("residual", *shape, dtype=HALF)

    def finished(*i: Any) -> Any:
        value = sums[i] + bias[i[-1]].astype(FLOAT)
        gelu = value * 0.5 * (1.0 + te.erf(value * math.sqrt(0.5)))
        return (gelu + residual[i].astype(FLOAT)).astype(HALF)

    return [left, right, bias, residual], [te.compute(shape, finished, name="product")]


def _product(xp: Any, left: Any, right: Any, *rest: Any) -> Any:
    made = left @ right
    if not rest:
        return made
    value = made + rest[0]
    if xp is not np:
        return xp.nn.functional.gelu(value) + rest[1]
    return value * 0.5 * (1 + np.vectorize(math.erf)(value * math.sqrt(0.5))) + rest[1]


def pairwise(n: int, m: int, size: int) -> Tensors:
    x, y, k = input_of("x", n, size), input_of("y", m, size), axis_of(size, "k")
    squares = te.compute((n, m), lambda i, j: te.sum((x[i, k] - y[j, k]) * (x[i, k] - y[j, k]), axis=k), name="squares")
    return [x, y], [te.compute((n, m), lambda i, j: te.sqrt(squares[i, j]), name="distances")]


def dequantise(n: int, size: int) -> Tensors:
    x, weights, scale = input_of("x", size), input_of("weights", n, size, dtype="int8"), input_of("scale", n)
    k = axis_of(size, "k")
    real = te.compute((n, size), lambda i, j: weights[i, j].astype(FLOAT) * scale[i], name="real")
    return [x, weights, scale], [te.compute((n,), lambda i: te.sum(real[i, k] * x[k], axis=k), name="product")]


def layer(channels: int, size: int) -> Tensors:
    """The layer of the legacy tutorial: a 3 × 3 convolution with bias and ReLU."""
    x, weights = input_of("x", 1, channels, size, size), input_of("weights", channels, channels, 3, 3)
    bias = input_of("bias", 1, channels, 1, 1)
    made = topi.nn.conv2d_nchw(x, weights, 1, 1, 1, FLOAT)
    return [x, weights, bias], [topi.nn.relu(made + bias)]


def _layer(xp: Any, x: Any, weights: Any, bias: Any) -> Any:
    if xp is not np:
        return xp.relu(xp.nn.functional.conv2d(x, weights, bias.reshape(-1), padding=1))
    h, w = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    terms = (
        np.einsum("nchw,fc->nfhw", padded[:, :, i : i + h, j : j + w], weights[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    return np.maximum(sum(terms) + bias, 0)


def _products() -> list[Program]:
    small = {"m": 16, "n": 24, "k": 32}
    sizes = [(4096, 4096, 4096), (8192, 4096, 4096), (128, 4096, 4096), (16, 4096, 4096), (1, 4096, 4096)]
    made = [
        Program(f"product {m}×{n}×{k}", product, _product, {"m": m, "n": n, "k": k}, small, error=2e-3, is_library=True)
        for m, n, k in sizes
    ]
    batches = {"m": 512, "n": 512, "k": 64, "batch": 64}
    made.append(
        Program(
            "64 products 512×512×64", product, _product, batches, {**small, "batch": 3}, error=2e-3, is_library=True
        )
    )
    return made + [
        Program(
            f"product {m}×{n}×{k}, bias, GELU, residual", product, _product,
            {"m": m, "n": n, "k": k, "fused": True}, {**small, "fused": True}, error=2e-3,
        )
        for m, n, k in sizes[:3]
    ]  # fmt: skip


PRODUCTS = tuple(_products())
LAYER = Program("tutorial's layer", layer, _layer, {"channels": 512, "size": 7}, {"channels": 6, "size": 5})
