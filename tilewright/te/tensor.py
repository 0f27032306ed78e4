"""Tensors and the operations that give them, under the legacy API's module name."""

from importlib import import_module as _import_module

from ..tensor.arithmetic import register_arithmetic as _register_arithmetic
from ..tensor.extern import ExternOp
from ..tensor.scan import ScanOp
from ..tensor.script import ScriptOp as HybridOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "ExternOp", "HybridOp", "Operation", "PlaceholderOp", "ScanOp", "Tensor", "TensorSlice"]

# On first use, so that importing te stays quick.
_register_arithmetic(lambda name: getattr(_import_module("tilewright.topi"), name))
