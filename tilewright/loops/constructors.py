"""Statements as the legacy API makes them: `tir.For(i, 0, 8, tir.ForKind.SERIAL, body)`.

Each checks its arguments and builds a node of `nodes.py`; `isinstance` treats it as that node's class.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import LoopKind, ThreadTag
from ..core.text import quantity
from ..expr.constructors import constructor
from ..expr.effects import PREFETCH
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import add, as_expr, cast, condition, const, subtract
from ..expr.operators import condition as test_of
from ..expr.traverse import substitute
from ..tensor.axis import IterVar, Range
from ..tensor.tensor import Tensor
from .assertions import asserting, assertion_of
from .calls import for_effect
from .function_attributes import PrimFunction
from .ir_builder import BufferVar
from .nodes import Allocate, Buffer, Evaluate, For, Function, If, Let, Program, Seq, Stmt, Store, While, seq
from .prefetching import prefetched
from .unlowered_statements import Attribute, allocate_at, refuse_unlowered

_BY_NUMBER = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.VECTORIZED, LoopKind.UNROLLED, LoopKind.THREAD)


class ForKind:
    """The kinds of loops under the legacy API's names."""

    SERIAL, PARALLEL, VECTORIZED, UNROLLED, THREAD_BINDING = _BY_NUMBER


def statement_of(given: Any, what: str, primitive: str) -> Stmt:
    if isinstance(given, Expr):
        return for_effect(given)
    if not isinstance(given, Stmt):
        raise UserError(
            f"{what} is {given!r}, which is not a statement",
            primitive=primitive,
            fix="give a statement, such as tir.BufferStore(buffer, value, indices)",
        )
    return given


def _variable(given: Any, primitive: str) -> Var:
    if isinstance(given, IterVar):
        given = given.var
    if not isinstance(given, Var):
        raise UserError(f"{given!r} is not a variable", primitive=primitive, fix='give one: tir.Var("i", "int32")')
    return given


def _kind(given: Any) -> LoopKind:
    if isinstance(given, LoopKind):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(_BY_NUMBER):
        return _BY_NUMBER[given]
    found = next((kind for kind in LoopKind if given == kind.value), None)
    if found is None:
        raise UserError(
            f"there is no loop of kind {given!r}",
            primitive="For",
            fix="give a member of tir.ForKind: tir.ForKind.SERIAL",
        )
    return found


def make_for(
    loop_var: Any,
    min: Any = None,
    extent: Any = None,
    kind: Any = None,
    body: Any = None,
    thread_binding: Any = None,
    annotations: Any = None,
    span: Any = None,
    min_val: Any = None,
) -> Stmt:
    """A loop: `loop_var` takes `extent` values from `min` upwards; a THREAD_BINDING loop needs its `thread_binding`.

    `min_val` is `min` as releases before v0.9 called it.
    """
    min = min_val if min is None else min
    var, how = _variable(loop_var, "For"), _kind(kind)
    tag = thread_binding.thread if isinstance(thread_binding, IterVar) else ThreadTag.parse(thread_binding)
    if (tag is None) == (how is LoopKind.THREAD):
        raise UserError(
            f"a {how.value} loop has thread_binding={thread_binding!r}, which does not fit its kind",
            primitive="For",
            fix='a loop of kind THREAD_BINDING, and no other, takes thread_binding=te.thread_axis("threadIdx.x")',
        )
    low, size = (cast(var.dtype, as_expr(e)) for e in (min, extent))
    if annotations is not None and not isinstance(annotations, Mapping):
        raise UserError(f"annotations={annotations!r} is not a mapping", primitive="For", fix='give {"name": value}')
    pragmas = tuple((str(name), value) for name, value in (annotations or {}).items())
    return For(var, low, size, how, tag, pragmas, statement_of(body, "the body", "For"))


def make_while(condition: Any, body: Any, span: Any = None) -> Stmt:
    """The statement `body`, again and again, for as long as the condition holds."""
    return While(test_of(condition, "While"), statement_of(body, "the body", "While"))


