"""Fields of nodes under the legacy API's names: `stmt.loop_var`, `stmt.then_case`, `load.buffer`.

Each is a property beside the field that it reads. Passes use the fields.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.nodes import EQ, NE, TRUE, IfThenElse, Load, StringImm
from ..expr.operators import as_expr, const
from ..tensor.axis import AxisKind, IterVar, Range
from ..tensor.reduction import CommReducer, Reduce
from ..tensor.tensor import Tensor
from .assertions import assertion_of
from .function_attributes import with_attr, without_attr
from .nodes import AddressOf, Allocate, Assertion, Buffer, Evaluate, For, Function, If, Program, Seq, Stmt, Store
from .prefetching import prefetched_region
from .printer import show_function, show_program, show_statement
from .unlowered_statements import GlobalVar, PointerBuffer


def _thread_binding(loop: For) -> IterVar | None:
    """The hardware axis that a loop is bound to; None for other loops."""
    if loop.kind is not LoopKind.THREAD:
        return None
    axis = IterVar(loop.var.name, Range.from_min_extent(loop.min, loop.extent), AxisKind.THREAD, loop.thread)
    axis.var = loop.var
    return axis


def _source(wanted: type, name: str) -> Callable[[Load], Any]:
    def source(load: Load) -> Any:
        if isinstance(load.source, wanted):
            return load.source
        held = "tensor" if isinstance(load.source, Tensor) else "buffer"
        raise UserError(
            f"`{load}` reads a {held}, which is not its {name}",
            fix=f"ask for .{'producer' if held == 'tensor' else 'buffer'}",
        )

    return source


def _producer(stmt: Store | Allocate) -> Tensor:
    """The tensor that a statement on tensors stores or allocates; AttributeError for a statement on buffers."""
    if isinstance(stmt.buffer, Tensor):
        return stmt.buffer
    raise AttributeError(f"a statement on the buffer {stmt.buffer.name} has no producer: ask for .buffer")


def _pointer(source: Any) -> Any:
    """The pointer of an access by a pointer, the address of a buffer; AttributeError for a tensor."""
    if isinstance(source, PointerBuffer):
        return source.pointer
    if isinstance(source, Buffer):
        return source.data
    raise AttributeError(f"an access to {source.name} has no buffer_var: ask for .producer")


def _asserted(branch: If) -> Assertion:
    """The condition that a branch asserts; raises AttributeError for any other branch."""
    found = assertion_of(branch)
    if found is None:
        raise AttributeError("an IfThenElse has no message and no body: ask for .then_case and .else_case")
    return found


def _pointer_arguments(address: AddressOf) -> tuple[Any, ...]:
    """The element type, the buffer, the offset in elements, their number, and the access: 1, 2, 3."""
    buffer, place = address.buffer, address.place
    assert isinstance(place, Load)
    offset = simplify(buffer.layout.offset(buffer.shape, place.indices))
    mask = Buffer.READ * address.reads + Buffer.WRITE * address.writes
    return const(0, buffer.dtype), buffer, offset, simplify(address.extent), const(mask)


def _offset_of(buffer: Buffer, indices: Any) -> list[Any]:
    """How many elements from the beginning of its memory an element of the buffer lies, in a list."""
    given = indices if isinstance(indices, (list, tuple)) else [indices]
    return [simplify(buffer.layout.offset(buffer.shape, tuple(map(as_expr, given))))]


def _element(source: Any, indices: tuple[Any, ...]) -> Any:
    """The offset of an access, in elements from the beginning of the memory; for a vector, of its first lane."""
    layout = getattr(source, "layout", None)
    if layout is None or any(index.dtype.lanes > 1 for index in indices):
        raise AttributeError(f"an access to {source.name} has no single index: ask for .indices")
    return simplify(layout.offset(source.shape, indices))


_FIELDS: dict[type, dict[str, Callable[[Any], Any]]] = {
    For: {
        "loop_var": lambda loop: loop.var,
        "for_type": lambda loop: loop.kind,
        "thread_binding": _thread_binding,
        "bounds": lambda loop: prefetched_region(loop),
        "annotations": lambda loop: dict(loop.pragmas),
    },
    Stmt: {"script": lambda stmt: partial(show_statement, stmt)},
    If: {
        "then_case": lambda stmt: stmt.then,
        "else_case": lambda stmt: stmt.orelse,
        "message": lambda stmt: StringImm(_asserted(stmt).message),
        "body": lambda stmt: (_asserted(stmt), stmt.then)[1],
    },
    Seq: {"seq": lambda stmt: stmt.stmts, "size": lambda stmt: len(stmt.stmts)},
    Allocate: {
        "buffer_var": lambda stmt: getattr(stmt.buffer, "pointer", stmt.buffer),
        "producer": lambda stmt: _producer(stmt),
        "bounds": lambda stmt: [Range(0, extent) for extent in stmt.buffer.shape],
        "dtype": lambda stmt: stmt.buffer.dtype,
        "extents": lambda stmt: stmt.buffer.shape,
        "condition": lambda stmt: TRUE,
    },
    AddressOf: {"args": _pointer_arguments},
    Store: {
        "index": lambda stmt: _element(stmt.buffer, stmt.indices),
        "producer": lambda stmt: _producer(stmt),
        "buffer_var": lambda stmt: _pointer(stmt.buffer),
    },
    Evaluate: {"bounds": lambda stmt: prefetched_region(stmt)},
    Load: {
        "index": lambda load: _element(load.source, load.indices),
        "buffer": _source(Buffer, "buffer"),
        "producer": _source(Tensor, "producer"),
        "buffer_var": lambda load: _pointer(load.source),
        "predicate": lambda load: TRUE,
    },
    IfThenElse: {"args": lambda e: (e.condition, e.true_value, e.false_value)},
    Reduce: {"axis": lambda e: e.axes},
    CommReducer: {"identity_element": lambda reducer: reducer.identity},
    Function: {
        "buffer_map": lambda function: {p: p for p in function.buffers},
        "attrs": lambda function: {"global_symbol": function.name},
        "ret_type": lambda function: None,
        "script": lambda function: partial(show_function, function),
        "with_attr": lambda function: partial(with_attr, function),
        "without_attr": lambda function: partial(without_attr, function),
    },
    Program: {
        "script": lambda program: partial(show_program, program),
        "get_global_vars": lambda program: lambda: [GlobalVar(f.name) for f in program.functions],
    },
}


def _is_it(self: Any, other: object) -> bool:
    """Whether the two are one object."""
    return self is other


_METHODS: dict[type, dict[str, Callable[..., Any]]] = {
    **{kind: {"same_as": _is_it} for kind in (Stmt, Function)},
    **{kind: {"asobject": lambda e: e} for kind in (EQ, NE)},
    Buffer: {"same_as": _is_it, "offset_of": _offset_of},
    Seq: {
        "__getitem__": lambda seq, index: seq.stmts[index],
        "__len__": lambda seq: len(seq.stmts),
        "__bool__": lambda seq: True,  # an empty statement is true, too
    },
}


def _add_all() -> None:
    for kind, names in _FIELDS.items():
        for name, read in names.items():
            if not hasattr(kind, name):
                setattr(kind, name, property(read))
    for kind, methods in _METHODS.items():
        for name, method in methods.items():
            if name not in vars(kind):
                setattr(kind, name, method)


_add_all()
