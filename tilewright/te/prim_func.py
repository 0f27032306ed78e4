"""Functions of tensors, without a schedule of their own."""

from __future__ import annotations

from typing import Any

from ..bounds.infer import infer_bounds
from ..core.errors import UserError
from ..expr.nodes import Var
from ..loops.build import build_function
from ..loops.nodes import Function
from ..schedule.handle import create_schedule
from ..tensor.tensor import PlaceholderOp, Tensor


def create_prim_func(ops: Any, index_dtype_override: Any = None) -> Function:
    """Make a function that computes tensors, by plain loops: each stage by itself.

    Parameters
    ----------
    ops
        The parameters: inputs, results and sizes. Tensors between inputs and results are internal storage.
    index_dtype_override
        Accepted for old scripts; passes choose how wide indices are.

    Returns
    -------
    Function
        For `tvm.build`, `tvm.IRModule.from_expr` and passes. `te.create_schedule` makes fast ones.

    Raises
    ------
    UserError
        If a parameter is not a tensor or a size, or none of them is computed.
    """
    given = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    wrong = next((op for op in given if not isinstance(op, (Tensor, Var))), None)
    if wrong is not None:
        raise UserError(
            f"{wrong!r} is neither a tensor nor a size", primitive="create_prim_func", fix="give [A, B] or [A, B, n]"
        )
    results = [op for op in given if isinstance(op, Tensor) and not isinstance(op.op, PlaceholderOp)]
    if not results:
        raise UserError(
            "none of the tensors is computed", primitive="create_prim_func", fix="give the result among them: [A, B]"
        )
    schedule = create_schedule(list(dict.fromkeys(result.op for result in results))).value
    return build_function(schedule, infer_bounds(schedule), given)
