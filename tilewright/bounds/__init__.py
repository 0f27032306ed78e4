"""The regions of tensors that their readers need, and so the range of every axis."""
