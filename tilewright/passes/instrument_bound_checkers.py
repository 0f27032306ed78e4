"""Bounds checking: an access beyond the ends of its buffer is reported instead of made.

    B[i] = A[C[i]]   ->   if 0 <= i < 8:
                              if 0 <= C[i] < 16: B[i] = A[C[i]]
                              else: report_access(1, C[i])
                          else: report_access(0, i)

This comes first, while buffers have their dimensions; later passes drop the conditions that are proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from itertools import product
from typing import NamedTuple

from ..core.hardware import LoopKind
from ..core.options import Options
from ..core.target import Target
from ..expr import nodes as n
from ..expr.nodes import TRUE, Expr
from ..expr.operators import all_of, any_of, cast, const, greater_equal, less, logical_and, logical_not, subtract
from ..expr.traverse import post_order, substitute, variables
from ..loops.nodes import (
    NOTHING,
    REPORT,
    AllReduce,
    Assertion,
    BoundChecks,
    Buffer,
    CheckedIndex,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Stmt,
    Store,
    Tensorized,
    While,
    map_statements,
    seq,
)
from ..loops.walk import substatements


def instrument_bound_checkers(function: Function, target: Target, options: Options) -> Function:
    """Check every index of every access if the options ask for that; vector loops become serial ones.

    The texts of `report_access` calls are kept with the function. `lower_bound_reports` gives them their memory.
    """
    instrumenter = _Instrumenter(() if function.checks is None else function.checks.indices)
    body = instrumenter.statement(function.body)
    if not instrumenter.found:
        return function
    checks = BoundChecks(tuple(instrumenter.found))
    return Function(function.name, function.params, body, function.reads, checks, function.imports)


NOWHERE: Mapping[n.Var, tuple[Expr, Expr]] = {}


class _Check(NamedTuple):
    """An index that must be inside its buffer if `under` holds."""

    under: Expr
    inside: Expr
    report: Stmt

    @property
    def holds(self) -> Expr:
        return self.inside if self.under is TRUE else any_of(logical_not(self.under), self.inside)


class _Instrumenter:
    def __init__(self, known: tuple[CheckedIndex | Assertion, ...]) -> None:
        self.found = [*known]

    def statement(self, stmt: Stmt) -> Stmt:
        """Return the statement with checked accesses."""
        if isinstance(stmt, Tensorized):
            return self._instruction(stmt)
        made = map_statements(stmt, self.statement)
        if isinstance(made, Store):
            return self._store(made)
        if isinstance(made, For):
            if made.kind is LoopKind.VECTORIZED:
                made = For(made.var, made.min, made.extent, LoopKind.SERIAL, None, made.pragmas, made.body)
            return self._around(made, _stage(made), made.min, made.extent)
        if isinstance(made, If):
            return self._around(made, _stage(made), made.condition)
        if isinstance(made, While):
            return self._repeated(made)
        if isinstance(made, (Let, Evaluate)):
            return self._around(made, _stage(made), made.value)
        return made

    def _around(self, stmt: Stmt, stage: str, *parts: Expr) -> Stmt:
        """`stmt` under the condition that all reads of its expressions stay inside; the first that does not is
        reported."""
        for check in reversed(self._reads(parts, stage)):
            stmt = If(check.holds, stmt, check.report)
        return stmt

    def _repeated(self, stmt: While) -> Stmt:
        """End a loop with a condition that reads memory when a read leaves its buffer, and report the read."""
        checks = self._reads((stmt.condition,), _stage(stmt))
        if not checks:
            return stmt
        inside = reduce(logical_and, [check.holds for check in checks])
        said: Stmt = NOTHING
        for check in reversed(checks):
            wrong = If(logical_not(check.holds), check.report, None)
            said = wrong if said is NOTHING else If(check.holds, said, check.report)
        return seq(While(logical_and(inside, stmt.condition), stmt.body), said)

    def _store(self, stmt: Store) -> Stmt:
        stage = _name(stmt.buffer)
        own = list(self._access(n.Load(stmt.buffer, stmt.indices), TRUE, f"stage {stage!r} stores to", stage))
        if isinstance(stmt.value, AllReduce):
            return self._exchange(stmt, stmt.value, own, stage)
        made: Stmt = stmt
        for check in reversed([*self._reads((*stmt.indices, stmt.value), stage), *own]):
            made = If(check.holds, made, check.report)
        return made

    def _instruction(self, stmt: Tensorized) -> Stmt:
        """A matrix instruction under the condition that the corners of its tiles are inside; its per-lane body stays as
        it is.

        The lanes of a warp agree on tiles, and so on whether the instruction runs.
        """
        stage = _name(stmt.sums.source)  # type: ignore[attr-defined]
        extents = zip((stmt.row, stmt.column, stmt.depth), stmt.extents, strict=True)
        corners = {var: (const(0, var.dtype), const(extent - 1, var.dtype)) for var, extent in extents}
        checks: list[_Check] = []
        for operand in (stmt.a, stmt.b):
            for e in post_order(operand):
                if isinstance(e, n.Load) and isinstance(e.source, Buffer):
                    checks += self._access(e, TRUE, f"stage {stage!r} reads", stage, corners)
        made: Stmt = stmt
        for check in reversed(checks):
            made = If(check.holds, made, check.report)
        return made

    def _exchange(self, stmt: Store, value: AllReduce, own: list[_Check], stage: str) -> Stmt:
        """A store of values that threads exchange: all threads take part, with the identity if a read leaves its
        buffer."""
        checks = self._reads(value.source, stage)
        reports = [If(logical_not(check.holds), check.report, None) for check in (*checks, *own)]
        source = value.source
        for check in reversed(checks):
            pairs = zip(source, value.combiner.identity, strict=True)
            source = tuple(n.IfThenElse(check.holds, part, start) for part, start in pairs)
        exchanged = AllReduce(value.combiner, source, value.threads, value.value_index)
        return seq(*reports, Store(stmt.buffer, stmt.indices, exchanged))

    def _reads(self, parts: tuple[Expr, ...], stage: str) -> list[_Check]:
        """The checks of all reads in expressions, each after the checks of the read's own indices."""
        checks: list[_Check] = []
        done: set[tuple[Expr, Expr]] = set()
        for part in parts:
            self._visit(part, TRUE, stage, checks, done)
        return checks

    def _visit(self, e: Expr, under: Expr, stage: str, checks: list[_Check], done: set[tuple[Expr, Expr]]) -> None:
        if (e, under) in done or (e, TRUE) in done:
            return
        done.add((e, under))
        for child, condition in _branches(e):
            inside = under if condition is TRUE else condition if under is TRUE else logical_and(under, condition)
            self._visit(child, inside, stage, checks, done)
        if isinstance(e, n.Load) and isinstance(e.source, Buffer):
            checks.extend(self._access(e, under, f"stage {stage!r} reads", stage))

    def _access(
        self, e: n.Load, under: Expr, does: str, stage: str, corners: Mapping[n.Var, tuple[Expr, Expr]] = NOWHERE
    ) -> Iterator[_Check]:
        buffer = e.source
        extents = buffer.shape if isinstance(buffer, Buffer) else ()
        for dimension, (index, extent) in enumerate(zip(e.indices, extents, strict=True)):
            ends = tuple(at for end in _ends(index) for at in _at_corners(end, corners))
            if not ends:
                continue
            bounds = [bound for at in ends for bound in (greater_equal(at, 0), less(at, cast(at.dtype, extent)))]
            said = Evaluate(n.Call(REPORT, (const(len(self.found), "int32"), ends[0]), ends[0].dtype))
            self.found.append(CheckedIndex(f"{does} {e}", buffer.name, dimension, str(subtract(extent, 1))))
            yield _Check(under, all_of(*bounds), said)


