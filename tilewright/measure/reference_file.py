"""The arrays of a reference: random values, the file that holds them, and their digest.

Runners import this module: it loads nothing of the compiler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..core.dtype import DType

_FLOAT_RANGES = ((-1.0, 1.0), (0.5, 1.5))
_INT_RANGES = ((-8, 9), (0, 2))
"""The ordinary range, and the careful one: for kernels with infinite, undefined or outlying results otherwise."""


def digest(arrays: Sequence[np.ndarray] | None) -> str:
    """The SHA-256 of arrays; empty for None."""
    if arrays is None:
        return ""
    made = hashlib.sha256()
    for array in arrays:
        made.update(f"{array.dtype} {array.shape}\n".encode() + array.tobytes())
    return made.hexdigest()


def random(shape: Sequence[int], dtype: str, rng: np.random.Generator, careful: bool = False) -> np.ndarray:
    """Random values of a type. With `careful`, every function is defined for them, and they are valid indices."""
    kind = DType(dtype)
    if kind.is_float:
        return rng.uniform(*_FLOAT_RANGES[careful], shape).astype(kind.numpy)
    low, high = _INT_RANGES[careful]
    return rng.integers(max(low, kind.min_value), min(high, kind.max_value + 1), shape).astype(kind.numpy)


def save(path: str | Path, inputs: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Write inputs and expected outputs to a file."""
    named = {f"input{i}": np.asarray(a) for i, a in enumerate(inputs)}
    named |= {f"expected{i}": np.asarray(a) for i, a in enumerate(expected)}
    np.savez(path, allow_pickle=False, **named)


def load(path: str | Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Load the file that `save` wrote. Arrays of types that NumPy does not know come back as bytes of their size."""
    with np.load(path, allow_pickle=False) as file:
        names = list(file.files)
        inputs = [file[f"input{i}"] for i in range(sum(name.startswith("input") for name in names))]
        return inputs, [file[f"expected{i}"] for i in range(len(names) - len(inputs))]
