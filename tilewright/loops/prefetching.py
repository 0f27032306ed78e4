"""Prefetches: statements that bring a region of a buffer into the cache, one per line.

if i + 2 < 64:
    for line in range(4): prefetch(A[i + 2, line * 16])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..arith.facts import Facts
from ..arith.region import extremes
from ..arith.simplify import prove, simplify
from ..core.dtype import DType
from ..core.hardware import LoopKind
from ..expr.effects import PREFETCH
from ..expr.nodes import Call, Expr, Load, Var
from ..expr.operators import add, const, floordiv, greater_equal, less, less_equal, maximum, minimum, multiply, subtract
from ..expr.traverse import substitute
from .nodes import AddressOf, Evaluate, For, If, Stmt

CACHE_LINE = 64
"""Bytes."""

Region = list[tuple[Expr, Expr]]


def prefetched(
    read: Callable[[tuple[Expr, ...]], Expr],
    name: str,
    region: Region,
    dtype: DType,
) -> Stmt:
    """Prefetch a region, the (first, last) index of each dimension; `read` makes the element at some indices."""
    line = max(1, CACHE_LINE // dtype.bytes)
    at: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for d, (first, last) in enumerate(region):
        step = line if d == len(region) - 1 else 1
        count = floordiv(add(subtract(last, first), step), step)
        var = Var(f"prefetch.{name}.{d}", count.dtype)
        single = prove(less_equal(count, 1))
        at.append(first if single else add(first, multiply(var, step)))
        loops += [] if single else [(var, simplify(count))]
    place = read(tuple(at))
    stmt: Stmt = Evaluate(Call(PREFETCH, (AddressOf(place, const(1, "int32"), True, False),), DType("int32")))
    for var, count in reversed(loops):
        stmt = For(var, const(0, var.dtype), count, LoopKind.SERIAL, None, (), stmt)
    return stmt


def region_read(
    loads: Sequence[Load],
    shape: Sequence[Expr],
    values: Mapping[Var, Expr],
    inner: Mapping[Var, tuple[Expr, Expr]],
    facts: Facts,
) -> Region:
    """The part of a tensor of that shape that some loads read while the loops `inner` run, inside the tensor."""
    found: Region = []
    for d, extent in enumerate(shape):
        last = subtract(extent, 1)
        ends = [extremes(simplify(substitute(load.indices[d], dict(values)), facts), inner, facts) for load in loads]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            found.append((const(0, extent.dtype), last))
            continue
        low, high = known[0].lo, known[0].hi
        for end in known[1:]:
            low, high = minimum(low, end.lo), maximum(high, end.hi)
        low = low if prove(greater_equal(low, 0), facts) else maximum(low, 0)
        high = high if prove(less_equal(high, last), facts) else minimum(high, last)
        found.append((simplify(low, facts), simplify(high, facts)))
    return found


def ahead(stmt: Stmt, var: Var, extent: Expr, offset: int) -> Stmt:
    """`stmt` for the iteration of the loop over `var` that is `offset` later, where there is one."""
    later = add(var, offset)
    made: Stmt = substitute(stmt, {var: later})
    return If(less(later, extent), made, None)
