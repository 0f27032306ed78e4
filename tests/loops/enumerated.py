"""The oracle for dataflow: a kernel written out, each access of each thread one after the other.

Shares no code with the analysis: it knows statements and the value of an expression, and nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from tilewright.core.hardware import MemoryScope
from tilewright.expr.evaluate import UndefinedValueError, evaluate
from tilewright.expr.nodes import Expr, IfThenElse, Load, Var
from tilewright.loops.nodes import (
    Allocate,
    Barrier,
    Buffer,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
)


class Event(NamedTuple):
    """One element read or written after `epoch` barriers; `moment`: by which statement, in which iteration."""

    buffer: Buffer
    element: int
    writes: bool
    block: tuple[int, ...]
    thread: tuple[int, ...]
    epoch: int
    moment: tuple[Any, ...]


def events(function: Function) -> list[Event]:
    """All accesses of a kernel to shared memory. Values are 0: neither indices nor guards may depend on memory."""
    launch: Any = function.body
    while not isinstance(launch, Launch):
        launch = launch.body
    variables = [var for _, var, _ in launch.threads]
    extents = [evaluate(extent, {}) for _, _, extent in launch.threads]
    found: list[Event] = []
    for at in product(*map(range, extents)):
        block = tuple(i for (tag, _, _), i in zip(launch.threads, at, strict=True) if tag.is_block)
        thread = tuple(i for (tag, _, _), i in zip(launch.threads, at, strict=True) if tag.is_thread)
        found += _Thread(dict(zip(variables, at, strict=True)), block, thread).run(launch.body)
    return found


class _Thread:
    def __init__(self, env: dict[Var, int], block: tuple[int, ...], thread: tuple[int, ...]) -> None:
        self.env = env
        self.block = block
        self.thread = thread
        self.epoch = 0
        self.found: list[Event] = []

    def run(self, body: Stmt) -> list[Event]:
        self.statement(body, ())
        return self.found

    def value(self, e: Expr) -> int:
        return int(evaluate(e, self.env, lambda source, indices: 0))

    def statement(self, stmt: Any, at: tuple[Any, ...]) -> None:
        if isinstance(stmt, Seq):
            for k, part in enumerate(stmt.stmts):
                self.statement(part, (*at, k))
        elif isinstance(stmt, For):
            self.reads(at, stmt.min, stmt.extent)
            first, count = self.value(stmt.min), self.value(stmt.extent)
            for i in range(first, first + count):
                self.env[stmt.var] = i
                self.statement(stmt.body, (*at, i))
        elif isinstance(stmt, If):
            self.reads((*at, "if"), stmt.condition)
            chosen = stmt.then if self.value(stmt.condition) else stmt.orelse
            if chosen is not None:
                self.statement(chosen, (*at, _Branch(chosen is stmt.then)))
        elif isinstance(stmt, Let):
            self.reads((*at, "let"), stmt.value)
            self.env[stmt.var] = self.value(stmt.value)
            self.statement(stmt.body, (*at, "in"))
        elif isinstance(stmt, Allocate):
            self.statement(stmt.body, at)
        elif isinstance(stmt, Store):
            self.reads(at, *stmt.indices, stmt.value)
            self.access(stmt.buffer, stmt.indices, True, at)
        elif isinstance(stmt, Evaluate):
            self.reads(at, stmt.value)
        else:
            assert isinstance(stmt, Barrier), stmt
            self.epoch += 1

    def reads(self, at: tuple[Any, ...], *roots: Expr) -> None:
        for root in roots:
            for load in self.loads(root):
                self.access(load.source, load.indices, False, at)

    def loads(self, e: Expr) -> Iterator[Any]:
        if isinstance(e, IfThenElse):
            yield from self.loads(e.condition)
            yield from self.loads(e.true_value if self.value(e.condition) else e.false_value)
            return
        for child in e.children():
            yield from self.loads(child)
        if isinstance(e, Load):
            yield e

    def access(self, buffer: Buffer, indices: tuple[Expr, ...], writes: bool, at: tuple[Any, ...]) -> None:
        if buffer.scope is not MemoryScope.SHARED:
            return
        try:
            elements = evaluate(indices[0], self.env)
        except UndefinedValueError:
            return
        many = [elements] if indices[0].dtype.lanes == 1 else list(elements)
        self.found += [Event(buffer, int(e), writes, self.block, self.thread, self.epoch, at) for e in many]


class _Branch(NamedTuple):
    """Which branch a moment is in."""

    taken: bool


def _one_statement(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two moments are one, or are in the two branches of one statement, which different threads take."""
    apart = next(((x, y) for x, y in zip(a, b, strict=False) if x != y), None)
    return a == b if apart is None else all(isinstance(x, _Branch) for x in apart)


def races(found: list[Event], within: bool = False) -> Iterator[tuple[Event, Event]]:
    """Pairs of accesses of different threads that no barrier orders, at least one a write.

    Those of one statement in one iteration, which no barrier can part, count only where `within` asks for them.
    """
    places: dict[tuple[Any, ...], list[Event]] = defaultdict(list)
    for event in found:
        places[event.buffer, event.element, event.block, event.epoch].append(event)
    for here in places.values():
        writers = [event for event in here if event.writes]
        for writer in writers:
            for other in here:
                if other.thread != writer.thread and (within or not _one_statement(writer.moment, other.moment)):
                    yield writer, other
                    break
