"""Calls on JAX's arrays, within `jit`, `grad` and `vmap`."""
