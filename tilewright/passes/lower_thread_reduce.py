"""lower_thread_reduce: cross-thread reduction by warp shuffles, or by a tree in shared memory.

Threads of one group (counted by `AllReduce.threads`) combine their values, and all of them get the result:

- Groups of at most a warp, of a power of two neighbours, exchange registers by log2(n) shuffles down. One more hands
  the first lane's result to all.
- Larger groups of whole warps do so in each warp. The first lane of each warp leaves its result in shared memory, and
  each warp combines those.
- Any other group combines in shared memory, in a tree over halves that are rounded up to a power of two. Each step
  writes an array of its own, so that one barrier per step is enough.

Every combination has the value of the lower thread on the left. So all targets agree on the order of a tree's
operations, and all threads of a group on the result. See M. Harris, "Optimizing parallel reduction in CUDA" (NVIDIA,
2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

from ..core.errors import Suspect, UserError
from ..core.hardware import THREAD_TAGS, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Call, Expr, IntImm, Load, Var
from ..expr.operators import add, const, equal, floordiv, floormod, if_then_else, less, multiply
from ..expr.traverse import variables
from ..loops.nodes import (
    Allocate,
    AllReduce,
    Buffer,
    Function,
    If,
    Launch,
    Let,
    LifetimeStart,
    Seq,
    Stmt,
    Store,
    map_statements,
    seq,
)
from ..loops.walk import map_kernels


def lower_thread_reduce(function: Function, target: Target, options: Options) -> Function:
    """Replace every `AllReduce` in kernels by exchanges that the target's threads can make."""
    return map_kernels(function, lambda kernel: _in_kernel(kernel, target.hardware.exchange_width))


def _in_kernel(stmt: Launch, warp: int) -> Launch:
    body = _hoisted(_kernel(stmt.body, stmt, warp))
    return stmt if body is stmt.body else stmt.with_body(body)


def _hoisted(body: Stmt) -> Stmt:
    """Move the arrays of exchanges to the head of their kernel, the place of all shared allocations."""
    head: list[Buffer] = []
    while isinstance(body, Allocate):
        head.append(body.buffer)
        body = body.body

    def strip(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Allocate) and stmt.buffer.scope is MemoryScope.SHARED and not variables(*stmt.buffer.shape):
            head.append(stmt.buffer)
            return seq(LifetimeStart(stmt.buffer), strip(stmt.body))
        return map_statements(stmt, strip)

    inner = strip(body)
    for buffer in reversed(head):
        inner = Allocate(buffer, inner)
    return inner


def _kernel(stmt: Stmt, launch: Launch, warp: int) -> Stmt:
    if isinstance(stmt, Store) and isinstance(stmt.value, AllReduce):
        return _exchange([stmt], launch, warp)
    if not isinstance(stmt, Seq):
        return map_statements(stmt, lambda child: _kernel(child, launch, warp))
    made: list[Stmt] = []
    for collective, run in groupby(stmt.stmts, key=_collective):
        if collective is None:
            made += [_kernel(part, launch, warp) for part in run]
        else:
            made.append(_exchange([part for part in run if isinstance(part, Store)], launch, warp))
    same = len(made) == len(stmt.stmts) and all(a is b for a, b in zip(made, stmt.stmts, strict=True))
    return stmt if same else seq(*made)


def _collective(stmt: Stmt) -> Any:
    """The key that neighbouring stores of one exchange share; None for any other statement."""
    value = stmt.value if isinstance(stmt, Store) else None
    return (value.combiner, value.source, value.threads) if isinstance(value, AllReduce) else None


