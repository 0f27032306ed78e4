"""Floor 3: tensors and the operations that define them, reductions, and a NumPy reference."""
