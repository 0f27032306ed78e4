"""Statements that tools create and read, and that functions refuse: attributes of any key, accesses by a pointer."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.node import node
from ..expr.nodes import Expr, Load, SizeVar, Var
from ..expr.operators import as_expr
from ..expr.traverse import post_order
from .nodes import Allocate, Buffer, Stmt, Store, with_buffer


@node()
class Attribute(Stmt):
    """A statement with an attribute. The compiler does not read it."""

    node: Any
    attr_key: str
    value: Expr
    body: Stmt


class GlobalVar(str):
    """The name of a function in a program."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        """The name."""
        return str(self)


class PointerBuffer(Buffer):
    """The elements at a pointer, from the first one on."""

    __slots__ = ("pointer",)
    pointer: Var


_POINTED: WeakValueDictionary[tuple[int, str], PointerBuffer] = WeakValueDictionary()
"""Buffers by the pointer, which the buffer keeps alive, and the type of the elements."""


def at_pointer(pointer: Any, dtype: str, extents: tuple[Expr, ...], primitive: str) -> PointerBuffer:
    """Return a buffer of the elements at a pointer."""
    if not isinstance(pointer, Var) or pointer.dtype.kind != "handle":
        raise UserError(f"{pointer!r} is not a pointer", primitive=primitive, fix='give one: te.var("p", "handle")')
    made = PointerBuffer(pointer.name, dtype, extents)
    made.pointer = pointer
    return made


def elements_at(pointer: Any, dtype: DType, primitive: str) -> PointerBuffer:
    """The buffer of unknown length at a pointer; all accesses get the same buffer."""
    key = id(pointer), str(dtype)
    found = _POINTED.get(key)
    if found is None:
        found = _POINTED[key] = at_pointer(pointer, str(dtype), (SizeVar("elements", "int32"),), primitive)
    return found


def allocate_at(buffer_var: Any, dtype: Any, extents: Any, body: Stmt) -> Stmt:
    """Return storage at a pointer, by which the body accesses it."""
    listed = tuple(map(as_expr, extents if isinstance(extents, (tuple, list)) else (extents,)))
    buffer = at_pointer(buffer_var, str(DType(dtype)), listed, "Allocate")
    old = _POINTED.get((id(buffer_var), str(buffer.dtype)))
    return Allocate(buffer, body if old is None or len(listed) != 1 else with_buffer(body, old, buffer))


def refuse_unlowered(body: Stmt, primitive: str) -> None:
    """Raise UserError for an attribute without a meaning, and for an access by a pointer that is not allocated."""
    parts = tuple(post_order(body))
    own = {part.buffer for part in parts if isinstance(part, Allocate)}
    for part in parts:
        if isinstance(part, Attribute):
            raise UserError(
                f"the attribute {part.attr_key!r} of {part.node!r} is not known",
                primitive=primitive,
                fix='give "thread_extent" with a te.thread_axis, or "pragma_..." with the variable of its loop',
            )
        used = part.buffer if isinstance(part, Store) else part.source if isinstance(part, Load) else None
        if isinstance(used, PointerBuffer) and used not in own:
            raise UserError(
                f"the elements at the pointer {used.name} are accessed, which is no buffer of the function",
                primitive=primitive,
                fix="declare a buffer, tir.decl_buffer((n,)), and access it: tir.BufferStore(buffer, value, [i])",
            )
