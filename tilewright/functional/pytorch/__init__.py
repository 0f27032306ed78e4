"""Calls on PyTorch's tensors."""
