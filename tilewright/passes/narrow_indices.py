"""narrow_indices: index arithmetic that provably fits in 32 bits is computed in 32 bits.

On a GPU, 64-bit index arithmetic takes several instructions per operation, 32-bit arithmetic one. A loop whose range
fits 32 bits counts in 32 bits. A sum, product or comparison is computed in 32 bits and widened afterwards if operands
and result fit, by the ranges of the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arith.facts import EMPTY, Facts
from ..arith.interval import interval
from ..core.dtype import INT32, INT64
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import (
    Add,
    Cast,
    Compare,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Sub,
    Var,
)
from ..expr.operators import const
from ..expr.traverse import rewrite_from, substitute
from ..loops.nodes import For, Function, Launch, Stmt, Store
from ..loops.walk import substatements

_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


def narrow_indices(function: Function, target: Target, options: Options) -> Function:
    """Compute indices in 32 bits if they provably fit; functions without 64-bit loops stay as they are."""
    if not _counts_wide(function.body):
        return function
    return function.with_body(_visit(function.body, EMPTY))


def _counts_wide(stmt: Stmt) -> bool:
    if isinstance(stmt, For) and stmt.var.dtype == INT64:
        return True
    if isinstance(stmt, Launch) and any(var.dtype == INT64 for _, var, _ in stmt.threads):
        return True
    return any([_counts_wide(child) for child in substatements(stmt)])


def _visit(stmt: Stmt, facts: Facts) -> Stmt:
    if isinstance(stmt, For):
        return _loop(stmt, facts)
    if isinstance(stmt, Launch):
        return _launch(stmt, facts)
    if isinstance(stmt, Store):
        rewrite = _narrower(facts)
        indices = tuple(_index(rewrite(i), facts) for i in stmt.indices)
        return stmt.with_parts(indices, rewrite(stmt.value))
    rewrite = _narrower(facts)
    made: Stmt = stmt.map_children(lambda child: _visit(child, facts) if isinstance(child, Stmt) else rewrite(child))
    return made


def _loop(stmt: For, facts: Facts) -> Stmt:
    rewrite = _narrower(facts)
    low, extent = rewrite(stmt.min), rewrite(stmt.extent)
    bound = facts.bind(stmt.var, stmt.min, stmt.extent)
    if stmt.var.dtype != INT64 or not _fits(Add(stmt.min, stmt.extent), facts):
        return For(stmt.var, low, extent, stmt.kind, stmt.thread, stmt.pragmas, _visit(stmt.body, bound))
    var = Var(stmt.var.name, INT32)
    body = substitute(stmt.body, {stmt.var: Cast(INT64, var)})
    narrow_low, narrow_extent = _as_narrow(low, facts), _as_narrow(extent, facts)
    inside = facts.bind(var, narrow_low, narrow_extent)
    return For(var, narrow_low, narrow_extent, stmt.kind, stmt.thread, stmt.pragmas, _visit(body, inside))


def _launch(stmt: Launch, facts: Facts) -> Stmt:
    """Give hardware indices 32 bits: the largest grid fits them."""
    variables = {var: Var(var.name, INT32) for _, var, _ in stmt.threads if var.dtype == INT64}
    body: Stmt = substitute(stmt.body, {var: Cast(INT64, narrow) for var, narrow in variables.items()})
    threads = tuple((tag, variables.get(var, var), extent) for tag, var, extent in stmt.threads)
    ranges = {var: (const(0, var.dtype), _as_narrow(extent, facts)) for _, var, extent in threads}
    return stmt.with_body(_visit(body, facts.bind_all(ranges)), threads)


def _fits(e: Expr, facts: Facts) -> bool:
    lo, hi = interval(e, facts)
    return INT32.min_value <= lo and hi <= INT32.max_value


def _narrow_operand(e: Expr, facts: Facts) -> Expr | None:
    """A 32-bit expression with the value of `e`, if `e` is a widened expression, or a size known to fit."""
    if isinstance(e, IntImm):
        return IntImm(e.value, INT32) if INT32.min_value <= e.value <= INT32.max_value else None
    if isinstance(e, Cast) and e.dtype == INT64 and e.value.dtype.is_int and e.value.dtype.bits <= 32:
        if e.value.dtype == INT32:
            return e.value
        return Cast(INT32, e.value) if e.value.dtype.bits < 32 else None
    return Cast(INT32, e) if isinstance(e, Var) and e.dtype == INT64 and _fits(e, facts) else None


def _as_narrow(e: Expr, facts: Facts) -> Expr:
    """`e`, known to fit, in 32 bits."""
    if e.dtype == INT32:
        return e
    narrow = _narrow_operand(e, facts)
    return Cast(INT32, e) if narrow is None else narrow


def _index(e: Expr, facts: Facts) -> Expr:
    """Compute an index in the fewest bits that it is known to need."""
    if isinstance(e, Ramp):
        base, stride = _narrow_operand(e.base, facts), _narrow_operand(e.stride, facts)
        return e if base is None or stride is None else Ramp(base, stride, e.lanes)
    narrow = _narrow_operand(e, facts)
    return e if narrow is None else narrow


def _narrower(facts: Facts) -> Callable[[Expr], Expr]:
    """The function that rewrites expressions under the facts."""
    memo: dict[Any, Any] = {}

    def rule(before: Expr, e: Any) -> Any:
        if isinstance(e, Load):
            return Load(e.source, tuple([_index(i, facts) for i in e.indices]))
        wide = isinstance(e, _ARITHMETIC) and e.dtype == INT64
        if not wide and not (isinstance(e, Compare) and e.a.dtype == INT64):
            return e
        a, b = _narrow_operand(e.a, facts), _narrow_operand(e.b, facts)
        if a is None or b is None or (isinstance(a, IntImm) and isinstance(b, IntImm)):
            return e
        if not wide:
            return type(e)(a, b)
        return Cast(INT64, type(e)(a, b)) if _fits(before, facts) else e

    return lambda root: rewrite_from(root, rule, memo)
