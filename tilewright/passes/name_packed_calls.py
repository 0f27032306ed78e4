"""name_packed_calls: three-address form for calls of packed functions, which host code makes one at a time.

    B[i] = call_packed("f", A[i] + 1) * 2 + C[i]   ->

    Allocate(given[1], Seq(given[0] = A[i] + 1,
                           Let(x, given[0], Let(y, call_packed("f", x), B[i] = y * 2 + C[i]))))

Host code reads single elements and computes with integers; compiled code first stores the other parts of an argument. A
choice with a call on one side becomes an `If`, so that only the chosen side calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtype import INT32
from ..core.options import Options
from ..core.target import Target
from ..expr import operators as op
from ..expr.nodes import Call, Cast, Expr, IfThenElse, IntImm, Load, StringImm, Var
from ..expr.traverse import post_order
from ..loops.calls import ARRAY, is_packed
from ..loops.nodes import Allocate, Buffer, Evaluate, Function, If, Let, Stmt, Store, map_statements, seq
from ..loops.storage import AddressOf

_ZERO = IntImm(0, INT32)


def name_packed_calls(function: Function, target: Target, options: Options) -> Function:
    """Name each call of a packed function, and each of its arguments."""
    return function.with_body(_named(function.body)) if _calls(function.body) else function


def _calls(node: Any) -> bool:
    return any(is_packed(at) for at in post_order(node))


def _named(stmt: Stmt) -> Stmt:
    """A statement with calls of packed functions only as whole values of `Let` and `Evaluate`."""
    if not _calls(stmt):
        return stmt
    if isinstance(stmt, Store):
        return _each((*stmt.indices, stmt.value), lambda parts: stmt.with_parts(parts[:-1], parts[-1]))
    if isinstance(stmt, Evaluate):
        if isinstance(stmt.value, Call) and is_packed(stmt.value):
            return _given(stmt.value, Evaluate)
        return _without(stmt.value, Evaluate)
    if isinstance(stmt, Let):
        var, body = stmt.var, _named(stmt.body)
        if isinstance(stmt.value, Call) and is_packed(stmt.value):
            return _given(stmt.value, lambda call: Let(var, call, body))
        return _without(stmt.value, lambda value: _known(value, lambda known: Let(var, known, body)))
    if isinstance(stmt, If):
        then, orelse = _named(stmt.then), None if stmt.orelse is None else _named(stmt.orelse)
        return _without(stmt.condition, lambda value: _decided(value, then, orelse))
    return map_statements(stmt, _named)


def _without(e: Expr, go_on: Callable[[Expr], Stmt]) -> Stmt:
    """The result of `go_on` for `e` after its calls have been replaced by names."""
    if not _calls(e):
        return go_on(e)
    if isinstance(e, Call) and is_packed(e):
        value = Var("returned", e.dtype)
        return _given(e, lambda call: Let(value, call, go_on(value)))
    if isinstance(e, IfThenElse):
        yes, no = e.true_value, e.false_value
        return _without(e.condition, lambda c: _decided(c, _without(yes, go_on), _without(no, go_on)))

    def rebuilt(parts: tuple[Expr, ...]) -> Stmt:
        left = iter(parts)
        return go_on(e.map_children(lambda _: next(left)))

    return _each(e.children(), rebuilt)


def _each(parts: tuple[Any, ...], go_on: Callable[[tuple[Any, ...]], Stmt], done: tuple[Any, ...] = ()) -> Stmt:
    """`_without` for several expressions, evaluated from left to right."""
    if len(done) == len(parts):
        return go_on(done)
    return _without(parts[len(done)], lambda value: _each(parts, go_on, (*done, value)))


def _given(call: Call, go_on: Callable[[Expr], Stmt]) -> Stmt:
    """The result of `go_on` for a call with arguments that host code knows."""

    def known(done: tuple[Expr, ...]) -> Stmt:
        if len(done) == len(call.args):
            return go_on(Call(call.name, done, call.dtype))
        return _without(call.args[len(done)], lambda value: _known(value, lambda arg: known((*done, arg))))

    return known(())


def _decided(condition: Expr, then: Stmt, orelse: Stmt | None) -> Stmt:
    if _is_known(condition):
        return If(condition, then, orelse)
    return _known(Cast(INT32, condition), lambda value: If(op.not_equal(value, _ZERO), then, orelse))


def _known(e: Expr, go_on: Callable[[Expr], Stmt]) -> Stmt:
    """The result of `go_on` for a value that host code knows: `e`, or the name of a value stored by compiled code."""
    if _is_known(e):
        return go_on(e)
    value = Var("given", e.dtype)
    if isinstance(e, Load) and isinstance(e.source, Buffer) and all(map(_is_known, e.indices)):
        return Let(value, e, go_on(value))
    element = Buffer("given", e.dtype, (IntImm(1, INT32),))
    stored = Store(element, (_ZERO,), e)
    return Allocate(element, seq(stored, Let(value, Load(element, (_ZERO,)), go_on(value))))


def _is_known(e: Expr) -> bool:
    """Whether host code evaluates `e` as compiled code does: integers, and values that it only passes on."""
    if isinstance(e, (StringImm, AddressOf, Var)) or (isinstance(e, Call) and e.name == ARRAY) or not e.children():
        return True
    return all(at.dtype.is_int or at.dtype.is_bool for at in post_order(e) if isinstance(at, Expr)) and not any(
        isinstance(at, (Load, Call)) for at in post_order(e)
    )
