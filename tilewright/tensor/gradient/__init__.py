"""Gradients: the derivative of a tensor with respect to those that it is computed from, as tensors."""
