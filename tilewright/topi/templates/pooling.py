"""Pooling: the largest value or the average of each window of images."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UserError
from ...expr.convert import cast, const
from ...expr.intrinsics import TABLE
from ...expr.operators import all_of, any_of, floordiv, if_then_else, maximum, minimum, select
from ...tensor.axis import reduce_axis
from ...tensor.reduction import comm_reducer
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, placeholder
from .. import references
from .declarations import image_tensor
from .epilogue import Expression
from .images import PerChannel, window
from .layouts import in_layout, in_memory, in_order, layout_of
from .workload import dtype_of, shape_of, sum_dtype

MAX, AVERAGE, AVERAGE_INSIDE = "max", "average", "average inside"
_isnan = TABLE["isnan"]
_largest = comm_reducer(
    # NaN propagates, as in PyTorch.
    lambda x, y: select(any_of(y > x, _isnan(y)), y, x),
    lambda dtype: const(float("-inf"), dtype),
    name="largest",
)


@dataclass(frozen=True)
class Pooling(PerChannel):
    """A window over images. `how` is "max", "average" (of the whole window) or "average inside" (of the part in the
    image).

    An average of the whole window does not count the last `beyond` rows and columns of the padding. `divisor` is the
    divisor of an average; 0 means the number of counted values.
    """

    name: ClassVar[str] = "pool"

    shape: tuple[int, ...]
    how: str
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    dtype: str
    layout: str
    beyond: tuple[int, int] = (0, 0)
    divisor: int = 0

    @classmethod
    def of(
        cls,
        shape: Any,
        how: str = MAX,
        kernel: Any = 2,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        dtype: str = "float32",
        layout: str = "NCHW",
        beyond: Any = (0, 0),
        divisor: int = 0,
    ) -> Pooling:
        """The workload; `shape` is batch, channels, height, width in every layout."""
        images = shape_of(cls.name, shape, "NCHW")
        if how not in (MAX, AVERAGE, AVERAGE_INSIDE):
            raise UserError(
                f"how {how} is unknown", primitive=cls.name, fix=f"give {MAX}, {AVERAGE} or {AVERAGE_INSIDE}"
            )
        return cls(images, how, *window(cls.name, images, kernel, stride, padding, dilation),
                   dtype_of(cls.name, dtype), layout_of(cls.name, layout), _pair(beyond), int(divisor))  # fmt: skip

    @property
    def terms(self) -> int:
        return prod(self.kernel)

    def placeholders(self) -> tuple[Tensor, Tensor]:
        """Return fresh tensors: the data, twice, because there are no weights."""
        data = placeholder(in_layout(self.layout, self.shape), self.dtype, "data")
        return data, data

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        ry, rx = reduce_axis((0, self.kernel[0]), name="ry"), reduce_axis((0, self.kernel[1]), name="rx")
        top, left, bottom, right = self.padding
        neutral = const(float("-inf") if self.how == MAX else 0.0, self.dtype)
        reduce = _largest if self.how == MAX else reduce_sum

        def value(n: Any, c: Any, y: Any, x: Any) -> Any:
            row, column = self.source(y, x, ry, rx)
            row, column = row - top, column - left
            inside = [row >= 0] if top else []
            inside += [row < self.shape[2]] if bottom else []
            inside += [column >= 0] if left else []
            inside += [column < self.shape[3]] if right else []
            seen = data(*in_layout(self.layout, (n, c, row, column)))
            seen = if_then_else(all_of(*inside), seen, neutral) if inside else seen
            return reduce(cast(sum_dtype(self.dtype), seen), axis=[ry, rx])

        sizes = (*self.shape[:2], *self.places)
        return image_tensor(self.layout, sizes, value, "sums", f"pool,{self.how}", "ncyx")

    def averaged(self, v: Any, *position: Any) -> Any:
        """Divide a sum by the number of values that count in it."""
        _, y, x = self._place(position)
        if self.divisor or (self.how == AVERAGE and self.beyond == (0, 0)):
            return v * const(1.0 / (self.divisor or prod(self.kernel)), v.dtype)
        seen = self._seen(0, y) * self._seen(1, x)
        return v / cast(v.dtype, seen)

    def _place(self, position: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        first = self.layout == "NCHW"
        return position[1 if first else 3], position[2 if first else 1], position[3 if first else 2]

    def _seen(self, dim: int, at: Any) -> Any:
        """Return the number of counted taps along one dimension: taps in the input, and in the padding if it counts."""
        start, apart, taps = at * self.stride[dim] - self.padding[dim], self.dilation[dim], self.kernel[dim]
        size = self.shape[2 + dim]
        if self.how == AVERAGE:  # zeros in the padding count
            start = at * self.stride[dim]
            size = size + self.padding[dim] + self.padding[2 + dim] - self.beyond[dim]
        if apart == 1 and max(self.padding[dim], self.padding[dim + 2]) < taps:  # every window sees something
            return minimum(start + taps, size) - maximum(start, 0)
        before, within = (floordiv(maximum(n, 0) + apart - 1, apart) for n in (-start, size - start))
        return maximum(minimum(within, taps) - before, 0)

    @property
    def expression(self) -> Expression | None:
        """The division of a sum by its count, for an average."""
        return None if self.how == MAX else self.averaged

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        images = in_order(self.layout, data)
        window = self.kernel, self.stride, self.padding, self.dilation
        return in_memory(self.layout, references.pool_python(images, self.how, *window, self.beyond, self.divisor))

    def sample(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Random data, and the result in float64."""
        data, _ = self.inputs(np.random.default_rng())
        return [data], [self.numpy(data.astype(np.float64), data)]


def _pair(given: Any) -> tuple[int, int]:
    first, second = given
    return int(first), int(second)
