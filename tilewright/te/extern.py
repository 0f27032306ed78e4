"""te.extern: an operation given by a statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.own_code import calling
from ..core.text import quantity
from ..expr.nodes import Expr, Load
from ..expr.traverse import post_order
from ..loops.certain_faults import certain_faults
from ..loops.declare import decl_buffer
from ..loops.nodes import Allocate, Buffer, Evaluate, Stmt, Store
from ..loops.unlowered_statements import refuse_unlowered
from ..tensor.extern import ExternOp
from ..tensor.tag_scope import tagged
from ..tensor.tensor import Tensor, extents


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Sequence[Buffer] | Buffer | None = None,
    out_buffers: Sequence[Buffer] | Buffer | None = None,
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """Compute whole tensors by a statement of one's own.

    Parameters
    ----------
    shape
        The shape of the result, or a list of shapes for several results.
    inputs
        The tensors that the statement reads.
    fcompute
        Called with two lists of buffers, for the inputs and for the results; returns a statement, such as `ib.get()` of
        a `tir.ir_builder`.
    dtype
        The type of the result, or a list of types; by default the type of the inputs, if they share one.
    in_buffers, out_buffers
        Buffers of `tir.decl_buffer` that the statement was written for, instead of new ones.

    Returns
    -------
    The tensor, or a list of tensors for several results.

    Raises
    ------
    UserError
        If the function does not return a statement, or the statement uses other buffers.
    """
    several = isinstance(shape, (list, tuple)) and bool(shape) and isinstance(shape[0], (list, tuple))
    shapes = tuple(extents(s, "extern", name) for s in (shape if several else [shape]))
    read = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    for tensor in read:
        if not isinstance(tensor, Tensor):
            raise UserError(f"the input {tensor!r} of {name!r} is not a tensor", primitive="extern", fix="give tensors")
    dtypes = _dtypes(dtype, read, len(shapes), name)
    theirs = _buffers(in_buffers, [(t.shape, str(t.dtype), t.name) for t in read], name)
    names = [name if len(shapes) == 1 else f"{name}.v{k}" for k in range(len(shapes))]
    ours = _buffers(out_buffers, list(zip(shapes, dtypes, names, strict=True)), name)
    if not callable(fcompute):
        raise UserError(
            f"the statement of {name!r} is given as {fcompute!r}, which is not a function",
            primitive="extern",
            fix="give a function of the input and the output buffers: lambda ins, outs: ib.get()",
        )
    with calling(f"the function of te.extern {name!r}"):
        statement = fcompute(list(theirs), list(ours))
    if isinstance(statement, Expr):
        statement = Evaluate(statement)
    if not isinstance(statement, Stmt):
        raise UserError(
            f"the function of {name!r} returns {statement!r}, which is not a statement",
            primitive="extern",
            fix="return a statement, such as ib.get() of ib = tir.ir_builder.create()",
        )
    check_buffers(statement, (*theirs, *ours), name, "extern")
    for wrong, fix in certain_faults(statement):
        raise UserError(f"the statement of {name!r} {wrong}", primitive="extern", fix=fix)
    op = ExternOp(name, read, shapes, tuple(map(DType, dtypes)), statement, theirs, ours, tagged(tag, name), attrs)
    return list(op.outputs) if several else op.outputs[0]


def _dtypes(given: Any, inputs: tuple[Tensor, ...], count: int, name: str) -> list[str]:
    if given is not None:
        listed = list(given) if isinstance(given, (list, tuple)) else [given] * count
        if len(listed) != count:
            raise UserError(
                f"{name!r} has {quantity(count, 'result')}, but {quantity(len(listed), 'type')}",
                primitive="extern",
                fix="give one each",
            )
        return [str(DType(d)) for d in listed]
    shared = {str(t.dtype) for t in inputs}
    if len(shared) != 1:
        raise UserError(
            f"the type of {name!r} does not follow from its inputs, of types {sorted(shared)}",
            primitive="extern",
            fix='give it: dtype="float32"',
        )
    return list(shared) * count


def _buffers(given: Any, wanted: list[tuple[Any, str, str]], name: str) -> tuple[Buffer, ...]:
    if given is None:
        return tuple(decl_buffer(shape, dtype, label) for shape, dtype, label in wanted)
    listed = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    fits = len(listed) == len(wanted) and all(
        isinstance(b, Buffer) and b.dtype == d and len(b.shape) == len(s)
        for b, (s, d, _) in zip(listed, wanted, strict=True)
    )
    if not fits:
        raise UserError(
            f"the buffers {listed!r} of {name!r} do not fit its tensors {[(label, d) for _, d, label in wanted]}",
            primitive="extern",
            fix="declare one buffer for each tensor: tir.decl_buffer(A.shape, A.dtype)",
        )
    return listed


def check_buffers(statement: Stmt, known: tuple[Buffer, ...], name: str, primitive: str) -> None:
    """Check that the statement uses only given buffers and buffers that it allocates."""
    refuse_unlowered(statement, primitive)
    nodes = list(post_order(statement))
    own = {*known, *(s.buffer for s in nodes if isinstance(s, Allocate))}
    for at in nodes:
        used = at.source if isinstance(at, Load) else at.buffer if isinstance(at, Store) else None
        if used is not None and used not in own:
            raise UserError(
                f"the statement of {name!r} uses {used.name!r}, which is not one of its buffers",
                primitive=primitive,
                fix="read the buffers in ins and write the buffers in outs, the two arguments of the function. "
                "Name every tensor that is read among the inputs",
            )
