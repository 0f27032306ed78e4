"""The memory layout of a buffer's elements. Only `flatten_storage` reads it; later passes see flat indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from ..core.atoms import LANES as LANES
from ..core.atoms import Fragment
from ..expr.nodes import Expr, IntImm
from ..expr.operators import add, const, floordiv, floormod, multiply, subtract


@dataclass(frozen=True)
class StorageLayout:
    """Row-major, with some strides padded: `aligns` maps a dimension to (factor, offset).

    The stride of such a dimension is the smallest one, not below the extent inside, that leaves the remainder `offset`
    when divided by `factor`. So rows can start in different banks of shared memory.

    A parameter may have the strides `given` and the `start` of the passed array instead.

    A `fragment` is distributed over the lanes of a warp. An index is then the place among the sums that one lane holds,
    and only the lane that holds an element may access it.

    A `swizzle` exchanges pieces of 16 bytes within each 128. In a line of that many bytes, piece p lies at p xor the
    line's number modulo 8. It permutes the elements of a buffer, so that facts proven of its indices hold for their
    places too. Indices stay as they are until the pass `swizzle_storage`.
    """

    aligns: tuple[tuple[int, int, int], ...] = ()
    given: tuple[Expr, ...] | None = None
    start: Expr = field(default_factory=lambda: const(0, "int32"))
    fragment: Fragment | None = None
    swizzle: int = 0

    def strides(self, shape: Sequence[Expr]) -> tuple[Expr, ...]:
        """The distance of neighbours along each dimension, in elements."""
        if self.given is not None:
            return self.given
        wanted = {dimension: (factor, offset) for dimension, factor, offset in self.aligns}
        found: list[Expr] = []
        stride: Expr = const(1, shape[-1].dtype if shape else "int32")
        for dimension in reversed(range(len(shape))):
            if dimension in wanted:
                stride = _aligned(stride, *wanted[dimension])
            found.append(stride)
            stride = multiply(stride, shape[dimension])
        return tuple(reversed(found))

    def size(self, shape: Sequence[Expr]) -> Expr:
        """The number of elements that the buffer takes, padding included."""
        if self.fragment is not None:
            return const(prod(int(extent) for extent in shape) // LANES, shape[-1].dtype)
        if self.given is not None:  # up to the last element
            last = self.offset(shape, [subtract(extent, 1) for extent in shape])
            return add(last, 1)
        return multiply(self.strides(shape)[0], shape[0]) if shape else const(1, "int32")

    def offset(self, shape: Sequence[Expr], indices: Sequence[Expr]) -> Expr:
        """The flat index of an element."""
        if self.fragment is not None:
            return _register(self.fragment, shape, indices)
        flat: Expr | None = None
        for stride, index in zip(self.strides(shape), indices, strict=True):
            term = multiply(index, stride)
            flat = term if flat is None else add(flat, term)
        if flat is None:
            return self.start
        return add(self.start, flat) if self.given is not None else flat


def _aligned(stride: Expr, factor: int, offset: int) -> Expr:
    if isinstance(stride, IntImm):
        return const(stride.value + (offset - stride.value) % factor, stride.dtype)
    return add(stride, floormod(subtract(const(offset, stride.dtype), stride), factor))


def _register(fragment: Fragment, shape: Sequence[Expr], indices: Sequence[Expr]) -> Expr:
    """The place of an element among its lane's elements, piece by piece of 8 * halves rows and 8 columns."""

    def position(places: tuple[int, ...]) -> Expr:
        at = indices[places[0]]
        for place in places[1:]:
            at = add(multiply(at, shape[place]), indices[place])
        return at

    row, column = position(fragment.rows), position(fragment.columns)
    across = prod(int(shape[place]) for place in fragment.columns) // 8
    group, halves = floordiv(row, 8), fragment.halves
    piece = add(multiply(floordiv(group, halves), across), floordiv(column, 8))
    half = multiply(floormod(group, halves), 2) if halves > 1 else const(0, row.dtype)
    within = add(add(multiply(piece, 2 * halves), half), floormod(column, 2))
    others = [i for i in range(len(shape)) if i not in (*fragment.rows, *fragment.columns)]
    if all(int(shape[i]) == 1 for i in others):
        return within
    tile = prod(int(shape[i]) for i in (*fragment.rows, *fragment.columns)) // LANES
    return add(multiply(position(tuple(others)), tile), within)


ROW_MAJOR = StorageLayout()
