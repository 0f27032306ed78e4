"""One extent per thread index and kernel: the extents that the stages of a kernel bind to one index must agree.

A loop of extent 1 agrees with every other: all threads along its index run its body.

    for threadIdx.z in range(4): ...          for threadIdx.z in range(4): ...
    for threadIdx.z in range(1): f(z)   ->    for threadIdx.z in range(4): f(0)
"""

from __future__ import annotations

from ..bounds.nest import is_one
from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, ThreadTag
from ..expr.nodes import Expr
from ..expr.operators import const
from ..expr.traverse import substitute
from .nodes import For, Let, Stmt, Store, is_exchange, map_statements
from .walk import statements


def thread_loops(stmt: Stmt) -> list[For]:
    """The thread loops within a statement, outermost and first ones first."""
    return [loop for loop in statements(stmt) if isinstance(loop, For) and loop.kind is LoopKind.THREAD]


def thread_extents(kernel: Stmt) -> dict[ThreadTag, Expr]:
    """The extent of each thread index of a kernel, in the order of their loops. Raises UserError if two differ."""
    found: dict[ThreadTag, Expr] = {}
    for tag, extent in _indices(thread_loops(kernel)):
        known = found.setdefault(tag, extent)
        if known is not extent:
            raise _mismatch(tag, known, extent, kernel)
    return found


def _indices(loops: list[For]) -> list[tuple[ThreadTag, Expr]]:
    """The hardware indices of loops, and their extents."""
    real = [(loop.thread, loop.extent) for loop in loops if loop.thread is not ThreadTag.VTHREAD]
    return [(tag, extent) for tag, extent in real if tag is not None]


def unify_thread_extents(stmt: Stmt) -> Stmt:
    """Each kernel of a nest with one extent per thread index. Raises UserError if loops of one index disagree."""
    if not isinstance(stmt, For) or stmt.kind is not LoopKind.THREAD or stmt.thread is ThreadTag.VTHREAD:
        return map_statements(stmt, unify_thread_extents)
    found = dict.fromkeys(_indices(thread_loops(stmt)))
    if len(found) == len({tag for tag, _ in found}):
        return stmt
    kernel = _widened(stmt, list(found))
    thread_extents(kernel)
    return kernel


def _widened(kernel: Stmt, indices: list[tuple[ThreadTag, Expr]]) -> Stmt:
    """A kernel whose loops of extent 1 run as often as the others of their thread index."""
    extents = {tag: extent for tag, extent in indices if not is_one(extent)}
    wanted = {tag: extents[tag] for tag, extent in indices if is_one(extent) and tag in extents}

    def visit(stmt: Stmt) -> Stmt:
        made = map_statements(stmt, visit)
        if not isinstance(made, For) or made.thread not in wanted or not is_one(made.extent) or _exchanges(made):
            return made
        assert made.thread is not None
        body: Stmt = substitute(made.body, {made.var: const(0, made.var.dtype)})
        extent = wanted[made.thread]
        return For(made.var, made.min, extent, made.kind, made.thread, made.pragmas, body)

    return visit(kernel)


def _exchanges(stmt: Stmt) -> bool:
    """Whether threads combine values within a statement: how many take part then matters."""
    return any(isinstance(part, (Store, Let)) and is_exchange(part.value) for part in statements(stmt))


def last_stage(stmt: Stmt) -> str:
    """The stage whose result a statement stores last."""
    wrote = [part.buffer.note or part.buffer.name for part in statements(stmt) if isinstance(part, Store)]
    return wrote[-1] if wrote else "?"


def _mismatch(tag: ThreadTag, first: Expr, second: Expr, kernel: Stmt) -> UserError:
    stages: dict[str, str] = {}
    for loop in thread_loops(kernel):
        if loop.thread is tag:
            stages.setdefault(str(loop.extent), last_stage(loop.body))
    return UserError(
        f"{tag.value} has extent {first} for stage {stages.get(str(first))!r} and {second} for stage "
        f"{stages.get(str(second))!r}, but a kernel has one extent per thread index",
        primitive="bind",
        fix=f"split so that both loops bound to {tag.value} have the same extent",
        suspects=(Suspect(("bind",), tuple(stages.values()), tag=tag.value),),
    )
