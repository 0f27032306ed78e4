"""Arguments of programs for the interpreter, and running them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Buffer, Function


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def empty(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.full(shape, 77, dtype)


def run(f: Function, *args: Any, **flags: Any) -> None:
    """Run with the last argument, the output, unwritten at first."""
    interpret(f, args, outputs=[p for p in f.params[-1:] if isinstance(p, Buffer)], **flags)