def make_if(condition_: Any, then_case: Any, else_case: Any = None, span: Any = None) -> Stmt:
    """`then_case` if the condition holds, else `else_case`."""
    orelse = None if else_case is None else statement_of(else_case, "else_case", "IfThenElse")
    return If(condition(condition_, "IfThenElse"), statement_of(then_case, "then_case", "IfThenElse"), orelse)


def make_assert(condition: Any, message: Any, body: Any, span: Any = None) -> Stmt:
    """`body` if the condition holds; otherwise the call of the function ends with a UserError of the message."""
    return asserting(condition, message, statement_of(body, "the body", "AssertStmt"))


def _buffer(given: Any, primitive: str) -> Buffer:
    held = getattr(given, "asobject", lambda: given)()
    if not isinstance(held, Buffer):
        raise UserError(
            f"{given!r} is not a buffer", primitive=primitive, fix="declare one: tir.decl_buffer((n, m), dtype)"
        )
    return held


def _indices(given: Any, source: Buffer | Tensor, primitive: str) -> tuple[Expr, ...]:
    indices = tuple(as_expr(i) for i in (given if isinstance(given, (tuple, list)) else (given,)))
    if len(indices) != len(source.shape):
        raise UserError(
            f"{source.name!r} has {quantity(len(source.shape), 'dimension')}, but "
            f"{quantity(len(indices), 'index', 'indices')} are given",
            primitive=primitive,
            fix="give one index per dimension",
        )
    wrong = next((i for i in indices if not i.dtype.is_int), None)
    if wrong is not None:
        raise UserError(f"the index `{wrong}` is of type {wrong.dtype}", primitive=primitive, fix="give integers")
    return indices


def make_store(buffer: Any, value: Any, indices: Any, span: Any = None) -> Stmt:
    """`buffer[indices] = value`."""
    held = _buffer(buffer, "BufferStore")
    e = as_expr(value, held.dtype) if isinstance(value, (bool, int, float)) else as_expr(value)
    if e.dtype.scalar != held.dtype.scalar:
        raise UserError(
            f"`{e}` of type {e.dtype} is stored to {held.name!r}, but its elements have type {held.dtype}",
            primitive="BufferStore",
            fix=f'convert it: value.astype("{held.dtype}")',
        )
    return Store(held, _indices(indices, held, "BufferStore"), e)


def make_buffer_load(buffer: Any, indices: Any, span: Any = None) -> Expr:
    """The element of a buffer."""
    held = _buffer(buffer, "BufferLoad")
    return Load(held, _indices(indices, held, "BufferLoad"))


def make_producer_load(producer: Any, indices: Any, span: Any = None) -> Expr:
    """The element of a tensor."""
    if not isinstance(producer, Tensor):
        raise UserError(f"{producer!r} is not a tensor", primitive="ProducerLoad", fix="give one of te.compute")
    return Load(producer, _indices(indices, producer, "ProducerLoad"))


def make_let(var: Any, value: Any, body: Any, span: Any = None) -> Stmt:
    """`var` has the value `value`, which is computed once, within the body."""
    name, e = _variable(var, "LetStmt"), as_expr(value)
    if name.dtype != e.dtype:
        raise UserError(
            f"{name.name} of type {name.dtype} has the value `{e}` of type {e.dtype}",
            primitive="LetStmt",
            fix="give both one type",
        )
    return Let(name, e, statement_of(body, "the body", "LetStmt"))


def make_let_expr(var: Any, value: Any, body: Any, span: Any = None) -> Expr:
    """`body` with `value` in place of `var`: equal expressions are one node, and computed once, without a `Let`."""
    made: Expr = substitute(as_expr(body), {_variable(var, "Let"): as_expr(value)})
    return made


class _NoNode:
    """Expressions have no node for a `let`."""


def make_seq(seq_: Any, span: Any = None) -> Stmt:
    """Statements in order."""
    given = seq_ if isinstance(seq_, (tuple, list)) else [seq_]
    return seq(*(statement_of(stmt, "a part", "SeqStmt") for stmt in given))


