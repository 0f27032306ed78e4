"""decl_tensor_intrin: matrix instructions as programs of the legacy API declare them.

Such a program says by a computation what an intrinsic means, and by calls (`tvm_mma_sync` and its kin) how it is done.
The meaning chooses the matrix instruction here; the calls only tell that it is one. Fragments of operands and sums, and
their copies, are the compiler's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.atoms import ATOMS
from ..core.errors import UserError
from ..core.own_code import calling
from ..expr.matrix_calls import MATRIX_CALLS
from ..expr.nodes import Call, Cast, Expr, Load, Mul
from ..expr.operators import const
from ..expr.traverse import post_order
from ..loops.nodes import Buffer, Evaluate, Stmt
from ..schedule.tensor_intrin import TensorIntrin
from ..tensor.reduction import Reduce
from ..tensor.tensor import Operation, Tensor

_DOES = {"tvm_load_matrix_sync": "load", "tvm_store_matrix_sync": "store", "tvm_mma_sync": "mma"}


def decl_tensor_intrin(
    op: Any,
    fcompute: Callable[[list[Any], list[Any]], Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Any = None,
    default_buffer_params: Any = None,
) -> TensorIntrin:
    """Declare a matrix instruction for `tensorize`, as the legacy API does.

    Parameters
    ----------
    op
        The operation that says what the intrinsic computes: a sum of products of two operands, or a copy.
    fcompute
        Called with the buffers of inputs and outputs; returns statements (one, or a body, a reset and an update) that
        call `tir.call_intrin("handle", "tir.tvm_mma_sync", ...)` and its kin.
    name, binds, scalar_params, default_buffer_params
        Accepted as in the legacy API; nothing depends on them.

    Returns
    -------
    TensorIntrin
        For `s[T].tensorize(axis, intrinsic)`.

    Raises
    ------
    UserError
        Where the statements call no matrix instruction, or for operands that none takes.
    """
    if not isinstance(op, Operation) or not callable(fcompute):
        raise UserError(
            f"the intrinsic is declared by {op!r} and {fcompute!r}",
            primitive="decl_tensor_intrin",
            fix="give an operation, C.op, and a function (ins, outs) -> statement",
        )
    with calling(f"fcompute of the intrinsic {name!r}"):
        made = fcompute([_Stub(t) for t in op.input_tensors], [_Stub(t) for t in op.outputs])
    parts = made if isinstance(made, (list, tuple)) else [made]
    called = [part.value.name for stmt in parts if isinstance(stmt, Stmt) for part in post_order(stmt) if _calls(part)]
    does = {_DOES[call] for call in called if call in _DOES}
    if len(does) != 1:
        raise UserError(
            f"the intrinsic {name!r} calls {', '.join(called) or 'no matrix instruction'}",
            primitive="decl_tensor_intrin",
            fix="only loading, storing and multiplying fragments by tvm_load_matrix_sync, tvm_store_matrix_sync and "
            "tvm_mma_sync are known; vectorise other loops",
        )
    (what,) = does
    return TensorIntrin(_atom_of(op) if what == "mma" else what)


def _calls(part: Any) -> bool:
    return isinstance(part, Evaluate) and isinstance(part.value, Call) and part.value.name in MATRIX_CALLS


class _Stub:
    """What stands for a buffer in the body of an intrinsic: its place in memory is not known there."""

    def __init__(self, tensor: Tensor) -> None:
        self.name, self.shape, self.dtype = tensor.name, tensor.shape, tensor.dtype
        self.data = self.elem_offset = const(0, "int32")
        self.strides = [const(1, "int32") for _ in tensor.shape]

    def access_ptr(self, access_mask: Any = "r", *args: Any, **options: Any) -> Expr:
        """A pointer to the buffer."""
        return const(0, "int32")


def _atom_of(op: Operation) -> str:
    """The atom for the types of a sum of products."""
    body = op.body[0] if op.body else None
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
    return found[-1]  # of float32: the exact one
