"""vectorize_guarded_loops: short loops with a guard run on vectors wherever the guard holds for all iterations.

    for s in range(16):                          if i * 16 + 15 < n:
        if i * 16 + s < n:                =>         B[i * 16 : i * 16 + 16] = A[i * 16 : i * 16 + 16]
            B[i * 16 + s] = A[i * 16 + s]        else: the loop

`vectorize_loops` leaves a loop whose guard differs between the lanes as a serial one, since a GPU's threads
diverge cheaply. A CPU would run all of it one element at a time. LLVM, left alone, makes a branch per element.
"""

from __future__ import annotations

from typing import Any

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..core.hardware import LoopKind
from ..expr.nodes import GE, GT, LE, LT, Broadcast, Call, Expr, IntImm, Load, Ramp, Var
from ..expr.operators import add, all_of, const, is_const, likely
from ..expr.traverse import conjuncts, post_order, substitute, variables
from ..loops.nodes import For, Function, If, Let, Stmt, Store, map_statements
from .vectorize_loops import on_vectors

MAX_LANES = 64


def vectorize_guarded_loops(function: Function) -> Function:
    """Give short serial loops with guards on their own variable a version on vectors, for where the guards hold.

    Only where all memory is accessed in its own order: anything else is for LLVM to weigh.
    """
    return function.with_body(_visit(function.body))


def _visit(stmt: Stmt) -> Stmt:
    made = map_statements(stmt, _visit)
    if isinstance(made, For) and made.kind is LoopKind.SERIAL and isinstance(made.extent, IntImm):
        lanes = made.extent.value
        if 1 < lanes <= MAX_LANES:
            return _with_vectors(made, lanes)
    return made


def _with_vectors(loop: For, lanes: int) -> Stmt:
    guards = {node: None for node in post_order(loop.body) if _is_guard(node, loop.var)}
    if not guards:
        return loop
    ramp = Ramp(loop.min, const(1, loop.var.dtype), lanes)
    asked = dict.fromkeys(part for guard in guards for part in conjuncts(guard.condition.args[0]))
    ends = [end for part in asked if (end := _at_its_end(part, ramp, loop.var)) is not None]
    inner = {node.var for node in post_order(loop.body) if isinstance(node, (For, Let))}
    if len(ends) < len(asked) or inner.intersection(variables(*ends)):
        return loop  # a condition of a loop further in cannot be asked out here
    made = on_vectors(_without(loop.body, set(guards)), ramp, loop.var, EMPTY)
    if made is None or not all(_in_order(node) for node in post_order(made)):
        return loop
    return If(likely(all_of(*ends)), made, loop)


def _is_guard(node: Any, var: Var) -> bool:
    if not isinstance(node, If) or node.orelse is not None:
        return False
    condition = node.condition
    return isinstance(condition, Call) and condition.name == "likely" and var in variables(condition)


def _at_its_end(condition: Expr, ramp: Ramp, var: Var) -> Expr | None:
    """The condition in the iteration where it holds last; None where that may be any."""
    if var not in variables(condition):
        return condition
    if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_int:
        return None
    smaller, larger = (condition.a, condition.b) if isinstance(condition, (LT, LE)) else (condition.b, condition.a)
    slack = Affine.of(smaller) - Affine.of(larger)  # what grows here makes the condition fail
    if any(atom is not var and var in variables(atom) for atom in slack.terms):
        return None
    last = add(ramp.base, ramp.lanes - 1) if slack.terms.get(var, 0) > 0 else ramp.base
    return substitute(condition, {var: last})  # type: ignore[no-any-return]


def _in_order(node: Any) -> bool:
    """Whether a node accesses memory, if at all, by ascending vectors or one element for all lanes."""
    if not isinstance(node, (Load, Store)):
        return True
    return all(
        index.dtype.lanes == 1
        or isinstance(index, Broadcast)
        or (isinstance(index, Ramp) and is_const(index.stride, 1))
        for index in node.indices
    )


def _without(stmt: Stmt, guards: set[Any]) -> Stmt:
    if stmt in guards and isinstance(stmt, If):
        return _without(stmt.then, guards)
    return map_statements(stmt, lambda child: _without(child, guards))
