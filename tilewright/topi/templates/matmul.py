"""The matrix products that packaged templates compute: `dense` layers and batches of matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any, ClassVar

import numpy as np

from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute, placeholder
from .contraction import Contraction, MatrixOperand, Views
from .declarations import sum_of_products
from .schedule_helpers import widest_vector
from .workload import INTEGERS, Convolution, dtype_of, shape_of, sizes, sum_dtype


class Product(Convolution):
    """The common part of dense layers and batched products. The depth is the last dimension of the second factor."""

    dtype: str

    @property
    def element(self) -> str:
        return self.dtype

    @property
    def terms(self) -> int:
        return self.shape[-1]

    @property
    def channel_axis(self) -> int | None:
        return len(self.out_shape) - 1

    @property
    def channels(self) -> int:
        return self.out_shape[-1]

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the second factor."""
        return (*self.shape[:-2], self.channels, self.shape[-1])

    def placeholders(self) -> tuple[Tensor, Tensor]:
        return placeholder(self.shape, self.element, "data"), placeholder(self.weights_shape, self.element, "weights")

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        k, kind = reduce_axis((0, self.terms), name="k"), sum_dtype(self.element)

        def value(*indices: Any) -> Any:
            *batch, i, j = indices
            return sum_of_products(kind, data(*batch, i, k), weights(*batch, j, k), [k])

        made: Tensor = compute(self.out_shape, value, "sums", varargs_names=["b", "i", "j"][-len(self.out_shape) :])
        return made

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.asarray(data @ np.swapaxes(weights, -1, -2))

    def torch(self, data: Any, weights: Any) -> list[tuple[str, Callable[[], Any]]]:
        return [("matmul", lambda: data @ weights.mT)]


@dataclass(frozen=True)
class Dense(Product):
    """A fully connected layer: data (rows, depth) times the transpose of weights (units, depth)."""

    name: ClassVar[str] = "dense"

    shape: tuple[int, ...]
    units: int
    dtype: str

    @classmethod
    def of(cls, shape: Any, units: int | None = None, dtype: str = "float32") -> Dense:
        """The workload; `shape` is the shape of the data. `units` defaults to its depth."""
        given = shape_of(cls.name, shape, "MK")
        (count,) = sizes(cls.name, "units", given[-1] if units is None else units, 1)
        return cls(given, count, dtype_of(cls.name, dtype, INTEGERS))

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.shape[0], self.units)


@dataclass(frozen=True)
class BatchMatmul(Product):
    """Products of a batch of matrices: (batch, rows, depth) times the transposes of (batch, columns, depth)."""

    name: ClassVar[str] = "batch_matmul"

    shape: tuple[int, ...]
    columns: int
    dtype: str

    @classmethod
    def of(cls, shape: Any, columns: int | None = None, dtype: str = "float32") -> BatchMatmul:
        """The workload; `shape` is the shape of the first factor. `columns` defaults to its number of rows."""
        given = shape_of(cls.name, shape, "BMK")
        (count,) = sizes(cls.name, "columns", given[1] if columns is None else columns, 1)
        return cls(given, count, dtype_of(cls.name, dtype, INTEGERS))

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (*self.shape[:2], self.columns)


def contraction_of(of: Product) -> Contraction:
    """Return the contraction that computes a product of matrices."""
    *batch, rows, depth = of.shape
    wide = gcd(depth, widest_vector(of.element))
    dimensions = tuple(range(len(of.shape)))
    return Contraction(
        batch[0] if batch else 1, MatrixOperand(rows, True, wide), MatrixOperand(of.channels, True, wide), depth,
        of.element, sum_dtype(of.element), dimensions[:-2], dimensions[-2:-1], dimensions[-1:], run=of.channels,
    )  # fmt: skip


def views_of(of: Product, data: Tensor, weights: Tensor) -> Views:
    """Return the elements of a product's contraction over its tensors."""
    batched = len(of.shape) > 2

    def element(factor: Tensor, b: Any, row: Any, k: Any) -> Any:
        return factor(b, row, k) if batched else factor(row, k)

    def place(*indices: Any) -> tuple[Any, Any, Any]:
        b, i, j = indices if batched else (0, *indices)
        return b, i, j

    return Views(
        lambda b, i, k: element(data, b, i, k),
        lambda b, k, j: element(weights, b, j, k),
        place,
        of.out_shape,
        ("b", "i", "j")[-len(of.out_shape) :],
    )
