"""unroll_loops: loops that the schedule unrolls are written out, or marked for the back end's compiler."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.nodes import IntImm
from ..expr.operators import add, const
from ..expr.traverse import substitute
from ..loops.nodes import Evaluate, For, Function, Seq, Stmt, Store, map_statements, seq

MAX_AUTO_DEPTH = 8


@dataclass(frozen=True)
class _Policy:
    """What the pragmas around a loop say."""

    max_step: int = 0
    explicit: bool = True


@dataclass
class _Weight:
    """The size of a statement: stores once unrolled, nested unrolled loops, nested loops that stay."""

    steps: int = 0
    unrolled: int = 0
    loops: int = 0


def unroll_loops(function: Function) -> Function:
    """Write out loops marked UNROLLED, and serial ones that `auto_unroll_max_step` admits.

    Under `unroll_explicit=0` loops are marked UNROLLED instead of written out. Raises UserError for a loop
    whose extent is not constant.
    """
    return function.with_body(_visit(function.body, _Policy(), _Weight()))


def _visit(stmt: Stmt, policy: _Policy, weight: _Weight) -> Stmt:
    if isinstance(stmt, For):
        return _loop(stmt, policy, weight)
    if isinstance(stmt, Seq):
        parts = []
        for part in stmt.stmts:
            own = _Weight()
            parts.append(_visit(part, policy, own))
            weight.steps += own.steps
            weight.unrolled = max(weight.unrolled, own.unrolled)
            weight.loops = max(weight.loops, own.loops)
        return seq(*parts)
    if isinstance(stmt, (Store, Evaluate)):
        weight.steps += 1
        return stmt
    return map_statements(stmt, lambda child: _visit(child, policy, weight))


def _loop(stmt: For, policy: _Policy, weight: _Weight) -> Stmt:
    for key, value in stmt.pragmas:
        if key == "auto_unroll_max_step":
            policy = replace(policy, max_step=int(value))
        elif key == "unroll_explicit":
            policy = replace(policy, explicit=bool(value))
    body = _visit(stmt.body, policy, weight)
    extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else -1
    unrolls = stmt.kind is LoopKind.UNROLLED
    if unrolls and extent < 0:
        raise UserError(
            f"loop {stmt.var.name!r} has the extent `{stmt.extent}`, which is not constant",
            primitive="unroll",
            fix="split the axis by a constant factor and unroll the inner loop",
        )
    if stmt.kind is LoopKind.SERIAL and extent >= 0 and weight.loops == 0 and weight.unrolled <= MAX_AUTO_DEPTH:
        unrolls = extent * weight.steps <= policy.max_step
    if unrolls:
        weight.steps *= extent
        weight.unrolled += 1
    else:
        weight.loops += 1
    if unrolls and policy.explicit:
        steps = (add(stmt.min, const(i, stmt.var.dtype)) for i in range(extent))
        return seq(*(substitute(body, {stmt.var: value}) for value in steps))
    kind = LoopKind.UNROLLED if unrolls else stmt.kind
    return For(stmt.var, stmt.min, stmt.extent, kind, stmt.thread, stmt.pragmas, body)
