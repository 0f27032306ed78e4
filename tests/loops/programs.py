"""Short words for building loop nests by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.core.hardware import LoopKind, MemoryScope, ThreadTag
from tilewright.expr.nodes import Broadcast, Expr, Load, Ramp, Var
from tilewright.expr.operators import as_expr
from tilewright.loops.nodes import Allocate, Buffer, For, Function, Launch, Stmt, Store, seq

TAGS = {
    "bx": ThreadTag.BLOCK_X,
    "by": ThreadTag.BLOCK_Y,
    "bz": ThreadTag.BLOCK_Z,
    "tx": ThreadTag.THREAD_X,
    "ty": ThreadTag.THREAD_Y,
    "tz": ThreadTag.THREAD_Z,
    "vt": ThreadTag.VTHREAD,
}


def exprs(values: Any) -> tuple[Expr, ...]:
    """A number, an expression, or a tuple of them, as a tuple of expressions."""
    return tuple(as_expr(v) for v in (values if isinstance(values, tuple) else (values,)))


def buf(name: str, *shape: Any, dtype: str = "float32", scope: str = "global", of: Buffer | None = None) -> Buffer:
    """A buffer; `of` is the one it views."""
    return Buffer(name, dtype, exprs(shape), MemoryScope(scope), alias_of=of)


def load(buffer: Buffer, *indices: Any) -> Load:
    return Load(buffer, exprs(indices))


def store(buffer: Buffer, indices: Any, value: Any) -> Store:
    """`buffer[indices] = value`; a bare number takes the buffer's type."""
    number = not isinstance(value, Expr)
    return Store(buffer, exprs(indices), as_expr(value, buffer.dtype) if number else value)


def loop(var: Var, extent: Any, body: Stmt, kind: LoopKind = LoopKind.SERIAL, low: Any = 0) -> For:
    return For(var, as_expr(low), as_expr(extent), kind, None, (), body)


def thread(tag: str, extent: Any, body: Callable[[Var], Stmt] | Stmt) -> For:
    """A loop over a hardware index; `body` may be a function of its variable."""
    var = Var(tag)
    return For(
        var,
        as_expr(0),
        as_expr(extent),
        LoopKind.THREAD,
        TAGS[tag],
        (),
        body(var) if callable(body) else body,
    )


def launch(body: Stmt, name: str = "kernel", **threads: tuple[Var, Any]) -> Launch:
    """`launch(body, bx=(var, extent), ...)`"""
    return Launch(name, tuple((TAGS[t], var, as_expr(extent)) for t, (var, extent) in threads.items()), body, 0, False)


def alloc(buffer: Buffer, *body: Stmt) -> Allocate:
    return Allocate(buffer, seq(*body))


def function(params: tuple[Buffer | Var, ...], *body: Stmt) -> Function:
    return Function("main", params, seq(*body))


def ramp(base: Any, lanes: int, stride: int = 1) -> Ramp:
    return Ramp(as_expr(base), as_expr(stride), lanes)


def spread(value: Any, lanes: int, dtype: str = "float32") -> Broadcast:
    return Broadcast(as_expr(value, dtype), lanes)