def _ends(index: Expr) -> tuple[Expr, ...]:
    """The scalars between which an index lies: itself, or the first and the last lane of a vector."""
    if isinstance(index, n.Ramp):
        return index.base, index.base + index.stride * (index.lanes - 1)
    if isinstance(index, n.Broadcast):
        return (index.value,)
    return (index,) if index.dtype.lanes == 1 else ()


def _at_corners(index: Expr, corners: Mapping[n.Var, tuple[Expr, Expr]]) -> list[Expr]:
    """An index that is linear in the variables of `corners`, at the ends of their ranges."""
    used = [var for var in variables(index) if var in corners]
    chosen = product(*[corners[var] for var in used])
    return [substitute(index, dict(zip(used, values, strict=True))) for values in chosen]


def _branches(e: Expr) -> Iterator[tuple[Expr, Expr]]:
    """The parts of an expression, each with the condition under which it is evaluated."""
    if isinstance(e, (n.IfThenElse, n.Select)):
        yield e.condition, TRUE
        yield e.true_value, e.condition
        yield e.false_value, logical_not(e.condition)
    elif isinstance(e, (n.And, n.Or)):
        yield e.a, TRUE
        yield e.b, e.a if isinstance(e, n.And) else logical_not(e.a)
    else:
        for child in e.children():
            yield child, TRUE


def _name(buffer: Buffer) -> str:
    return buffer.note or buffer.name


def _stage(stmt: Stmt) -> str:
    """The stage of a statement: the stage of its first store."""
    while not isinstance(stmt, Store):
        inner = substatements(stmt)
        if not inner:
            return ""
        stmt = inner[0]
    return _name(stmt.buffer)
