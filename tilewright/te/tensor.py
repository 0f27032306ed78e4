"""Tensors and the operations that give them, under the legacy API's module name."""

from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

__all__ = ["ComputeOp", "Operation", "PlaceholderOp", "Tensor", "TensorSlice"]
