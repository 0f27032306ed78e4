"""split_host_device: loops bound to hardware threads become kernel launches."""

from __future__ import annotations

from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..expr.nodes import Expr, Load, Var
from ..expr.operators import const, equal
from ..expr.traverse import post_order, substitute
from ..loops.nodes import For, Function, If, Launch, Seq, Stmt, Store, seq

_ORDER = {tag: i for i, tag in enumerate(ThreadTag)}


def split_host_device(function: Function) -> Function:
    """Each outermost thread loop becomes a `Launch`; all loops of one tag inside are one hardware index.

    Where part of a kernel does not run over a thread index that another part uses, every thread does that
    part, except for updates of memory that the threads share, which the first thread does alone. Raises
    UserError where loops of one tag have different extents.
    """
    names = _Names(f"{function.name}_kernel")
    return function.with_body(_host(function.body, names))


class _Names:
    def __init__(self, base: str) -> None:
        self.base = base
        self.count = 0

    def fresh(self) -> str:
        """`base`, then `base_1`, `base_2` ..."""
        self.count += 1
        return self.base if self.count == 1 else f"{self.base}_{self.count - 1}"


def _host(stmt: Stmt, names: _Names) -> Stmt:
    if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD:
        return _launch(stmt, names)
    made: Stmt = stmt.map_children(lambda child: _host(child, names) if isinstance(child, Stmt) else child)
    return made


def _launch(stmt: For, names: _Names) -> Launch:
    threads: dict[ThreadTag, tuple[Var, Expr]] = {}
    for loop in _thread_loops(stmt):
        if loop.thread is None:
            continue
        known = threads.setdefault(loop.thread, (loop.var, loop.extent))
        if known[1] is not loop.extent:
            raise _mismatch(loop.thread, known[1], loop.extent, stmt)
    body = _strip(_alone(stmt, {tag: v for tag, (v, _) in threads.items() if tag.is_thread}), threads)
    ordered = sorted(threads.items(), key=lambda item: _ORDER[item[0]])
    return Launch(names.fresh(), tuple((tag, var, extent) for tag, (var, extent) in ordered), body)


def _thread_loops(stmt: Stmt) -> list[For]:
    """The thread loops within a statement, outermost and first ones first."""
    own = [stmt] if isinstance(stmt, For) and stmt.kind is LoopKind.THREAD else []
    return own + [loop for child in stmt.children() if isinstance(child, Stmt) for loop in _thread_loops(child)]


def _mismatch(tag: ThreadTag, first: Expr, second: Expr, kernel: Stmt) -> UserError:
    stages: dict[str, str] = {}
    for loop in _thread_loops(kernel):
        if loop.thread is tag:
            wrote = [node.buffer.note or node.buffer.name for node in post_order(loop.body) if isinstance(node, Store)]
            stages.setdefault(str(loop.extent), wrote[-1] if wrote else "?")
    return UserError(
        f"{tag.value} has extent {first} for stage {stages.get(str(first))!r} and {second} for stage "
        f"{stages.get(str(second))!r}, but a kernel has one extent per thread index",
        primitive="bind",
        fix=f"split so that both loops bound to {tag.value} have the same extent",
    )


def _strip(stmt: Stmt, threads: dict[ThreadTag, tuple[Var, Expr]]) -> Stmt:
    """`stmt` without its thread loops, their variables replaced by those of the launch."""
    if isinstance(stmt, For) and stmt.thread is not None and stmt.thread in threads:
        var = threads[stmt.thread][0]
        body = stmt.body if stmt.var is var else substitute(stmt.body, {stmt.var: var})
        return _strip(body, threads)
    made: Stmt = stmt.map_children(lambda child: _strip(child, threads) if isinstance(child, Stmt) else child)
    return made


def _alone(stmt: Stmt, missing: dict[ThreadTag, Var]) -> Stmt:
    """Let the first thread alone update shared memory where no loop runs over the `missing` thread indices."""
    if isinstance(stmt, For) and stmt.thread in missing:
        missing = {tag: var for tag, var in missing.items() if tag is not stmt.thread}
    if not missing:
        return stmt
    used = {loop.thread for loop in _thread_loops(stmt)}
    if not used & set(missing):
        return _first_thread(stmt, missing) if _updates_shared(stmt) else stmt
    if isinstance(stmt, Seq):
        return seq(*(_alone(part, missing) for part in stmt.stmts))
    made: Stmt = stmt.map_children(lambda child: _alone(child, missing) if isinstance(child, Stmt) else child)
    return made


def _first_thread(stmt: Stmt, missing: dict[ThreadTag, Var]) -> Stmt:
    for var in missing.values():
        stmt = If(equal(var, const(0, var.dtype)), stmt, None)
    return stmt


def _updates_shared(stmt: Stmt) -> bool:
    """Whether some store reads, in its value, memory of the same buffer that several threads share."""
    return any(
        isinstance(node, Store)
        and node.buffer.scope is not MemoryScope.LOCAL
        and any(isinstance(e, Load) and e.source is node.buffer for e in post_order(node.value))
        for node in post_order(stmt)
    )