@dataclass(frozen=True)
class _Group:
    """A group of threads that combine values: its size, this thread's rank in it, and its number in the block."""

    size: int
    rank: Expr
    number: Expr
    block: int
    contiguous: bool

    @property
    def slot(self) -> Expr:
        """The position of this thread's value in memory with the groups in order."""
        return add(multiply(self.number, self.size), self.rank)

    def place(self, rank: Expr, size: int) -> Expr:
        """The position of a value among `size` of each group; neighbouring threads have neighbouring positions."""
        if self.contiguous:
            return add(multiply(self.number, size), rank)
        return add(multiply(rank, self.block // self.size), self.number)


def _group(launch: Launch, threads: tuple[Expr, ...]) -> _Group:
    known = {tag: (var, extent) for tag, var, extent in launch.threads}
    sizes: list[tuple[Var, int]] = []
    for tag in THREAD_TAGS:
        if tag in known:
            var, extent = known[tag]
            if not isinstance(extent, IntImm):
                raise UserError(
                    f"threads combine results in a block, but its extent `{extent}` of {tag.value} is not constant",
                    primitive="bind",
                    fix="split the bound axes by constant factors, and bind the inner loops",
                    suspects=(Suspect(("bind",), tag=tag.value),),
                )
            sizes.append((var, extent.value))
    inside = [(var, size) for var, size in sizes if var in threads]
    outside = [(var, size) for var, size in sizes if var not in threads]
    ordered = [var for var, size in sizes if size > 1]
    count = sum(1 for _, size in inside if size > 1)
    return _Group(
        prod(size for _, size in inside),
        _number(inside),
        _number(outside),
        prod(size for _, size in sizes),
        all(var in threads for var in ordered[:count]),
    )


def _number(indices: Sequence[tuple[Var, int]]) -> Expr:
    """The row-major number of thread indices, the first one fastest."""
    total: Expr = const(0, "int32")
    step = 1
    for var, size in indices:
        if size > 1:
            total = add(total, multiply(var, step))
            step *= size
    return total


def _exchange(stores: list[Store], launch: Launch, warp: int) -> Stmt:
    """Lower the stores of an exchange, of some or all of its values."""
    first = stores[0].value
    assert isinstance(first, AllReduce)
    group = _group(launch, first.threads)
    values = _Values(first, stores)
    power_of_two = group.size & (group.size - 1) == 0
    if group.size == 1:
        body = values.start()
    elif group.contiguous and power_of_two and group.size <= warp:
        body = seq(values.start(), values.shuffled(group.size))
    elif group.contiguous and group.size % warp == 0 and warp < group.size <= warp * warp:
        body = _by_warps(values, group, warp)
    else:
        body = _by_tree(values, group)
    for buffer in reversed(values.own):
        body = Allocate(buffer, body)
    return body


class _Values:
    """The values of an exchange, each in a register: its own for stored values, and a temporary one for each other."""

    def __init__(self, reduction: AllReduce, stores: list[Store]) -> None:
        self.reduction = reduction
        places: dict[int, tuple[Buffer, tuple[Expr, ...]]] = {}
        for store in stores:
            assert isinstance(store.value, AllReduce)
            places.setdefault(store.value.value_index, (store.buffer, store.indices))
        self.own: list[Buffer] = []
        note = stores[0].buffer.note
        for k, source in enumerate(reduction.source):
            if k not in places:
                buffer = Buffer(f"exchanged{k}", source.dtype, (const(1, "int32"),), MemoryScope.LOCAL, note=note)
                self.own.append(buffer)
                places[k] = buffer, (const(0, "int32"),)
        self.places = [places[k] for k in range(len(reduction.source))]

    def now(self) -> tuple[Expr, ...]:
        """Return the current values."""
        return tuple(Load(*place) for place in self.places)

    def start(self) -> Stmt:
        """Return each thread's own values."""
        return self.set(self.reduction.source)

    def set(self, values: Sequence[Expr]) -> Stmt:
        """Store values to the registers."""
        return store_together(self.places, values)

    def combined(self, lower: Sequence[Expr], upper: Sequence[Expr]) -> tuple[Expr, ...]:
        """The combination of the values of two threads."""
        return self.reduction.combiner.combine(lower, upper)

    def shuffled(self, width: int) -> Stmt:
        """Combine over `width` neighbouring lanes of a warp; all of them get the result."""
        steps: list[Stmt] = []
        distance = width // 2
        while distance:
            # Named, so that every lane takes part: a combiner may ask for a value in some lanes only.
            there = [Var(f"{place[0].name}.there", v.dtype) for place, v in zip(self.places, self.now(), strict=True)]
            step = self.set(self.combined(self.now(), there))
            for name, v in reversed(list(zip(there, self.now(), strict=True))):
                step = Let(name, _shuffle("shuffle_down", v, distance, width), step)
            steps.append(step)
            distance //= 2
        steps.append(self.set([_shuffle("shuffle", v, 0, width) for v in self.now()]))
        return seq(*steps)

    def shared(self, size: int) -> list[Buffer]:
        """An array in shared memory for each value."""
        note = self.places[0][0].note
        return [
            Buffer(f"{place[0].name}.shared", v.dtype, (const(size, "int32"),), MemoryScope.SHARED, note=note)
            for place, v in zip(self.places, self.now(), strict=True)
        ]


def store_together(places: Sequence[tuple[Buffer, tuple[Expr, ...]]], values: Sequence[Expr]) -> Stmt:
    """Stores of several values; all values are computed before the first is stored."""
    if len(places) == 1:
        return Store(*places[0], values[0])
    names = [Var(f"{place[0].name}.new", value.dtype) for place, value in zip(places, values, strict=True)]
    body = seq(*(Store(*place, name) for place, name in zip(places, names, strict=True)))
    for name, value in reversed(list(zip(names, values, strict=True))):
        body = Let(name, value, body)
    return body


def _shuffle(name: str, value: Expr, operand: int, width: int) -> Expr:
    return Call(name, (value, const(operand, "int32"), const(width, "int32")), value.dtype)


def _by_warps(values: _Values, group: _Group, warp: int) -> Stmt:
    """Combine in each warp, then over the warps of the group."""
    warps = group.size // warp
    width = 1 << (warps - 1).bit_length()
    shared = values.shared(group.block // warp)
    lane, own = floormod(group.rank, warp), floordiv(group.slot, warp)
    leave = If(equal(lane, 0), seq(*(Store(b, (own,), v) for b, v in zip(shared, values.now(), strict=True))), None)
    base = multiply(group.number, warps)
    lane_of_width = floormod(group.rank, width)
    theirs = [Load(b, (add(base, lane_of_width),)) for b in shared]
    if width != warps:
        identity = values.reduction.combiner.identity
        theirs = [
            if_then_else(less(lane_of_width, warps), v, z)  # type: ignore[misc]  # a load or a choice, both expressions
            for v, z in zip(theirs, identity, strict=True)
        ]
    body = seq(values.start(), values.shuffled(warp), leave, values.set(theirs), values.shuffled(width))
    for buffer in reversed(shared):
        body = Allocate(buffer, body)
    return body


def _by_tree(values: _Values, group: _Group) -> Stmt:
    """Combine in shared memory; each step has half as many threads as the one before, with an array per value."""
    groups, size = group.block // group.size, group.size
    shared = values.shared(group.block)
    arrays, start = list(shared), group.place(group.rank, size)
    steps: list[Stmt] = [
        values.start(),
        seq(*(Store(b, (start,), v) for b, v in zip(shared, values.now(), strict=True))),
    ]
    while size > 1:
        half = (1 << (size - 1).bit_length()) // 2
        lower = [Load(b, (group.place(group.rank, size),)) for b in shared]
        upper = [Load(b, (group.place(add(group.rank, half), size),)) for b in shared]
        reached = less(group.rank, size - half)  # threads beyond have no partner
        new = [
            v if size == 2 * half else if_then_else(reached, v, kept)
            for v, kept in zip(values.combined(lower, upper), lower, strict=True)
        ]
        shared = values.shared(groups * half)
        arrays += shared
        place = group.place(group.rank, half)
        stores = store_together([(b, (place,)) for b in shared], new)
        steps.append(If(less(group.rank, half), stores, None))
        size = half
    result = [Load(b, (group.number,)) for b in shared]
    body = seq(*steps, values.set(result))
    for buffer in reversed(arrays):
        body = Allocate(buffer, body)
    return body
