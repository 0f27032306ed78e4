"""Uses of a whole tensor that mean one of its elements, with the correct spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import UserAttributeError, UserTypeError
from ...tensor.tensor import Tensor, element_of

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "pow": "**",
}  # fmt: skip
_SYMBOLS = {
    **_BINARY, **{f"r{name}": symbol for name, symbol in _BINARY.items()},
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "invert": "~", "abs": "abs()", "int": "int()",
    "float": "float()", "index": "an index", "round": "round()", "bool": "`if`, `and`, `or` or `not`",
}  # fmt: skip
_PRODUCT = "te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))"
_ELSEWHERE = {
    **dict.fromkeys(("numpy", "asnumpy"), "build the program, call it with tw.nd arrays, and read these: b.numpy()"),
    **dict.fromkeys(("T", "transpose"), "te.compute((m, n), lambda i, j: A[j, i])"),
    **dict.fromkeys(("reshape", "flatten", "view"), "te.compute((n * m,), lambda i: A[i // m, i % m])"),
    **dict.fromkeys(
        ("sum", "max", "min", "mean", "prod"),
        "te.compute((n,), lambda i: te.sum(A[i, k], axis=k)) with k = te.reduce_axis((0, m))",
    ),
    "cast": 'A.astype("float32"), or topi.cast',
    **dict.fromkeys(("size", "strides"), "the extents are A.shape"),
    **dict.fromkeys(
        ("split", "reorder", "fuse", "bind", "vectorize", "unroll", "parallel", "compute_at", "compute_inline"),
        "schedules are made apart: s = te.create_schedule(B.op), then s[B].split(B.op.axis[0], factor=32)",
    ),
}  # fmt: skip


def error_for(asked: str, tensor: Tensor, *operands: Any) -> Exception:
    """Make the error for a protocol of Python's or NumPy's that was asked of a tensor."""
    return _used_whole(tensor, f"with {_SYMBOLS[asked]}") if asked in _SYMBOLS else _EXPLAINS[asked](tensor, *operands)


def _used_whole(tensor: Tensor, how: str, instead: str = "") -> UserTypeError:
    element = element_of(tensor)
    axes = element.partition("[")[2].rstrip("]")
    return UserTypeError(
        f"tensor {tensor.name!r} of shape {list(tensor.shape)} is used whole, {how}",
        fix=instead
        or f"write it for one element, {element}"
        + (f": te.compute({tensor.name}.shape, lambda {axes}: {element} ...)" if axes else ""),
    )


def _multiplied(tensor: Tensor, other: Any) -> UserTypeError:
    return _used_whole(tensor, "with @", _PRODUCT)


def _converted(tensor: Tensor, *options: Any) -> UserTypeError:
    return _used_whole(tensor, "as a NumPy array", "a declaration has no values: build the program and call it")


def _given_to_numpy(tensor: Tensor, function: Any, *others: Any) -> UserTypeError:
    return _used_whole(tensor, f"with np.{function.__name__}()")


def _measured(tensor: Tensor) -> UserTypeError:
    return UserTypeError(
        f"len() of tensor {tensor.name!r}, of shape {list(tensor.shape)}",
        fix="its extents are A.shape, their number is A.ndim",
    )


def _iterated(tensor: Tensor) -> UserTypeError:
    """Without it Python would index 0, 1, 2 ... without end."""
    return UserTypeError(
        f"tensor {tensor.name!r} is used as a list of its elements",
        fix="read one element with A[i, j]; if several tensors are expected, give [A, B]",
    )


def _assigned(tensor: Tensor, *others: Any) -> UserTypeError:
    return UserTypeError(
        f"elements of tensor {tensor.name!r} are assigned to or deleted, but a tensor is declared once",
        fix="declare another one: B = te.compute(A.shape, lambda i: te.if_then_else(i == 0, 3, A[i]))",
    )


def _asked_for(tensor: Tensor, name: str) -> Exception:
    if name.startswith("__") or name not in _ELSEWHERE:
        return AttributeError(f"{type(tensor).__name__!r} object has no attribute {name!r}", name=name, obj=tensor)
    return UserAttributeError(f"a tensor has no {name!r}: it is a declaration", fix=_ELSEWHERE[name])


_EXPLAINS: dict[str, Callable[..., Exception]] = {
    "matmul": _multiplied,
    "rmatmul": _multiplied,
    "array": _converted,
    "array_ufunc": _given_to_numpy,
    "array_function": _given_to_numpy,
    "len": _measured,
    "iter": _iterated,
    "setitem": _assigned,
    "delitem": _assigned,
    "getattr": _asked_for,
}
