"""Element-wise and broadcasting operators in NumPy, computed in float64 if they take floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _wide(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """`function` of float64 values, rounded to the type of the first argument (float32 for integers)."""

    def reference(*arrays: Any) -> Any:
        kind = np.result_type(*arrays)
        back = kind if kind.kind == "f" else np.dtype("float32")
        with np.errstate(all="ignore"):
            found = np.asarray(function(*(np.asarray(a).astype(np.float64) for a in arrays)))
        return found.astype(back)

    return reference


def _round_away(x: np.ndarray) -> np.ndarray:
    down = np.floor(np.abs(x))
    return np.asarray(np.copysign(down + (np.abs(x) - down >= 0.5), x))


UNARY: dict[str, Callable[..., np.ndarray]] = {
    "exp": _wide(np.exp),
    "exp2": _wide(np.exp2),
    "log": _wide(np.log),
    "log2": _wide(np.log2),
    "log10": _wide(np.log10),
    "log1p": _wide(np.log1p),
    "sqrt": _wide(np.sqrt),
    "rsqrt": _wide(lambda x: 1 / np.sqrt(x)),
    "sigmoid": _wide(lambda x: 1 / (1 + np.exp(-x))),
    "erf": _wide(np.vectorize(math.erf, otypes=[np.float64])),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tan": _wide(np.tan),
    "asin": _wide(np.arcsin),
    "acos": _wide(np.arccos),
    "atan": _wide(np.arctan),
    "sinh": _wide(np.sinh),
    "cosh": _wide(np.cosh),
    "tanh": _wide(np.tanh),
    "asinh": _wide(np.arcsinh),
    "acosh": _wide(np.arccosh),
    "atanh": _wide(np.arctanh),
    "fast_exp": _wide(np.exp),
    "fast_tanh": _wide(np.tanh),
    "fast_erf": _wide(np.vectorize(math.erf, otypes=[np.float64])),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _round_away,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "abs": np.abs,
    "identity": np.copy,
    "negative": np.negative,
    "sign": np.sign,
    "logical_not": np.logical_not,
    "bitwise_not": np.invert,
}
"""The element-wise operators by name."""


def _truncated_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.true_divide(a, b) if np.result_type(a, b).kind == "f" else _truncated_quotient(a, b))


BINARY: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": _divide,
    "floor_divide": np.floor_divide,
    "trunc_divide": _truncated_quotient,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "trunc_mod": np.fmod,
    "power": _wide(np.power),
    "maximum": np.maximum,
    "minimum": np.minimum,
    "log_add_exp": _wide(np.logaddexp),
    "greater": np.greater,
    "less": np.less,
    "greater_equal": np.greater_equal,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
"""The broadcasting operators by name."""


def ceil_log2_python(a_np: np.ndarray) -> np.ndarray:
    """The least whole n with 2 ** n >= a, element by element."""
    return np.array([math.ceil(math.log2(float(x))) for x in a_np.ravel()]).reshape(a_np.shape).astype(a_np.dtype)


def fixed_point_multiply_python(a_np: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """floor(a * multiplier * 2 ** (shift - 31) + 1 / 2), in whole numbers of any size."""
    scale = 31 - shift
    found = [(int(x) * multiplier * 2 + (1 << scale)) >> (scale + 1) for x in a_np.ravel()]
    return np.array(found, a_np.dtype).reshape(a_np.shape)
