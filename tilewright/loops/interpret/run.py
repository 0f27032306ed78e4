"""Runs a function of the loop grammar in NumPy: the oracle for the meaning of programs.

Code outside kernels runs one value at a time. A kernel (the outermost THREAD loop that holds others, or a `Launch`)
runs over its whole grid at once. All threads execute each statement together, under a mask of the active ones. Large
grids are taken some blocks at a time. A statement that stands in no threadIdx loop, though others of its kernel do, is
executed by all threads. VTHREAD, UNROLLED, PARALLEL and VECTORIZED loops run one iteration after the other.

Faults are raised as `InterpretError`. They are accesses out of bounds, reads of unwritten memory, integer divisions by
zero, races, and barriers that not all threads of a block reach. The destination of a copy counts as unwritten until it
is awaited. A race is a read and a write, or two writes, of one element. The accesses are by different blocks, or by
different threads without a barrier in between. It is none if every such write stores the present value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy import count_nonzero

from ...core.hardware import HARDWARE_TAGS, ThreadTag
from ...core.recursion import deep
from ...expr import nodes as n
from ...expr.numerics import Value
from ..assertions import failure
from ..describe import describe
from ..nodes import (
    REPORT,
    Allocate,
    Await,
    Barrier,
    Buffer,
    Commit,
    Copy,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Let,
    LifetimeStart,
    LoopKind,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
)
from .arena import byte_stores
from .copies import Flights
from .grid import Grid, footprint, hardware_loops, stored_roots
from .memory import InterpretError
from .races import EVERY, Shadow
from .running_function import RunningFunction
from .values import own

Run = Callable[[Value], None]  # runs a statement in the lanes of the mask (None: all)
LANES = 1 << 17  # threads that run at once: arrays of this size stay in the cache
CELLS = 1 << 23  # elements of shared or local memory that exist at once


@deep
def interpret(
    function: Function,
    args: Sequence[np.ndarray | int],
    *,
    check: bool = True,
    races: bool = True,
    unwritten: bool = True,
    outputs: Collection[Buffer] = (),
    lanes: int = LANES,
    functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
) -> None:
    """Run `function` on `args`, in place.

    `check` finds faults (else they have no defined effect). `races=False` leaves out races, for programs with barriers
    that are not yet placed: then all threads take each statement together. `unwritten=False` lets programs read
    unwritten elements, which are NaN or a large odd number. `outputs` are parameters with contents that count as
    unwritten. About `lanes` threads run at once. `functions` implements, by name, functions that the program calls but
    does not define: a pointer comes as an array of the elements that follow it.
    """
    machine = StatementRunner(check, check and races, lanes, functions, unwritten)
    copies_back = machine.bind(function, args, frozenset(outputs))
    run = machine.statement(function.body)
    with np.errstate(all="ignore"):
        run(None)
    for array, data in copies_back:
        array[...] = data.reshape(array.shape)


class StatementRunner(RunningFunction):
    """Runs statements."""

    def statement(self, stmt: Stmt) -> Run:
        """The function that runs `stmt`."""
        make: Any = _STATEMENTS.get(type(stmt))
        if make is None:
            raise InterpretError(f"the interpreter does not know the statement {type(stmt).__name__}")
        run: Run = make(self, stmt)
        return run

    def _seq(self, stmt: Seq) -> Run:
        parts = [self.statement(s) for s in stmt.stmts]

        def run(mask: Value) -> None:
            for part in parts:
                part(mask)

        return run

    def _evaluate(self, stmt: Evaluate) -> Run:
        if isinstance(stmt.value, n.Call) and stmt.value.name == REPORT:
            return self._reported(stmt)
        said = failure(stmt)
        if said is not None:
            return self._failed(said.message)
        value = self.expression(stmt.value)

        def run(mask: Value) -> None:
            self.at = stmt
            value(mask)

        return run

    def _reported(self, stmt: Evaluate) -> Run:
        def run(mask: Value) -> None:
            if mask is None or np.any(mask):
                raise InterpretError(f"an index is out of bounds, as `{describe(stmt)}` reports")

        return run

    def _failed(self, message: str) -> Run:
        def run(mask: Value) -> None:
            if mask is None or np.any(mask):
                raise InterpretError(f"an assertion does not hold: {message}")

        return run

    def _store(self, stmt: Store) -> Run:
        buffer, value = stmt.buffer, self.expression(stmt.value)
        if stmt.value.dtype.scalar != buffer.dtype.scalar:
            raise InterpretError(f"`{describe(stmt)}` stores {stmt.value.dtype} in memory of {buffer.dtype}")
        locate, report = self.expression.place(buffer, stmt.indices), self.report_for(buffer)

        def run(mask: Value) -> None:
            self.at = stmt
            new = value(mask)
            place = locate(mask)
            parts = [(place, new)] if buffer.byte_offset is None else byte_stores(place, new)
            for at, part in parts:
                if at.storage.shadow is None or self.grid is None or report is None:
                    at.storage.store(at, part, mask)
                else:
                    at.storage.store_checked(at, part, mask, self.grid.actors(buffer.scope), report)

        return run

    def _copy(self, stmt: Copy) -> Run:
        buffer, value = stmt.buffer, self.expression(stmt.value)
        locate, report = self.expression.place(buffer, stmt.indices), self.report_for(buffer)

        def run(mask: Value) -> None:
            self.at = stmt
            new = value(mask)
            place = locate(mask)
            if self.grid is None:
                raise InterpretError("a copy stands outside any kernel")
            for at, part in [(place, new)] if buffer.byte_offset is None else byte_stores(place, new):
                self.flights.issue(self.grid, at, part, mask, report)

        return run

    def _commit(self, stmt: Commit) -> Run:
        def run(mask: Value) -> None:
            self.at = stmt
            self.together(mask, "copies are committed")
            assert self.grid is not None
            self.flights.commit(self.grid, mask)

        return run

    def _await(self, stmt: Await) -> Run:
        def run(mask: Value) -> None:
            self.at = stmt
            self.together(mask, "copies are awaited")
            assert self.grid is not None
            self.flights.await_groups(self.grid, stmt.pending, mask)

        return run

    def _let(self, stmt: Let) -> Run:
        value, body = self.expression(stmt.value), self.statement(stmt.body)

        def run(mask: Value) -> None:
            self.at = stmt
            self.define(stmt.var, own(value(mask)))
            body(mask)
            self.forget(stmt.var)

        return run

    def _allocate_around(self, stmt: Allocate) -> Run:
        buffer, body = stmt.buffer, self.statement(stmt.body)

        def run(mask: Value) -> None:
            self.at = stmt
            self.storages[buffer] = self._allocate(buffer)
            body(mask)
            del self.storages[buffer]
            for name in [b for b in self.views if b.memory is buffer]:
                del self.views[name]

        return run

    def _if(self, stmt: If) -> Run:
        condition, then = self.expression(stmt.condition), self.statement(stmt.then)
        orelse = None if stmt.orelse is None else self.statement(stmt.orelse)

        def run(mask: Value) -> None:
            self.at = stmt
            on = condition(mask)
            if not isinstance(on, np.ndarray):
                if on:
                    then(mask)
                elif orelse is not None:
                    orelse(mask)
                return
            off = ~on if orelse is not None else None
            _under(mask, own(on), then)
            if orelse is not None:
                _under(mask, off, orelse)

        return run

    def _while(self, stmt: While) -> Run:
        condition, body = self.expression(stmt.condition), self.statement(stmt.body)

        def run(mask: Value) -> None:
            active = mask
            while True:
                self.at = stmt
                on = condition(active)
                if not isinstance(on, np.ndarray):
                    if not on:
                        return
                else:  # threads that leave the loop do not return
                    active = own(on) if active is None else active & on
                    if not count_nonzero(active):
                        return
                body(active)

        return run

    def _for(self, stmt: For) -> Run:
        if stmt.kind is LoopKind.THREAD and any(True for _ in hardware_loops(stmt)):
            return self._thread(stmt)
        low, extent = self.expression(stmt.min), self.expression(stmt.extent)
        body, var, kind = self.statement(stmt.body), stmt.var, stmt.var.dtype.numpy.type

        def run(mask: Value) -> None:
            self.at = stmt
            start, count = low(mask), extent(mask)
            if isinstance(start, np.ndarray) or isinstance(count, np.ndarray):
                self._ragged(var, own(start), own(count), mask, body)
            else:
                env, slots = self.env, self.expression.slots.get(var, ())
                for i in range(int(start), int(start) + int(count)):
                    env[var] = kind(i)
                    for slot in slots:
                        slot[0] = None
                    body(mask)
            self.forget(var)

        return run

    def _ragged(self, var: n.Var, start: Value, count: Value, mask: Value, body: Run) -> None:
        """A loop with a range that differs between threads: it runs to the longest, with finished threads masked."""
        active = np.broadcast_arrays(count, True if mask is None else mask)
        longest = max((int(c) for c in np.unique(active[0][active[1]])), default=0)
        for i in range(longest):
            self.define(var, start + var.dtype.numpy.type(i))
            if isinstance(count, np.ndarray):
                _under(mask, count > i, body)
            else:
                body(mask)

    def _lifetime_start(self, stmt: LifetimeStart) -> Run:
        def run(mask: Value) -> None:
            self.storages[stmt.buffer].forget(mask)

        return run

    def _tensorized(self, stmt: Tensorized) -> Run:
        return self.statement(stmt.body)

    def _barrier(self, stmt: Barrier) -> Run:
        def run(mask: Value) -> None:
            self.at = stmt
            if self.grid is None:
                raise InterpretError("a barrier stands outside any kernel")
            blocks = None
            if mask is not None:
                on = np.broadcast_to(mask, self.grid.shape)
                blocks = on.any(axis=(0, 1, 2))
                if self.check and (uneven := blocks & ~on.all(axis=(0, 1, 2))).any():
                    self.fail("a barrier that not all threads of the block reach; it lacks", ~on & uneven)
            self.grid.pass_barrier(stmt.scope, blocks)

        return run

    # Kernels.

    def _thread(self, stmt: For) -> Run:
        assert stmt.thread is not None
        tag, body = stmt.thread, self.statement(stmt.body)
        low, extent = self.expression(stmt.min), self.expression(stmt.extent)
        loops = tuple(hardware_loops(stmt))

        def inside(mask: Value) -> None:
            grid = self.grid
            assert grid is not None
            if tag is ThreadTag.VTHREAD:
                start = int(low(mask))
                for i in range(start, start + int(extent(mask))):
                    self.define(stmt.var, stmt.var.dtype.numpy.type(i))
                    body(mask)
                self.forget(stmt.var)
                return
            start = low(mask)
            index = grid.index(tag, stmt.var)
            self.define_index(stmt.var, index if not np.any(start) else start + index)
            body(mask)
            del self.env[stmt.var]

        def run(mask: Value) -> None:
            if self.grid is not None:
                return inside(mask)
            extents: dict[ThreadTag, int] = {}
            for loop in loops:
                assert loop.thread is not None
                size = int(self.scalar(loop.extent, f"the extent of {loop.thread.value}"))
                if extents.setdefault(loop.thread, size) != size:
                    raise InterpretError(
                        f"{loop.thread.value} has extents {extents[loop.thread]} and {size} in one kernel"
                    )
            return self._kernel(stmt, extents, inside)

        return run

    def _launch(self, stmt: Launch) -> Run:
        body = self.statement(stmt.body)

        def inside(mask: Value) -> None:
            assert self.grid is not None
            for tag, var, _ in stmt.threads:
                self.define_index(var, self.grid.index(tag, var))
            body(mask)
            for _, var, _ in stmt.threads:
                del self.env[var]

        def run(mask: Value) -> None:
            if self.grid is not None:
                raise InterpretError(f"kernel {stmt.name} is launched from within a kernel")
            extents = {tag: int(self.scalar(e, f"the extent of {tag.value}")) for tag, _, e in stmt.threads}
            self._kernel(stmt, extents, inside)

        return run

    def _kernel(self, stmt: For | Launch, extents: dict[ThreadTag, int], inside: Run) -> None:
        """Run a kernel, some of its blocks at a time."""
        sizes = tuple(extents.get(tag, 1) for tag in HARDWARE_TAGS)
        x, y, z = sizes[:3]
        threads = int(np.prod(sizes[3:]))
        if self.races and threads >= EVERY:
            raise InterpretError(
                f"{threads} threads per block are too many to look for races (races=False leaves it out)"
            )
        written = [self.storages[b] for b in stored_roots(stmt) if b in self.storages] if self.races else []
        for storage in written:
            storage.shadow = Shadow(storage.flat.size)
        at_once = max(1, min(self.lanes // threads, CELLS // max(1, footprint(stmt, threads))))
        self.axes = 4
        for start in range(0, x * y * z if threads else 0, at_once):
            self.grid = Grid(sizes, start, min(x * y * z, start + at_once))
            self.flights = Flights()
            inside(None)
        self.axes, self.grid = 0, None
        for storage in written:
            storage.shadow = None


_STATEMENTS: dict[type, Callable[[StatementRunner, Any], Run]] = {
    Seq: StatementRunner._seq,
    Evaluate: StatementRunner._evaluate,
    Store: StatementRunner._store,
    Copy: StatementRunner._copy,
    Commit: StatementRunner._commit,
    Await: StatementRunner._await,
    Let: StatementRunner._let,
    Allocate: StatementRunner._allocate_around,
    If: StatementRunner._if,
    For: StatementRunner._for,
    While: StatementRunner._while,
    LifetimeStart: StatementRunner._lifetime_start,
    Barrier: StatementRunner._barrier,
    Tensorized: StatementRunner._tensorized,
    Launch: StatementRunner._launch,
}


def _under(mask: Value, on: Value, body: Run) -> None:
    """Run `body` in the lanes of `mask` in which `on` holds, if there are any."""
    active = on if mask is None else mask & on
    if count_nonzero(active):
        body(active)
