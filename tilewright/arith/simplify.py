"""Simplifying and proving: the face of this floor."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..expr import nodes as n
from ..expr import operators as build
from ..expr.nodes import FALSE, TRUE, Expr
from . import compare, forms, logic, splits  # these fill the tables of the engine
from .engine import HANDLERS, difference, visit
from .facts import EMPTY, Facts, is_index
from .prove import nonneg


def simplify(e: Expr, facts: Facts = EMPTY) -> Expr:
    """The simplest expression found that has e's value wherever the facts hold.

    Indices (signed integers of 32 bits or more) are taken not to overflow. Floating-point results keep every bit.
    """
    found = facts.memo.get(e)
    if found is not None:
        return found
    _prepare(facts)
    return visit(e, facts)


def prove(cond: Expr, facts: Facts = EMPTY) -> bool:
    """Whether the condition provably holds wherever the facts do."""
    return simplify(cond, facts) is TRUE


def prove_equal(a: Expr, b: Expr, facts: Facts = EMPTY) -> bool:
    """Whether a and b are provably of one value wherever the facts hold."""
    if a is b:
        return True
    _prepare(facts)
    if is_index(a.dtype) and is_index(b.dtype):
        gap = difference(a, b, facts)
        return not gap.terms and gap.const == 0 or (nonneg(gap, facts) and nonneg(gap.scale(-1), facts))
    return visit(a, facts) is visit(b, facts)


def _prepare(facts: Facts) -> None:
    facts.trim()


def _children(e: Expr, facts: Facts) -> Expr:
    """The node with its children simplified."""
    return e.map_children(lambda child: visit(child, facts))  # type: ignore[no-any-return]


def _same(e: Expr, facts: Facts) -> Expr:
    return e


_FOLD: dict[type, Any] = {
    n.Add: build.add,
    n.Sub: build.subtract,
    n.Mul: build.multiply,
    n.Div: lambda a, b: build.divide(a, b) if a.dtype.is_float else build.truncdiv(a, b),
    n.Mod: build.truncmod,
    n.FloorDiv: build.floordiv,
    n.FloorMod: build.floormod,
    n.Min: build.minimum,
    n.Max: build.maximum,
    n.LT: build.less,
    n.LE: build.less_equal,
    n.GT: build.greater,
    n.GE: build.greater_equal,
    n.EQ: build.equal,
    n.NE: build.not_equal,
}


def _binary(e: Any, facts: Facts) -> Expr:
    """Operators on floats, vectors, narrow and unsigned integers: exact folding only."""
    a, b = visit(e.a, facts), visit(e.b, facts)
    if isinstance(a, (n.IntImm, n.FloatImm)) or isinstance(b, (n.IntImm, n.FloatImm)):
        if a.dtype.is_int and isinstance(b, n.IntImm) and b.value == 0 and type(e) in _DIVISIONS:
            return e if a is e.a and b is e.b else type(e)(a, b)  # type: ignore[no-any-return]
        return _FOLD[type(e)](a, b)  # type: ignore[no-any-return]
    return e if a is e.a and b is e.b else type(e)(a, b)  # type: ignore[no-any-return]


_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)


def _choice(e: Any, facts: Facts) -> Expr:
    cond = visit(e.condition, facts)
    if cond is TRUE:
        return visit(e.true_value, facts)
    if cond is FALSE:
        return visit(e.false_value, facts)
    return choice(e, cond, facts)


def choice(e: Any, cond: Expr, facts: Facts) -> Expr:
    """A Select or IfThenElse of undecided condition."""
    a, b = visit(e.true_value, facts), visit(e.false_value, facts)
    if a is b:
        return a
    if isinstance(cond, n.Not):
        return type(e)(cond.a, b, a)  # type: ignore[no-any-return]
    return type(e)(cond, a, b)  # type: ignore[no-any-return]


def _cast(e: n.Cast, facts: Facts) -> Expr:
    value = visit(e.value, facts)
    return build.cast(e.dtype, value) if isinstance(value, (n.IntImm, n.FloatImm)) else n.Cast(e.dtype, value)


def _call(e: n.Call, facts: Facts) -> Expr:
    made: Any = _children(e, facts)
    if e.name == "likely" and isinstance(made.args[0], n.IntImm):
        return made.args[0]  # type: ignore[no-any-return]
    return made  # type: ignore[no-any-return]


forms.WRITE_CHOICE.append(choice)
compare.FALLBACK.append(_binary)
for _kind in (n.Add, n.Sub, n.Mul, *_DIVISIONS, n.Min, n.Max):
    HANDLERS[_kind] = _binary
for _kind in (n.IntImm, n.FloatImm, n.StringImm, n.Var, n.SizeVar):
    HANDLERS[_kind] = _same
for _kind in (n.Load, n.Ramp, n.Broadcast):
    HANDLERS[_kind] = _children
HANDLERS[n.Select] = HANDLERS[n.IfThenElse] = _choice
HANDLERS[n.Cast] = _cast
HANDLERS[n.Call] = _call
__all__ = ["DType", "logic", "prove", "prove_equal", "simplify", "splits"]
