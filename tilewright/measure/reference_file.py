"""The arrays of a reference: random values, the file that holds them, and their digest.

Runners import this module: it loads nothing of the compiler.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.dtype import DType

_FLOAT_RANGES = ((-1.0, 1.0), (0.5, 1.5))
_INT_RANGES = ((-8, 9), (0, 2))
"""The ordinary range, and the careful one: for kernels with infinite, undefined or outlying results otherwise."""


@dataclass(frozen=True)
class OutputSample:
    """The expected values of some elements of an output; `points` are their sorted positions in C order."""

    shape: tuple[int, ...]
    points: np.ndarray
    values: np.ndarray

    def joined(self, other: OutputSample) -> OutputSample:
        """Return a sample of the elements of both."""
        points, first = np.unique(np.concatenate([self.points, other.points]), return_index=True)
        return OutputSample(self.shape, points, np.concatenate([self.values, other.values])[first])


Expected = np.ndarray | OutputSample
"""The expected values of an output, whole or sampled."""


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


def save(path: str | Path, inputs: Sequence[np.ndarray], expected: Sequence[Expected]) -> None:
    """Write inputs and expected outputs to a file."""
    named = {f"input{i}": np.asarray(a) for i, a in enumerate(inputs)}
    for i, each in enumerate(expected):
        named[f"expected{i}"] = each.values if isinstance(each, OutputSample) else np.asarray(each)
        if isinstance(each, OutputSample):
            named |= {f"points{i}": each.points, f"shape{i}": np.array(each.shape, np.int64)}
    np.savez(path, allow_pickle=False, **named)


def load(path: str | Path) -> tuple[list[np.ndarray], list[Expected]]:
    """Load the file that `save` wrote. Arrays of types that NumPy does not know come back as bytes of their size."""
    with np.load(path, allow_pickle=False) as file:
        inputs, outputs = (sum(name.startswith(kind) for name in file.files) for kind in ("input", "expected"))
        return [file[f"input{i}"] for i in range(inputs)], [_expected(file, i) for i in range(outputs)]


def _expected(file: Mapping[str, np.ndarray], number: int) -> Expected:
    values = file[f"expected{number}"]
    if f"points{number}" not in file:
        return values
    return OutputSample(tuple(map(int, file[f"shape{number}"])), file[f"points{number}"], values)
