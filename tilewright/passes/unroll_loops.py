"""unroll_loops: loop unrolling, in the program or by a mark for the back end's compiler.

The pass first decides, from the inside out, which loops to unroll; the policy and its thresholds come from the legacy
compiler. It then writes out all chosen nested loops at once. The body is already simplified, so in an index that is
linear in the loop variables, only the constant changes from copy to copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..arith.facts import EMPTY, Facts
from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind
from ..core.node import Node
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import FALSE, TRUE, Call, Expr, IntImm, Var
from ..expr.operators import add, const
from ..expr.traverse import post_order, substitute
from ..loops.nodes import (
    NOTHING,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    map_statements,
    seq,
)
from ..schedule.primitives.annotate import TASKS
from .specialise import Specialiser

MAX_AUTO_DEPTH = 8
_WRITE_OUT = (("write_out", object()),)
"""The mark of loops to write out: a unique value, which no user's pragma has."""


@dataclass(frozen=True)
class _Policy:
    """The limits that the pragmas around a loop set."""

    max_step: int = 0
    explicit: bool = True
    vector_bytes: int = 16
    """The bytes that the hardware stores at once."""
    marked_stores: int = 0
    """Stores that a loop becomes at most when the back end's compiler unrolls it; 0: any number."""


@dataclass
class _Weight:
    """The size of a statement: stores once unrolled, nested unrolled loops, nested loops that stay.

    `size` counts a store of a long vector as the several that it takes. `copies` is the size of the outermost unrolled
    loops; `longest` is the one that makes most of it.
    """

    steps: int = 0
    unrolled: int = 0
    loops: int = 0
    size: int = 0
    copies: int = 0
    longest: tuple[int, For | None] = (0, None)

    def unroll(self, loop: For, extent: int, most: int = 0) -> None:
        """Count a loop that is unrolled, into `most` stores if that is not 0."""
        self.steps *= extent
        self.unrolled += 1
        self.size = min(self.size * extent, max(self.size, most)) if most else self.size * extent
        self.copies = self.size
        if extent > 1 and self.size > self.longest[0]:
            self.longest = self.size, loop

    def add(self, part: _Weight) -> None:
        """Count one part of a sequence."""
        self.steps += part.steps
        self.unrolled = max(self.unrolled, part.unrolled)
        self.loops = max(self.loops, part.loops)
        self.size += part.size
        self.copies += part.copies
        if part.longest[0] > self.longest[0]:
            self.longest = part.longest


def unroll_loops(function: Function, target: Target, options: Options) -> Function:
    """Write out loops marked UNROLLED, and serial ones that `auto_unroll_max_step` admits.

    Under `unroll_explicit=0` loops are marked UNROLLED instead of written out. If no pragma says otherwise, the options
    apply. Works on simplified programs. Raises UserError for a loop of variable extent, and if more stores would be
    unrolled than `most_unrolled_stores` of the hardware.
    """
    hardware = target.hardware
    policy = _Policy(
        options.unroll_step, options.explicit_unroll, hardware.vector_bytes, marked_stores=hardware.marked_stores
    )
    weight = _Weight()
    chosen: set[Var] = set()
    body = _decide(function.body, policy, weight, chosen)
    _check_size(weight, target)
    return function.with_body(_expand(body, {}, EMPTY, Specialiser(chosen)) if chosen else body)


def _decide(stmt: Stmt, policy: _Policy, weight: _Weight, chosen: set[Var]) -> Stmt:
    """Return `stmt` with the loops to write out marked.

    `weight` accumulates its size, `chosen` the variables of these loops.
    """
    if isinstance(stmt, For):
        return _decide_loop(stmt, policy, weight, chosen)
    if isinstance(stmt, Seq):
        parts = []
        for part in stmt.stmts:
            own = _Weight()
            parts.append(_decide(part, policy, own, chosen))
            weight.add(own)
        return seq(*parts)
    if isinstance(stmt, (Store, Evaluate, Tensorized)):
        weight.steps += 1
        weight.size += _vectors(stmt, policy.vector_bytes)
        return stmt
    return map_statements(stmt, lambda child: _decide(child, policy, weight, chosen))


