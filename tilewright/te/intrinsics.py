"""decl_tensor_intrin: a computation that defines an intrinsic, and statements that implement it.

Statements that call matrix instructions (such as `tvm_mma_sync`) only mark the intrinsic as one. The declared operation
decides which instruction it is, and the compiler makes the fragments of operands and sums, and their copies. Other
statements are kept, and take the place of the loops that `tensorize` matches with the operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..core.atoms import ATOMS
from ..core.errors import UserError
from ..core.own_code import calling
from ..core.text import quantity
from ..expr.matrix_calls import MATRIX_CALLS
from ..expr.nodes import Call, Cast, Expr, IntImm, Load, Mul, Var
from ..expr.traverse import post_order
from ..loops.declare import decl_buffer
from ..loops.nodes import Buffer, Evaluate, Stmt
from ..schedule.tensor_intrin import MatrixIntrin, TensorIntrin
from ..tensor.reduction import Reduce
from ..tensor.tensor import ComputeOp, Operation, Tensor
from .extern import check_buffers

_DOES = {"tvm_load_matrix_sync": "load", "tvm_store_matrix_sync": "store", "tvm_mma_sync": "mma"}


def decl_tensor_intrin(
    op: Any,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Any = None,
    default_buffer_params: Any = None,
) -> TensorIntrin | MatrixIntrin:
    """Declare an intrinsic for `tensorize`.

    Parameters
    ----------
    op
        The operation that the intrinsic computes. The extents of its axes may be variables; each use of the intrinsic
        gives them a constant value.
    fcompute
        Called with two lists of buffers, for the inputs and for the outputs. Returns the statement that computes `op`,
        or a tuple of three statements. The second stores the initial values of a reduction (a reset), the third adds to
        the present values (an update). The first or the second may be None.
    name
        The name of the intrinsic in errors.
    binds
        Buffers of `tir.decl_buffer` for some of the tensors: `strides=[te.var("s"), 1]` takes any distance of rows,
        `offset_factor=1` any place in memory.
    scalar_params
        Variables in `op` that stand for numbers. The function is called with these as a third list. A use of the
        intrinsic has an expression for each of them, which is the same for all of its elements.
    default_buffer_params
        Arguments of `tir.decl_buffer` for the other tensors, such as {"offset_factor": 1}.

    Returns
    -------
    TensorIntrin, or MatrixIntrin if the statements call matrix instructions
        For `s[T].tensorize(axis, intrinsic)`.

    Raises
    ------
    UserError
        If the function does not return statements of its buffers, or names an unknown matrix instruction.
    """
    if not isinstance(op, ComputeOp) or not callable(fcompute):
        raise UserError(
            f"the intrinsic is declared by {op!r} and {fcompute!r}",
            primitive="decl_tensor_intrin",
            fix="give an operation, C.op, and a function (ins, outs) -> statement",
        )
    tensors = (*op.input_tensors, *op.outputs)
    buffers = _buffers(tensors, binds, default_buffer_params, name)
    scalars = _scalars(scalar_params, name)
    count = len(op.input_tensors)
    given = [list(buffers[:count]), list(buffers[count:]), *([list(scalars)] if scalars else [])]
    with calling(f"fcompute of the intrinsic {name!r}"):
        made = fcompute(*given)
    parts = [_statement(part, name) for part in (made if isinstance(made, (list, tuple)) else [made])]
    called = [part.value.name for stmt in parts if stmt is not None for part in post_order(stmt) if _calls(part)]
    if called:
        return MatrixIntrin(_matrix(op, called, name))
    if not any(part is not None for part in parts) or len(parts) > 3:
        raise UserError(
            f"fcompute of the intrinsic {name!r} returns {quantity(len(parts), 'statement')}",
            primitive="decl_tensor_intrin",
            fix="return one statement, or three: the body, the reset and the update of a reduction",
        )
    for stmt in parts:
        if stmt is not None:
            check_buffers(stmt, buffers, name, "decl_tensor_intrin")
    body, reset, update = (*parts, None, None, None)[:3]
    return TensorIntrin(name, op, buffers, body, reset, update, scalars)


def _scalars(given: Any, name: str) -> tuple[Var, ...]:
    found = tuple(given) if isinstance(given, (list, tuple)) else () if given is None else (given,)
    if not all(isinstance(each, Var) for each in found):
        raise UserError(
            f"scalar_params={given!r} of the intrinsic {name!r}",
            primitive="decl_tensor_intrin",
            fix='give the variables that its declaration uses: scalar_params=[w] of w = te.var("w")',
        )
    return found


def _statement(part: Any, name: str) -> Stmt | None:
    if part is None or isinstance(part, Stmt):
        return part
    if isinstance(part, Expr):
        return Evaluate(part)
    raise UserError(
        f"fcompute of the intrinsic {name!r} returns {part!r}, which is not a statement",
        primitive="decl_tensor_intrin",
        fix="return a statement, such as ib.get() of ib = tir.ir_builder.create(), or a call",
    )


def _buffers(tensors: tuple[Tensor, ...], binds: Any, defaults: Any, name: str) -> tuple[Buffer, ...]:
    for what, options in (("binds", binds), ("default_buffer_params", defaults)):
        if options is not None and not isinstance(options, Mapping):
            raise UserError(
                f"{what} of the intrinsic {name!r} is {options!r}, which is not a mapping",
                primitive="decl_tensor_intrin",
                fix='give binds={a: tir.decl_buffer(...)}, or default_buffer_params={"offset_factor": 1}',
            )
    given = dict(binds or {})
    for tensor in given:
        if tensor not in tensors or not isinstance(given[tensor], Buffer):
            raise UserError(
                f"binds of the intrinsic {name!r} maps {tensor!r} to {given[tensor]!r}",
                primitive="decl_tensor_intrin",
                fix="map its inputs and outputs to buffers: binds={a: tir.decl_buffer(a.shape, a.dtype, ...)}",
            )
    op = tensors[-1].op
    sizes = {axis.dom.extent for axis in op.loop_axes if axis.dom is not None and isinstance(axis.dom.extent, Var)}
    for tensor in tensors:
        if not all(isinstance(extent, IntImm) or extent in sizes for extent in tensor.shape):
            raise UserError(
                f"tensor {tensor.name!r} of the intrinsic {name!r} has the shape {list(tensor.shape)}",
                primitive="decl_tensor_intrin",
                fix="use constants, and variables that are extents of an axis of the computation",
            )
    known = list(inspect.signature(decl_buffer).parameters)[3:]
    unknown = next((key for key in defaults or {} if key not in known), None)
    if unknown is not None:
        raise UserError(
            f"default_buffer_params of the intrinsic {name!r} has {unknown!r}",
            primitive="decl_tensor_intrin",
            fix=f"give the arguments of tir.decl_buffer: {', '.join(known)}",
        )
    options = dict(defaults or {})
    return tuple(given.get(t) or decl_buffer(t.shape, str(t.dtype), t.name, **options) for t in tensors)


def _matrix(op: Operation, called: list[str], name: str) -> str:
    does = {_DOES[call] for call in called if call in _DOES}
    if len(does) != 1:
        raise UserError(
            f"the intrinsic {name!r} calls {', '.join(called)}",
            primitive="decl_tensor_intrin",
            fix="only loading, storing and multiplying fragments by tvm_load_matrix_sync, tvm_store_matrix_sync and "
            "tvm_mma_sync are known, one in an intrinsic",
        )
    (what,) = does
    return _atom_of(op) if what == "mma" else what


def _calls(part: Any) -> bool:
    return isinstance(part, Evaluate) and isinstance(part.value, Call) and part.value.name in MATRIX_CALLS


def _atom_of(op: Operation) -> str:
    """The atom for the types of a sum of products."""
    body = op.values[0] if op.values else None
    types: tuple[str, ...] = ()
    if isinstance(body, Reduce) and isinstance(body.source[0], Mul):
        factors = [f.value if isinstance(f, Cast) else f for f in (body.source[0].a, body.source[0].b)]
        types = tuple(str(f.dtype) for f in factors if isinstance(f, Load))
    sums = str(op.outputs[0].dtype)
    found = [a.name for a in ATOMS.values() if (*types, sums) == (a.operands, a.operands, a.accumulator)]
    if not found:
        raise UserError(
            f"no matrix instruction computes {op.name!r}, a sum in {sums} of operands "
            f"{', '.join(types) or 'of other kinds'}",
            primitive="decl_tensor_intrin",
            fix="declare te.sum(A[i, k].astype(sums) * B[k, j].astype(sums), axis=k) of float16 summed in float32, or "
            "of other types that tilewright.intrin.mma has",
        )
    return found[-1]  # for float32, the exact one
