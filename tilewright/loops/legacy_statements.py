"""Statements on tensors, and on pointers as of v0.8: `tir.ProducerStore(...)`, `tir.Store(pointer, value, index)`."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.text import quantity
from ..expr.constructors import constructor
from ..expr.nodes import Broadcast, Expr, IntImm, Load
from ..expr.operators import as_expr
from ..expr.operators import condition as test_of
from ..tensor.axis import Range
from ..tensor.tensor import Tensor
from .constructors import statement_of
from .nodes import AddressOf, Allocate, Buffer, Stmt, Store
from .unlowered_statements import PointerBuffer, elements_at


def _is_number(e: Expr, value: int) -> bool:
    return isinstance(e, IntImm) and e.value == value


def _always(predicate: Any, primitive: str) -> None:
    if isinstance(predicate, Broadcast):  # a vector access: every lane, and 1 for true
        predicate = predicate.value
        predicate = predicate.value == 1 if isinstance(predicate, IntImm) else predicate
    if predicate is not None:
        holds = test_of(predicate, primitive)
        if not (isinstance(holds, IntImm) and holds.value):
            raise UserError(
                f"the predicate `{holds}`",
                primitive=primitive,
                fix="put the access in a branch: tir.IfThenElse",
            )


def make_pointer_store(buffer_var: Any, value: Any, index: Any, predicate: Any = None, span: Any = None) -> Stmt:
    """`buffer_var[index] = value`, an access by a pointer."""
    _always(predicate, "Store")
    e = as_expr(value)
    return Store(*_element(buffer_var, e.dtype.scalar, index, "Store"), e)


def make_pointer_load(dtype: Any, buffer_var: Any, index: Any, predicate: Any = None, span: Any = None) -> Expr:
    """`buffer_var[index]`, an access by a pointer."""
    _always(predicate, "Load")
    return Load(*_element(buffer_var, DType(dtype).scalar, index, "Load"))


def _element(pointer: Any, dtype: DType, index: Any, primitive: str) -> tuple[Buffer, tuple[Expr, ...]]:
    """The buffer and the indices of an element at a pointer, or at the address of an element of a buffer."""
    if not isinstance(pointer, AddressOf):
        return elements_at(pointer, dtype, primitive), (as_expr(index),)
    buffer, place = pointer.buffer, pointer.place
    assert isinstance(place, Load)
    if buffer.dtype != dtype or not (place.indices and _is_number(buffer.strides[-1], 1)):
        raise UserError(
            f"elements of type {dtype} at the address of {buffer.name!r}, a buffer of {buffer.dtype} and the strides "
            f"{list(buffer.strides)}",
            primitive=primitive,
            fix="access the buffer itself: tir.BufferLoad(buffer, [i])",
        )
    last = place.indices[-1]
    return buffer, (*place.indices[:-1], as_expr(index) if _is_number(last, 0) else last + as_expr(index))


def _producer(given: Any, indices: Any, primitive: str) -> tuple[Tensor, tuple[Any, ...]]:
    parts = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
    if not isinstance(given, Tensor) or len(parts) != len(given.shape):
        raise UserError(
            f"{quantity(len(parts), 'index', 'indices')} of {given!r}",
            primitive=primitive,
            fix="give a tensor of te.compute, and one index or range for each of its dimensions",
        )
    return given, parts


def make_producer_store(producer: Any, value: Any, indices: Any, span: Any = None) -> Stmt:
    """`producer[indices] = value`."""
    tensor, parts = _producer(producer, indices, "ProducerStore")
    return Store(tensor, tuple(map(as_expr, parts)), as_expr(value, tensor.dtype))  # type: ignore[arg-type]


def _whole(bounds: tuple[Any, ...], shape: tuple[Expr, ...], primitive: str) -> None:
    fits = all(isinstance(part, Range) for part in bounds) and len(bounds) == len(shape)
    if not fits:
        raise UserError(
            f"the region {list(bounds)} of {quantity(len(shape), 'dimension')}",
            primitive=primitive,
            fix="give one range per dimension: [tvm.ir.Range(0, 16)]",
        )


def make_producer_realize(
    producer: Any, bounds: Any, condition: Any, body: Any, storage_scope: str = "", span: Any = None
) -> Stmt:
    """The memory of a tensor, within the body."""
    tensor, parts = _producer(producer, bounds, "ProducerRealize")
    _whole(parts, tensor.shape, "ProducerRealize")
    _always(condition, "ProducerRealize")
    return Allocate(tensor, statement_of(body, "the body", "ProducerRealize"))  # type: ignore[arg-type]


def make_buffer_realize(buffer: Any, bounds: Any, condition: Any, body: Any, span: Any = None) -> Stmt:
    """The memory of a buffer, within the body."""
    if not isinstance(buffer, Buffer):
        raise UserError(
            f"{buffer!r} is not a buffer", primitive="BufferRealize", fix="declare one: tir.decl_buffer((n,))"
        )
    _whole(tuple(bounds), buffer.shape, "BufferRealize")
    _always(condition, "BufferRealize")
    return Allocate(buffer, statement_of(body, "the body", "BufferRealize"))


def _on(kind: type) -> Any:
    return lambda stmt: isinstance(stmt.buffer, kind)


ON_TENSORS: dict[str, Any] = {
    name: constructor(node, build, name, _on(kind))
    for name, node, build, kind in (
        ("ProducerStore", Store, make_producer_store, Tensor),
        ("ProducerRealize", Allocate, make_producer_realize, Tensor),
        ("BufferRealize", Allocate, make_buffer_realize, Buffer),
    )
}
POINTER_STORE = constructor(Store, make_pointer_store, "Store", _on(PointerBuffer))
POINTER_LOAD = constructor(Load, make_pointer_load, "Load", lambda e: isinstance(e.source, PointerBuffer))
