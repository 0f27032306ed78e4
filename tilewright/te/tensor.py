"""Tensors and the operations that give them, under the legacy API's module name."""

from typing import Any as _Any

from ..tensor.arithmetic import register_arithmetic as _register_arithmetic
from ..tensor.extern import ExternOp
from ..tensor.scan import ScanOp
from ..tensor.script import ScriptOp as HybridOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "ExternOp", "HybridOp", "Operation", "PlaceholderOp", "ScanOp", "Tensor", "TensorSlice"]


def _operator(name: str) -> _Any:
    from .. import topi  # imported at first use, so that the import of te stays fast

    return getattr(topi, name)


_register_arithmetic(_operator)
