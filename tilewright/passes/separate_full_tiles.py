"""separate_full_tiles: loop unswitching. Tiles that every guard admits run a version without guards.

    for io, jo:                            for io, jo:
        for k, ii, ji:                         if io * 8 + 7 < n and jo * 32 + 31 < n:
            if io * 8 + ii < n:       =>           for k, ii, ji: ...
                if jo * 32 + ji < n: ...       else:
                                                   as before

Sizes that are unknown, or that no tile divides, then cost one test per tile. The same applies to choices in
expressions. Tiles that lie inside an image read it without asking whether they meet its border, if padding was inlined.
The pass is for the CPU: on a GPU a second copy costs registers, and `partition_loops` cuts loops instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeAlias

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..arith.simplify import simplify
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import FALSE, GE, GT, LE, LT, TRUE, Broadcast, Call, Expr, IfThenElse, IntImm, Ramp, Var
from ..expr.operators import add, all_of, likely, subtract
from ..expr.traverse import conjuncts, post_order, substitute, variables
from ..loops import uses
from ..loops.nodes import Allocate, Evaluate, For, Function, If, Launch, Let, Seq, Stmt, Store, map_statements, seq
from ..loops.walk import inner_first
from .partition_loops import unguarded

Separate: TypeAlias = Callable[[Stmt, frozenset[Var]], "Stmt | None"]
"""Returns two versions of a statement inside loops of these variables, or None if one version is better."""
MAX_STORES = 512
"""Number of stores beyond which a second version costs more compile time than it saves."""


def separate_full_tiles(function: Function, target: Target, options: Options) -> Function:
    """Test all guards within a tile at once, at the outermost place at which each tile has its own test."""
    body = function.body
    if any(map(_is_guard, inner_first(body))):
        body = _visit(body, frozenset(), _without_guards)
    if any(isinstance(node, IfThenElse) for node in post_order(body)):
        body = _visit(body, frozenset(), _without_choices)
    return function if body is function.body else function.with_body(body)


def _visit(stmt: Stmt, around: frozenset[Var], separate: Separate) -> Stmt:
    """Return two versions of `stmt`, or of the statements in it that allow two. `around`: variables of outer loops."""
    made = None if isinstance(stmt, (Allocate, Launch)) else separate(stmt, around)
    if made is not None:
        return made
    if isinstance(stmt, For):
        around |= {stmt.var}
    if isinstance(stmt, Seq):
        return seq(*[_visit(part, around, separate) for part in stmt.stmts])
    return map_statements(stmt, lambda child: _visit(child, around, separate))


def _without_choices(stmt: Stmt, around: frozenset[Var]) -> Stmt | None:
    """Two versions of a statement: the first is for the case that most conditions of its choices hold, and tests none
    of them."""
    inside = inner_first(stmt)
    if not _may_be_copied(inside):
        return None
    choices = [node for node in post_order(stmt) if isinstance(node, IfThenElse) and not uses.read(node.condition)]
    loops = [node for node in inside if isinstance(node, For)]
    repeated = {id(node) for loop in loops for node in post_order(loop.body)}  # `in` would compare, as programs do
    if len(choices) < 2 and repeated.isdisjoint(map(id, choices)):
        return None
    ranges, hidden = _bound(inside)
    worst: dict[Expr, Expr] = {}
    for choice in choices:
        for part in conjuncts(choice.condition):
            end = _worst(part, ranges)
            if end is None or hidden.intersection(variables(end)):
                continue
            end = simplify(end, EMPTY)
            if end is FALSE and any(var in ranges for var in variables(part)):
                return None  # inside that loop, the condition holds for some iterations
            if end is TRUE or around.intersection(variables(end)):
                worst[part] = end
    for group in _by_variables(worst.values()):
        if simplify(all_of(*group), EMPTY) is FALSE:  # all tiles meet a border in this direction
            worst = {part: end for part, end in worst.items() if end not in group}
    tested = [end for end in dict.fromkeys(worst.values()) if end is not TRUE]
    if not tested:
        return None
    return If(likely(all_of(*tested)), _given(stmt, choices, worst), stmt)


def _by_variables(conditions: Iterable[Expr]) -> list[list[Expr]]:
    """The distinct conditions, grouped by their variables."""
    found: dict[frozenset[Var], dict[Expr, None]] = {}
    for condition in conditions:
        found.setdefault(frozenset(variables(condition)), {})[condition] = None
    return [list(group) for group in found.values()]


def _given(stmt: Stmt, choices: list[IfThenElse], known: Collection[Expr]) -> Stmt:
    """The statement with the choices, inner ones first, simplified under the known conditions."""
    made: dict[Expr, Expr] = {}
    for choice in choices:
        value = substitute(choice.true_value, made)
        asked = [part for part in conjuncts(choice.condition) if part not in known]
        made[choice] = IfThenElse(all_of(*asked), value, substitute(choice.false_value, made)) if asked else value
    whole: Stmt = substitute(stmt, made)
    return whole


def _without_guards(stmt: Stmt, around: frozenset[Var]) -> Stmt | None:
    """Two versions of a statement: the first is for the case that all guards in it hold, and has none."""
    nodes = inner_first(stmt)
    guards = [node for node in nodes if _is_guard(node)]
    if not guards or not any(_within_a_loop(stmt, guard) for guard in guards):
        return None
    if any(not uses.written(stmt).isdisjoint(uses.read(guard.condition)) for guard in guards):
        return None  # the value tested in front of the tile may have changed by the time of a guard
    if not _may_be_copied(nodes):
        return None
    conditions = _all_hold(nodes, guards)
    if not conditions or FALSE in conditions or not around.intersection(variables(*conditions)):
        return None  # a test that is equal for all tiles would send all of them to the slow version
    return If(likely(all_of(*conditions)), unguarded(stmt, set(guards)), stmt)


def _may_be_copied(nodes: list[Any]) -> bool:
    """Whether a second version of these statements is worth its compile time, and is equivalent."""
    return sum(isinstance(n, Store) for n in nodes) <= MAX_STORES and not any(
        isinstance(n, (Allocate, Evaluate)) for n in nodes
    )


def _all_hold(nodes: list[Any], guards: list[If]) -> list[Expr]:
    """Conditions under which all guards hold in all iterations of the loops among `nodes`; none if unknown."""
    ranges, hidden = _bound(nodes)
    found: dict[Expr, None] = {}
    for guard in guards:
        for part in _parts(guard.condition):
            worst = _worst(part, ranges)
            if worst is None or hidden.intersection(variables(worst)):
                return []
            found[simplify(worst, EMPTY)] = None
    return [condition for condition in found if condition is not TRUE]


def _bound(nodes: list[Any]) -> tuple[dict[Var, tuple[Expr, Expr]], set[Var]]:
    """Minimum and extent of each loop among `nodes`, and all variables that have no value outside of them."""
    ranges = {node.var: (node.min, node.extent) for node in nodes if isinstance(node, For)}
    return ranges, {node.var for node in nodes if isinstance(node, Let)} | set(ranges)


def _parts(condition: Expr) -> tuple[Expr, ...]:
    """The conditions that a guard asks for, all of them."""
    inner = condition.args[0] if isinstance(condition, Call) else condition
    return conjuncts(inner)


def _is_guard(node: Any) -> bool:
    if not isinstance(node, If) or node.orelse is not None:
        return False
    return isinstance(node.condition, Call) and node.condition.name == "likely"


def _within_a_loop(stmt: Stmt, guard: If) -> bool:
    """Whether a guard is asked more than once in `stmt`, or for each lane."""
    if guard.condition.dtype.lanes > 1:
        return True
    return any(isinstance(node, For) and guard in inner_first(node.body) for node in inner_first(stmt))


def _worst(condition: Expr, ranges: dict[Var, tuple[Expr, Expr]]) -> Expr | None:
    """Return the condition at its hardest point over the lanes and the inner loops; None if that is unknown."""
    if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_int:
        return None
    flip = isinstance(condition, (GT, GE))
    small, large = _end(condition.a, ranges, not flip), _end(condition.b, ranges, flip)
    if small is None or large is None:
        return None
    return type(condition)(small, large)


def _end(e: Expr, ranges: dict[Var, tuple[Expr, Expr]], highest: bool) -> Expr | None:
    """The highest (or lowest) value of a linear expression over its lanes and the loops inside."""
    if isinstance(e, Broadcast):
        e = e.value
    elif isinstance(e, Ramp):
        if not isinstance(e.stride, IntImm):
            return None
        last = e.stride.value * (e.lanes - 1)
        e = add(e.base, last) if (last > 0) is highest else e.base
    if e.dtype.lanes > 1:
        return None
    form = Affine.of(e)
    for var in [v for v in variables(e) if v in ranges]:
        low, extent = ranges[var]
        if any(atom is not var and var in variables(atom) for atom in form.terms) or not isinstance(extent, IntImm):
            return None
        high = subtract(add(low, extent), 1)
        e = substitute(e, {var: high if (form.terms.get(var, 0) > 0) is highest else low})
    return e
