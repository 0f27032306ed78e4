"""The words of the hybrid language: the meaning of each in a statement, and its value on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.target import Target
from ...expr.intrinsics import TABLE
from ...expr.operators import cast, floordiv, likely, maximum, minimum

LOOPS = ("range", "serial", "parallel", "vectorize", "unroll", "const_range", "bind")
TYPES = tuple("int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
_ON_NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh".split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in "asin acos atan asinh acosh atanh".split()},
    **{name: getattr(np, name) for name in "floor ceil trunc fmod hypot copysign power isnan isinf isfinite".split()},
    "pow": np.power,
    "atan2": np.arctan2,
    "nearbyint": np.rint,
    "exp10": lambda x: np.power(type(x)(10), x),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": lambda x: type(x)(math.erf(x)),
    "abs": abs,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),  # halves away from zero, as in kernels
    "popcount": lambda x: (int(x) & ((1 << 8 * np.asarray(x).itemsize) - 1)).bit_count(),
    "clip": lambda x, low, high: min(max(x, low), high),
}
MATH: dict[str, Callable[..., Any]] = {
    **{name: TABLE[name] for name in _ON_NUMPY},
    "likely": likely,
    "ceil_div": lambda a, b: floordiv(a + b - 1, b),
    **{name: (lambda x, t=name: cast(t, x)) for name in TYPES},
}
CHOICES: dict[str, Callable[..., Any]] = {"min": minimum, "max": maximum}
"""The functions of two or more values."""


def max_num_threads(allow_none: bool = True) -> int:
    """The largest number of threads per block on the current target; 1 without a target, or on one without threads."""
    target = Target.current(allow_none=allow_none)
    if target is None:
        return 1
    try:
        return int(target.max_num_threads)
    except (UserError, AttributeError):
        return 1


def python_words(numpy_type: Callable[[str], Any]) -> dict[str, Any]:
    """The meaning of the words when the function runs as Python; `numpy_type` names the type that represents
    another.
    """

    def numbers(begin: Any, end: Any = None, step: Any = 1) -> range:
        return range(begin) if end is None else range(begin, end, step)

    def allocate(shape: Any, dtype: Any = "float32", scope: str = "global") -> np.ndarray:
        return np.zeros(shape, numpy_type(str(dtype)))

    return {
        **{name: numbers for name in LOOPS if name not in ("range", "bind")},
        "bind": lambda tag, extent: range(extent),
        "allocate": allocate,
        "output_tensor": allocate,
        "max_num_threads": max_num_threads,
        "likely": lambda condition: condition,
        "ceil_div": lambda a, b: -(-a // b),
        **{name: (lambda x, t=name: np.dtype(numpy_type(t)).type(x)) for name in TYPES},
        **{name: f for name, f in _ON_NUMPY.items() if name != "abs"},
    }


WORDS = frozenset((*LOOPS, *MATH, *CHOICES, "allocate", "output_tensor", "max_num_threads", "len"))