def make_evaluate(value: Any, span: Any = None) -> Stmt:
    """An expression for its effect."""
    return for_effect(as_expr(value))


def make_prefetch(buffer: Any, bounds: Any, span: Any = None) -> Stmt:
    """Bring a region of a buffer into the cache, one instruction per cache line.

    The region has one range per dimension; without any it is the whole buffer.
    """
    held = _buffer(buffer, "Prefetch")
    given = list(bounds) if isinstance(bounds, (list, tuple)) else []
    if bounds in ([], ()):
        given = [Range(0, extent) for extent in held.shape]
    if len(given) != len(held.shape) or not all(isinstance(part, Range) for part in given):
        raise UserError(
            f"the region {bounds!r} of {held.name!r}, which has {quantity(len(held.shape), 'dimension')}",
            primitive="Prefetch",
            fix="give one range per dimension: [tvm.ir.Range.from_min_extent(i, 4), tvm.ir.Range(0, 16)]",
        )
    ends = [(as_expr(part.min), subtract(add(part.min, part.extent), 1)) for part in given]
    return prefetched(partial(Load, held), held.name, ends, held.dtype)


def make_allocate(buffer_var: Any, dtype: Any, extents: Any, condition: Any, body: Any, *more: Any) -> Stmt:
    """Storage for the buffer `buffer_var` of the given type and extents, inside the body."""
    always = as_expr(condition)
    if not (isinstance(always, IntImm) and always.value):
        raise UserError(f"condition `{always}`", primitive="Allocate", fix="give tir.const(1), and put it in a branch")
    inside = statement_of(body, "the body", "Allocate")
    if isinstance(buffer_var, Var):
        return allocate_at(buffer_var, dtype, extents, inside)
    buffer = _buffer(buffer_var, "Allocate")
    shape = tuple(as_expr(e) for e in (extents if isinstance(extents, (tuple, list)) else (extents,)))
    if DType(dtype) != buffer.dtype or shape != buffer.shape:
        raise UserError(
            f"{dtype}{list(shape)} is not the declared type and shape of {buffer!r}",
            primitive="Allocate",
            fix="give the type and the extents of the buffer itself",
        )
    return Allocate(buffer, inside)


def make_attr(node: Any, attr_key: Any, value: Any, body: Any, span: Any = None) -> Stmt:
    """The threads of an axis ("thread_extent", "virtual_thread"), a pragma of a loop ("pragma_..."), or any other key.

    Functions refuse an `Attribute` of another key.
    """
    inside = statement_of(body, "the body", "AttrStmt")
    if attr_key in ("thread_extent", "virtual_thread") and isinstance(node, IterVar) and node.thread is not None:
        extent = cast(node.var.dtype, as_expr(value))
        return For(node.var, const(0, node.var.dtype), extent, LoopKind.THREAD, node.thread, (), inside)
    var = node.var if isinstance(node, IterVar) else node
    if isinstance(attr_key, str) and attr_key.startswith("pragma_") and isinstance(inside, For) and inside.var is var:
        added = (attr_key.removeprefix("pragma_"), getattr(value, "value", value))
        return For(
            inside.var, inside.min, inside.extent, inside.kind, inside.thread, (*inside.pragmas, added), inside.body
        )
    if not isinstance(attr_key, str):
        raise UserError(f"the key {attr_key!r} is not text", primitive="AttrStmt", fix='give a text: "thread_extent"')
    return Attribute(node, attr_key, as_expr(value), inside)


