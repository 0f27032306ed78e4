"""How an axis is made of others. Each relation owns all its behaviour for expressions.

A relation connects the axes above it (closer to the operation's own axes) with the axes below it (closer to
the loops). Below a relation every range starts at 0; only an operation's own axes carry another minimum.
`bounds/infer.py` asks relations for ranges, `bounds/nest.py` for values, `bounds/guards.py` for guards. The machine
model estimates ranges and values with arrays instead, one element per configuration (`tune/model/extents.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..core.dtype import INT32
from ..expr.nodes import Expr, IntImm
from ..expr.operators import add, const, floordiv, floormod, is_const, less, maximum, minimum, multiply, subtract
from ..tensor.axis import AxisKind, IterVar, Range

Simplify = Callable[[Expr], Expr]


def ceil_div(a: Expr, b: Expr) -> Expr:
    """a / b rounded up, for b > 0."""
    return floordiv(add(a, subtract(b, 1)), b)


@dataclass(frozen=True)
class Relation:
    """Base of the relations; `above` and `below` are the axes that it connects."""

    @property
    def above(self) -> tuple[IterVar, ...]:
        """The axes that are replaced."""
        raise NotImplementedError

    @property
    def below(self) -> tuple[IterVar, ...]:
        """The axes that replace them."""
        raise NotImplementedError

    def ranges_down(
        self, ranges: Mapping[IterVar, Range], fixed: Callable[[IterVar], bool], simplify: Simplify
    ) -> dict[IterVar, Range]:
        """The ranges of the axes below from the ranges above; `fixed(axis)`: its extent must not shrink (a
        thread's)."""
        raise NotImplementedError

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        """The values of the axes above, from the values of the axes below."""
        raise NotImplementedError

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        """The values of the axes below, from the values of the axes above."""
        raise NotImplementedError

    def guard(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> Expr | None:
        """The condition under which the axes below stay inside the ranges above, None if they always do."""
        return None


@dataclass(frozen=True)
class Split(Relation):
    """`parent` is outer * factor + inner; exactly one of `factor` and `nparts` is given by the user."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None

    @property
    def above(self) -> tuple[IterVar, ...]:
        return (self.parent,)

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    def ranges_down(
        self, ranges: Mapping[IterVar, Range], fixed: Callable[[IterVar], bool], simplify: Simplify
    ) -> dict[IterVar, Range]:
        extent = ranges[self.parent].extent
        if self.factor is not None:
            inner = self.factor if fixed(self.inner) else _at_most(self.factor, extent)
            outer = simplify(ceil_div(extent, self.factor))
        else:
            parts = self.nparts
            if parts is None:
                raise ValueError("a split has a factor or nparts")
            outer = parts if fixed(self.outer) else _at_most(parts, extent)
            inner = simplify(ceil_div(extent, parts))
        return {self.outer: Range(outer), self.inner: Range(inner)}

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        step = self._step(ranges)
        value = add(multiply(values[self.outer], step), values[self.inner])
        return {self.parent: add(value, ranges[self.parent].min)}

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        step = self._step(ranges)
        offset = subtract(values[self.parent], ranges[self.parent].min)
        return {self.outer: floordiv(offset, step), self.inner: floormod(offset, step)}

    def guard(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> Expr | None:
        span = ranges[self.parent]
        return less(subtract(values[self.parent], span.min), span.extent)

    def _step(self, ranges: Mapping[IterVar, Range]) -> Expr:
        return self.factor if self.factor is not None else ranges[self.inner].extent


def _at_most(wanted: Expr, extent: Expr) -> Expr:
    """The smaller extent if both are known: a loop need not be longer than its range."""
    if not isinstance(wanted, IntImm) or not isinstance(extent, IntImm):
        return wanted
    return minimum(wanted, extent) if extent.value else const(1, extent.dtype)  # tiles of nothing still divide


def exact_product(a: Expr, b: Expr) -> Expr:
    """a * b; constants that would wrap get as many bits as the product needs."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value * b.value > INT32.max_value // 2:
        return const(a.value * b.value, "int64")
    return multiply(a, b)


@dataclass(frozen=True)
class Fuse(Relation):
    """`fused` runs over all pairs (outer, inner), inner fastest."""

    outer: IterVar
    inner: IterVar
    fused: IterVar

    @property
    def above(self) -> tuple[IterVar, ...]:
        return (self.outer, self.inner)

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.fused,)

    def ranges_down(
        self, ranges: Mapping[IterVar, Range], fixed: Callable[[IterVar], bool], simplify: Simplify
    ) -> dict[IterVar, Range]:
        outer, inner = ranges[self.outer].extent, ranges[self.inner].extent
        if self.fused.kind is AxisKind.REDUCE and not (isinstance(outer, IntImm) or isinstance(inner, IntImm)):
            outer = maximum(outer, 0)  # two arguments below 0 would have a product above it
        return {self.fused: Range(simplify(exact_product(outer, inner)))}

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        width = ranges[self.inner].extent
        if is_const(width, 0):  # no iteration runs, so any value is correct
            width = const(1, width.dtype)
        fused, outer, inner = values[self.fused], ranges[self.outer].min, ranges[self.inner].min
        if is_const(ranges[self.outer].extent, 1):  # no wrap: guards keep the fused axis inside its range
            return {self.outer: outer, self.inner: add(fused, inner)}
        return {self.outer: add(floordiv(fused, width), outer), self.inner: add(floormod(fused, width), inner)}

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        width = ranges[self.inner].extent
        outer = subtract(values[self.outer], ranges[self.outer].min)
        inner = subtract(values[self.inner], ranges[self.inner].min)
        return {self.fused: add(multiply(outer, width), inner)}


@dataclass(frozen=True)
class Singleton(Relation):
    """`axis` is a new axis of extent 1, the result of fusing no axes."""

    axis: IterVar

    @property
    def above(self) -> tuple[IterVar, ...]:
        return ()

    @property
    def below(self) -> tuple[IterVar, ...]:
        return (self.axis,)

    def ranges_down(
        self, ranges: Mapping[IterVar, Range], fixed: Callable[[IterVar], bool], simplify: Simplify
    ) -> dict[IterVar, Range]:
        return {self.axis: Range(const(1, "int32"))}

    def values_up(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        return {}

    def values_down(self, values: Mapping[IterVar, Expr], ranges: Mapping[IterVar, Range]) -> dict[IterVar, Expr]:
        return {self.axis: const(0, "int32")}
