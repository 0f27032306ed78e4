"""Prefetches: statements that bring a region of a buffer into the cache, one per line.

if i + 2 < 64:
    for line in range(4): prefetch(A[i + 2, line * 16])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from ..arith.facts import Facts
from ..arith.region import extremes
from ..arith.simplify import prove, simplify
from ..bounds.infer import Bounds, StageBounds
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.effects import PREFETCH
from ..expr.nodes import Call, Expr, IntImm, Load, Var
from ..expr.operators import add, const, floordiv, greater_equal, less, less_equal, maximum, minimum, multiply, subtract
from ..expr.traverse import post_order, substitute
from ..schedule.schedule import Loop, Schedule, Stage
from ..tensor.axis import IterVar, Range
from ..tensor.tensor import Tensor
from .nodes import AddressOf, Buffer, Evaluate, For, If, Let, Stmt

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


def prefetched_region(stmt: Stmt) -> list[Range]:
    """Return the region that a prefetch brings into the cache, up to the end of the last line of each row.

    Raises AttributeError for any other statement.
    """
    loops: dict[Var, Expr] = {}
    inner = stmt
    while isinstance(inner, For):
        loops[inner.var] = inner.extent
        inner = inner.body
    call = inner.value if isinstance(inner, Evaluate) else None
    place = call.args[0] if isinstance(call, Call) and call.name == PREFETCH else None
    if not isinstance(place, AddressOf) or not isinstance(place.place, Load):
        raise AttributeError(f"a {type(stmt).__name__} has no bounds: it is no prefetch")
    line, shape, region = max(1, CACHE_LINE // place.buffer.dtype.bytes), place.buffer.shape, []
    for d, index in enumerate(place.place.indices):
        step = line if d == len(shape) - 1 else 1
        first = substitute(index, {var: const(0, var.dtype) for var in loops})
        counts = [extent for var, extent in loops.items() if var in post_order(index)]
        extent = multiply(counts[0], step) if counts else const(step, "int32")
        extent = extent if step == 1 else minimum(extent, subtract(shape[d], first))
        region.append(Range.from_min_extent(simplify(first), simplify(extent)))
    return region


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


def asked_ahead(found: StageBounds, axis: IterVar) -> Iterator[tuple[Tensor, int, Expr]]:
    """A prefetch of a stage in its loop `axis`: the tensor, the distance in iterations, and the number of
    iterations."""
    extent = found.ranges[axis].extent
    for tensor, at, offset in found.stage.prefetches:
        if at is axis and not (isinstance(extent, IntImm) and extent.value <= offset):  # some iteration is so late
            yield tensor, offset, extent


def read_within(body: Stmt, buffer: Buffer, found: StageBounds, loop: Loop) -> Stmt:
    """Prefetch the part of a buffer that the body of a loop reads, itself and in the stages computed there."""
    region = region_within(body, buffer, found.facts)
    if region is None:
        raise UserError(
            f"stage {found.stage.name!r} prefetches {buffer.name!r} at {loop.axis.name!r}, but nothing inside of that "
            f"loop reads {buffer.name!r}",
            primitive="prefetch",
            fix=f"compute the stage that reads {buffer.name!r} inside of that loop, or prefetch in its own loops",
        )
    return prefetched(partial(Load, buffer), buffer.name, region, buffer.dtype)


def region_within(body: Stmt, buffer: Buffer, facts: Facts) -> Region | None:
    """The part of a buffer that a statement reads while the loops inside of it run; None if it reads nothing of it.

    A dimension is taken as a whole if its index depends on values that the statement computes.
    """
    every = tuple(post_order(body))
    loads = [e for e in every if isinstance(e, Load) and e.source is buffer]
    if not loads:
        return None
    loops = {e.var: (e.min, e.extent) for e in every if isinstance(e, For)}
    inside = {e.var for e in every if isinstance(e, Let)} | loops.keys()
    region = region_read(loads, buffer.shape, {}, loops, facts)
    for d, ends in enumerate(region):
        if any(e in inside or isinstance(e, Load) for e in post_order(*ends)):
            region[d] = (const(0, buffer.shape[d].dtype), subtract(buffer.shape[d], 1))
    return region


def check_there(bounds: Bounds, schedule: Schedule, stage: Stage, tensor: Tensor, loops: Sequence[Loop]) -> None:
    """Check that the data that `stage` prefetches at the first of its `loops` is computed before that."""
    producer = bounds.get(schedule.stage_of[tensor.op])
    inside = [loop.axis for loop in loops]
    for loop in producer.outer if producer is not None else ():
        if loop.stage == stage.id and loop.axis in inside:
            raise UserError(
                f"stage {stage.name!r} prefetches {tensor.name!r} at {loops[0].axis.name!r}, but {tensor.name!r} is "
                f"computed inside of that, at {loop.axis.name!r}",
                primitive="prefetch",
                fix=f"compute {tensor.name!r} outside of {loops[0].axis.name!r}, or prefetch its inputs in its own "
                "loops",
            )


def ahead(stmt: Stmt, var: Var, extent: Expr, offset: int) -> Stmt:
    """`stmt` for the iteration that is `offset` later in the loop over `var`, if that iteration exists."""
    later = add(var, offset)
    made: Stmt = substitute(stmt, {var: later})
    return If(less(later, extent), made, None)
