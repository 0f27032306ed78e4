"""The operators registered with PyTorch, and their gradients."""
