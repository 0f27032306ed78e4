"""Gradients: the derivative of a tensor with respect to its operands, as tensors."""
