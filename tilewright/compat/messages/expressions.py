"""Requests of Python and NumPy that a number fulfils and an expression cannot, with replacements.

The value of an expression is known only when the program runs.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError, UserTypeError, UserValueError
from ...expr.runtime_value import RuntimeValue

_PRODUCT = "te.sum(A[i, k] * B[k, j], axis=k) in a te.compute"
_OPERATORS = {
    "pow": ("{x} ** {y}", "**", "write x * x, or te.power(x, 2)"),
    "rpow": ("{y} ** {x}", "**", "use te.power(2, x), te.exp2(x), or 1 << i for integers"),
    "matmul": ("{x} @ {y}", "@", _PRODUCT),
    "rmatmul": ("{y} @ {x}", "@", _PRODUCT),
    "divmod": ("divmod({x}, {y})", "divmod()", "write a // b and a % b"),
    "rdivmod": ("divmod({y}, {x})", "divmod()", "write a // b and a % b"),
}
"""Operators that expressions lack: spelling, name and replacement."""
_VALUES = {
    "abs": ("abs()", "te.abs(x)"),
    "round": ("round()", "te.round(x)"),
    "floor": ("math.floor()", "te.floor(x)"),
    "ceil": ("math.ceil()", "te.ceil(x)"),
    "trunc": ("math.trunc()", "te.trunc(x)"),
    "int": ("int()", 'x.astype("int32"), which converts within the program'),
    "float": (
        "float(), and so math.sqrt() and its kin,",
        'te.sqrt(x) and its kin, and x.astype("float32") to convert',
    ),
    "index": (
        "range(), and the index of a Python list or NumPy array,",
        "the axes of te.compute, or te.reduce_axis((0, n)), for a loop, and a te.placeholder for the list",
    ),
}
"""Uses that need the value now: the user, and a replacement."""
_SAME_NAME = (
    "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh floor ceil trunc power fmod hypot copysign isnan "
    "isinf isfinite"
)
_FACES = {
    **{name: f"te.{name}(...)" for name in _SAME_NAME.split()},
    **{f"arc{name}": f"te.a{name}(...)" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    "absolute": "te.abs(...)", "fabs": "te.abs(...)", "rint": "te.nearbyint(...)", "float_power": "te.power(...)",
    "maximum": "te.max(a, b)", "fmax": "te.max(a, b)", "minimum": "te.min(a, b)", "fmin": "te.min(a, b)",
    "square": "x * x", "reciprocal": "1 / x", "sign": "te.if_then_else(x > 0, 1, te.if_then_else(x < 0, -1, 0))",
    "logical_and": "te.all(a, b)", "logical_or": "te.any(a, b)", "logical_not": "tir.Not(a)",
    **dict.fromkeys(("matmul", "dot", "tensordot", "einsum", "sum"), "a te.compute with te.sum(..., axis=k)"),
    "where": "te.if_then_else(condition, a, b)", "clip": "te.max(low, te.min(x, high))",
}  # fmt: skip


def error_for(asked: str, value: RuntimeValue, *operands: Any) -> UserError:
    """Make the error for a protocol of Python's or NumPy's that was asked of an expression."""
    x = value.spelled()
    if asked in _OPERATORS:
        text, operator, instead = _OPERATORS[asked]
        return UserTypeError(f"`{text.format(x=x, y=repr(operands[0]))}`: expressions have no {operator}", fix=instead)
    if asked in _VALUES:
        return _unknown(x, *_VALUES[asked])
    if asked == "bool":
        return UserValueError(
            f"the value of `{x}` is not known while the program is built, so `and`, `or`, `not`, "
            "`if`, max(), min() and chained comparisons cannot use it",
            fix="use te.all(...), te.any(...), tir.Not(...), te.if_then_else(condition, a, b), te.max(a, b)",
        )
    return _of_lists(x, asked, operands) if asked in ("iter", "len", "getitem") else _of_numpy(x, asked, operands[0])


def _of_lists(x: str, asked: str, operands: tuple[Any, ...]) -> UserTypeError:
    if asked == "iter":
        return UserTypeError(
            f"`{x}` is one value, which cannot be iterated over",
            fix="an axis of te.compute runs by itself; sum over te.reduce_axis((0, n)) with te.sum(..., axis=k)",
        )
    if asked == "len":
        return UserTypeError(
            f"`{x}` is one value, so it has no len()", fix="a tensor's extents are A.shape, their number is A.ndim"
        )
    return UserTypeError(
        f"`{x}` is one value, so it cannot be indexed with [{operands[0]!r}]",
        fix="give a tensor as many indices as it has dimensions (A.ndim), and other values none",
    )


def _of_numpy(x: str, asked: str, about: Any) -> UserTypeError:
    if asked == "array":
        return _unknown(x, f"a NumPy array of {about}", "a te.placeholder for values that the call passes")
    name = about.__name__
    others = "such as te.exp(x)" if asked == "array_ufunc" else "element by element"
    return _unknown(x, f"np.{name}()", _FACES.get(name, f"the functions of te, {others}"))


def _unknown(x: str, asker: str, instead: str) -> UserTypeError:
    return UserTypeError(
        f"the value of `{x}` is not known while the program is built, so {asker} cannot use it",
        fix=f"use {instead}",
    )
