"""hoist_divisions: common-subexpression elimination and loop-invariant code motion for integer divisions.

Integer division is the most expensive index arithmetic on a GPU, and fused axes leave several copies of the same
division in indices and guards. Each division by a constant is bound to a name at the head of the innermost loop (or the
kernel) whose variable it depends on. That place may be outside of guards, since such a division cannot fault. Divisions
of values read from memory stay after the guards that keep the read in bounds. They also stay after stores and barriers
on which the read depends.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Div, Expr, FloorDiv, FloorMod, IntImm, Mod, Var
from ..expr.traverse import post_order, substitute, variables
from ..loops import uses
from ..loops.calls import has_effect
from ..loops.nodes import For, Function, Launch, Let, Stmt, map_statements
from ..loops.walk import map_kernels

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
MOST_VISITS = 256
"""Largest number of occurrences of one node that are counted."""
MAX_NAMES = 64
"""The most names per scope: each name nests the rest of the scope one level deeper, and occupies a register."""


def hoist_divisions(function: Function, target: Target, options: Options) -> Function:
    """Name the integer divisions by constants that occur more than once in one scope of a kernel."""
    return map_kernels(function, _in_kernel)


def _in_kernel(stmt: Launch) -> Launch:
    threads = [var for _, var, _ in stmt.threads]
    return stmt.with_body(_scope(stmt.body, set(threads), set(threads), set()))


def _scope(body: Stmt, own: set[Var], known: set[Var], without: set[Any]) -> Stmt:
    """Return the body of a scope that defines the variables `own` and in which `known` ones are visible.

    `without` has nodes without divisions, as found by the outer scopes.
    """
    counts: Counter[Expr] = Counter()
    _count(body, counts, without, {})
    often = [e for e, times in counts.items() if times > 1 and _belongs(e, own, known)]
    if len(often) > MAX_NAMES:
        kept = set(sorted(often, key=lambda e: -counts[e])[:MAX_NAMES])
        often = [e for e in often if e in kept]
    names: dict[Expr, Var] = {}
    bound: list[tuple[Var, Expr]] = []
    for e in often:  # inner divisions first: outer divisions are then built from their names
        value = e.map_children(lambda child: substitute(child, names))
        names[e] = Var(_name(e), e.dtype)
        bound.append((names[e], value))
    made: Stmt = substitute(body, names)
    made = _inside(made, known | {var for var, _ in bound}, without)
    for var, value in reversed(bound):
        made = Let(var, value, made)
    return made


def _inside(stmt: Stmt, known: set[Var], without: set[Any]) -> Stmt:
    if stmt in without:
        return stmt
    if isinstance(stmt, For):
        body = _scope(stmt.body, {stmt.var}, known | {stmt.var}, without)
        return For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, stmt.pragmas, body)
    return map_statements(stmt, lambda child: _inside(child, known, without))


def _count(node: Any, counts: Counter[Expr], without: set[Any], visits: dict[Any, int]) -> bool:
    """Count the occurrences of divisions, inner ones before outer ones; the parts of a repeated one count once.

    Returns whether `e` contains a division; `without` collects the nodes that contain none. Nodes are shared, and
    nested choices make 2 ** depth occurrences, so a node is not visited more than `MOST_VISITS` times.
    """
    if node in without:
        return False
    times = visits.get(node, 0)
    if times == MOST_VISITS:
        return True
    visits[node] = times + 1
    divides = isinstance(node, _DIVISIONS)
    if divides and counts[node]:
        counts[node] += 1
        return True
    found = divides
    for child in node.children():
        found = _count(child, counts, without, visits) or found
    if divides and node.dtype.is_int and node.dtype.lanes == 1 and isinstance(node.b, IntImm) and node.b.value:
        counts[node] += 1
    if not found:
        without.add(node)
    return found


def _belongs(e: Expr, own: set[Var], known: set[Var]) -> bool:
    used = set(variables(e))
    return bool(used & own) and used <= known and not uses.read(e) and not any(map(has_effect, post_order(e)))


def _name(e: Any) -> str:
    word = "div" if isinstance(e, (Div, FloorDiv)) else "mod"
    stem = e.a.name if isinstance(e.a, Var) else "index"
    return f"{stem}_{word}_{e.b.value}"