def _vectors(stmt: Stmt, vector_bytes: int) -> int:
    """How many vectors of the hardware a statement stores."""
    if not isinstance(stmt, Store) or stmt.value.dtype.lanes == 1:
        return 1
    return max(1, -(-stmt.value.dtype.bytes // vector_bytes))


def _decide_loop(stmt: For, policy: _Policy, weight: _Weight, chosen: set[Var]) -> Stmt:
    for key, value in stmt.pragmas:
        if key == "auto_unroll_max_step":
            policy = replace(policy, max_step=int(value))
        elif key == "unroll_explicit":
            policy = replace(policy, explicit=bool(value))
    body = _decide(stmt.body, policy, weight, chosen)
    extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else -1
    unrolls = stmt.kind is LoopKind.UNROLLED
    if unrolls and extent < 0:
        raise UserError(
            f"loop {stmt.var.name!r} has the extent `{stmt.extent}`, which is not constant",
            primitive="unroll",
            fix="split the axis by a constant factor and unroll the inner loop",
            suspects=(Suspect(("unroll",), (_stage(stmt.body),)),),
        )
    tasks = bool(stmt.pragmas) and any(key in TASKS for key, _ in stmt.pragmas)  # tasks stay with their loop
    serial = stmt.kind is LoopKind.SERIAL and not tasks
    once = serial and extent == 1
    if serial and extent >= 0 and weight.loops == 0 and weight.unrolled <= MAX_AUTO_DEPTH:
        unrolls = extent * weight.steps <= policy.max_step
    if unrolls:
        weight.unroll(stmt, extent, 0 if policy.explicit else policy.marked_stores)
    elif not once:
        weight.loops += 1
    if unrolls and policy.explicit and not isinstance(stmt.min, IntImm):  # loop normalisation: the loop begins at 0
        body = substitute(body, {stmt.var: add(stmt.min, stmt.var)})
        stmt = For(stmt.var, const(0, stmt.var.dtype), stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
    if (once or (unrolls and policy.explicit)) and isinstance(stmt.min, IntImm):
        chosen.add(stmt.var)
        return For(stmt.var, stmt.min, stmt.extent, LoopKind.UNROLLED, None, _WRITE_OUT, body)
    kind = LoopKind.UNROLLED if unrolls else stmt.kind
    return For(stmt.var, stmt.min, stmt.extent, kind, stmt.thread, stmt.pragmas, body)


def _check_size(weight: _Weight, target: Target) -> None:
    most, loop = target.hardware.most_unrolled_stores, weight.longest[1]
    if weight.copies <= most or loop is None:
        return
    name, stage = loop.var.name, _stage(loop.body)
    raise UserError(
        f"the unrolled loops of this function are {weight.copies:,} stores, more than the {most:,} that compile in "
        f"reasonable time. {weight.longest[0]:,} of them come from the loop {name!r} of stage {stage!r}, of "
        f"{loop.extent} iterations",
        primitive="unroll",
        fix=f"split {name!r} by a small factor and unroll the inner loop only, or reduce the value of the "
        "pragma auto_unroll_max_step",
        suspects=(Suspect(("unroll", "pragma", "bind"), (stage,), name), Suspect(("pragma",))),
    )


def _stage(stmt: Stmt) -> str:
    """The stage that a statement stores last."""
    stores = [node.buffer for node in post_order(stmt) if isinstance(node, Store)]
    return stores[-1].note or stores[-1].name if stores else "?"


def _expand(stmt: Stmt, values: dict[Var, int], facts: Facts, specialiser: Specialiser) -> Stmt:
    """`stmt` with the chosen loops written out, for the given values of the loops around it."""
    if isinstance(stmt, Store):
        indices = tuple([specialiser.expr(i, values, facts) for i in stmt.indices])
        return Store(stmt.buffer, indices, specialiser.expr(stmt.value, values, facts))
    if isinstance(stmt, For) and stmt.pragmas == _WRITE_OUT:
        return _write_out(stmt, values, facts, specialiser)
    if isinstance(stmt, For):
        if stmt.var in specialiser.chosen:  # a copy of a loop that is written out elsewhere
            stmt = _renamed(stmt)
        low, extent = specialiser.expr(stmt.min, values, facts), specialiser.expr(stmt.extent, values, facts)
        body = _expand(stmt.body, values, facts.bind(stmt.var, low, extent), specialiser)
        return For(stmt.var, low, extent, stmt.kind, stmt.thread, stmt.pragmas, body)
    if isinstance(stmt, If):
        return _branch(stmt, values, facts, specialiser)
    if isinstance(stmt, Let):
        return Let(
            stmt.var, specialiser.expr(stmt.value, values, facts), _expand(stmt.body, values, facts, specialiser)
        )
    if isinstance(stmt, Tensorized):
        return _copied(stmt, values, facts, specialiser)
    if isinstance(stmt, While):
        return While(specialiser.expr(stmt.condition, values, facts), _expand(stmt.body, values, facts, specialiser))
    if isinstance(stmt, Evaluate):
        return Evaluate(specialiser.expr(stmt.value, values, facts))
    return map_statements(stmt, lambda child: _expand(child, values, facts, specialiser))


def _copied(stmt: Tensorized, values: dict[Var, int], facts: Facts, specialiser: Specialiser) -> Stmt:
    def visit(part: Node) -> Node:
        if isinstance(part, Stmt):
            return _expand(part, values, facts, specialiser)
        assert isinstance(part, Expr)
        return specialiser.expr(part, values, facts)

    made: Stmt = stmt.map_children(visit)
    return made


def _renamed(loop: For) -> For:
    var = Var(loop.var.name, loop.var.dtype)
    body: Stmt = substitute(loop.body, {loop.var: var})
    return For(var, loop.min, loop.extent, loop.kind, loop.thread, loop.pragmas, body)


def _write_out(stmt: For, values: dict[Var, int], facts: Facts, specialiser: Specialiser) -> Stmt:
    first, count = int(stmt.min), int(stmt.extent)  # both are constants here
    steps = range(first, first + count)
    return seq(*[_expand(stmt.body, {**values, stmt.var: step}, facts, specialiser) for step in steps])


def _branch(stmt: If, values: dict[Var, int], facts: Facts, specialiser: Specialiser) -> Stmt:
    condition = specialiser.expr(stmt.condition, values, facts)
    decided = condition.args[0] if isinstance(condition, Call) and condition.name == "likely" else condition
    if decided is TRUE:
        return _expand(stmt.then, values, facts, specialiser)
    if decided is FALSE:
        return NOTHING if stmt.orelse is None else _expand(stmt.orelse, values, facts, specialiser)
    orelse = None if stmt.orelse is None else _expand(stmt.orelse, values, facts, specialiser)
    return If(condition, _expand(stmt.then, values, facts, specialiser), orelse)