def make_prim_func(
    params: Any, body: Any, ret_type: Any = None, buffer_map: Any = None, attrs: Any = None, span: Any = None
) -> Function:
    """A function of buffers and numbers; `buffer_map` says which buffer a parameter of type handle stands for."""
    for name, mapping in (("buffer_map", buffer_map), ("attrs", attrs)):
        if not isinstance(mapping or {}, Mapping):
            raise UserError(f"{name} is {mapping!r}, which is not a mapping", primitive="PrimFunc", fix="give a dict")
    at = dict(buffer_map or {})
    given = params if isinstance(params, (tuple, list)) else [params] if params != {} else []
    found: list[Any] = [
        p.buffer if isinstance(p, BufferVar) else at.get(p, p) if isinstance(p, Var) else p for p in given
    ]
    wrong = next((p for p in found if not isinstance(p, (Buffer, Var))), None)
    if wrong is not None:
        raise UserError(f"{wrong!r} is not a parameter", primitive="PrimFunc", fix="give buffers and variables")
    named, stmt = dict(attrs or {}), statement_of(body, "the body", "PrimFunc")
    refuse_unlowered(stmt, "PrimFunc")
    return PrimFunction(str(named.get("global_symbol", "main")), tuple(found), stmt, attrs=named)


def make_module(functions: Any = None, *more: Any) -> Program:
    """A program of {name: function}."""
    if not isinstance(functions or {}, Mapping):
        raise UserError(f"{functions!r} is not a mapping", primitive="IRModule", fix='give {"main": function}')
    made = []
    for name, function in (functions or {}).items():
        if not isinstance(function, Function):
            raise UserError(f"{function!r} is not a function", primitive="IRModule", fix="give a tir.PrimFunc")
        made.append(function if function.name == name else PrimFunction.of(function, name=str(name)))
    return Program(tuple(made))


def module_of(function: Any) -> Program:
    """Return a program of one function, under the function's name."""
    return make_module({getattr(function, "name", "main"): function})


def stmt_list(stmt: Any) -> list[Stmt]:
    """Return the statements of a sequence, or the given statement."""
    given = statement_of(stmt, "the argument", "stmt_list")
    return list(given.stmts) if isinstance(given, Seq) else [given]


def stmt_seq(*stmts: Any) -> Stmt:
    """Statements, and expressions for their effects, in order."""
    return make_seq(stmts)


def _reads(kind: type) -> Any:
    return lambda load: isinstance(load.source, kind)


def _is_attribute(stmt: Stmt) -> bool:
    return isinstance(stmt, Attribute) or (isinstance(stmt, For) and stmt.kind is LoopKind.THREAD)


STATEMENTS: dict[str, Any] = {
    name: constructor(node, build, name, holds)
    for name, node, build, holds in (
        ("For", For, make_for, None), ("IfThenElse", If, make_if, None),
        ("AssertStmt", If, make_assert, lambda stmt: assertion_of(stmt) is not None),
        ("While", While, make_while, None),
        ("BufferStore", Store, make_store, lambda stmt: isinstance(stmt.buffer, Buffer)),
        ("BufferLoad", Load, make_buffer_load, _reads(Buffer)),
        ("ProducerLoad", Load, make_producer_load, _reads(Tensor)),
        ("LetStmt", Let, make_let, None), ("Let", _NoNode, make_let_expr, None), ("SeqStmt", Seq, make_seq, None),
        ("Prefetch", Evaluate, make_prefetch, lambda stmt: getattr(stmt.value, "name", "") == PREFETCH),
        ("Evaluate", Evaluate, make_evaluate, None), ("Allocate", Allocate, make_allocate, None),
        ("AttrStmt", Stmt, make_attr, _is_attribute),
        ("PrimFunc", Function, make_prim_func, None), ("IRModule", Program, make_module, None),
    )
}  # fmt: skip
STATEMENTS["IRModule"].from_expr = module_of
for _name, _loop_kind in zip(("Serial", "Parallel", "Vectorized", "Unrolled"), _BY_NUMBER, strict=False):
    setattr(STATEMENTS["For"], _name, _loop_kind)  # the names of 2017: tvm.stmt.For.Vectorized
LEGACY_NAMES: dict[type, str] = {
    made.node: f"tir.{name}"
    for name, made in STATEMENTS.items()
    if name not in ("AttrStmt", "AssertStmt", "Let", "Prefetch", "ProducerLoad")
}
"""The legacy API's name of a node, if it differs."""
