"""Uses of a whole tensor where one element of it is meant: each is refused, with the way to write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

from ..core.errors import UserAttributeError, UserError, UserTypeError
from ..expr.nodes import Expr

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|",
    "xor": "^", "lshift": "<<", "rshift": ">>", "pow": "**",
}  # fmt: skip
_SYMBOLS = {
    **_BINARY, **{f"r{name}": symbol for name, symbol in _BINARY.items()},
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "invert": "~", "abs": "abs()", "int": "int()",
    "float": "float()", "index": "an index", "round": "round()", "bool": "`if`, `and`, `or` or `not`",
}  # fmt: skip
_AXES = "ijklmnpq"


class Shaped(Protocol):
    """What the messages tell of a tensor."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[Expr, ...]: ...


class Whole:
    """Base of tensors: operators and functions of elements, refused on all elements at once."""

    __slots__ = ()

    def __matmul__(self, other: Any) -> NoReturn:
        raise _matmul(self)

    def __rmatmul__(self, other: Any) -> NoReturn:
        raise _matmul(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise _used_whole(self, "as a NumPy array", "a declaration has no values: build the program and call it")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> NoReturn:
        raise _used_whole(self, f"with np.{ufunc.__name__}()")

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> NoReturn:
        raise _used_whole(self, f"with np.{function.__name__}()")

    def __len__(self) -> int:
        raise UserTypeError(
            f"len() of tensor {_named(self).name!r}, of shape {list(_named(self).shape)}",
            fix="its extents are A.shape, their number is A.ndim",
        )

    def __iter__(self) -> NoReturn:
        raise not_iterable(_named(self))

    def __setitem__(self, indices: Any, value: Any) -> NoReturn:
        raise _assigned(self)

    def __delitem__(self, indices: Any) -> NoReturn:
        raise _assigned(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name not in _ELSEWHERE:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        raise UserAttributeError(f"a tensor has no {name!r}: it is a declaration", fix=_ELSEWHERE[name])


_ELSEWHERE = {
    **dict.fromkeys(("numpy", "asnumpy"), "build the program, call it with tw.nd arrays, and ask those: b.numpy()"),
    **dict.fromkeys(("T", "transpose"), "te.compute((m, n), lambda i, j: A[j, i])"),
    **dict.fromkeys(("reshape", "flatten", "view"), "te.compute((n * m,), lambda i: A[i // m, i % m])"),
    **dict.fromkeys(
        ("sum", "max", "min", "mean", "prod"),
        "te.compute((n,), lambda i: te.sum(A[i, k], axis=k)) with k = te.reduce_axis((0, m))",
    ),
    **dict.fromkeys(("astype", "cast"), 'te.compute(A.shape, lambda i: A[i].astype("float32"))'),
    **dict.fromkeys(("size", "strides"), "the extents are A.shape"),
    **dict.fromkeys(
        ("split", "reorder", "fuse", "bind", "vectorize", "unroll", "parallel", "compute_at", "compute_inline"),
        "schedules are made apart: s = te.create_schedule(B.op), then s[B].split(B.op.axis[0], factor=32)",
    ),
}  # fmt: skip


def _refusing(symbol: str) -> Callable[..., NoReturn]:
    def operator(self: Any, *others: Any) -> NoReturn:
        raise _used_whole(self, f"with {symbol}")

    return operator


for _name, _symbol in _SYMBOLS.items():
    setattr(Whole, f"__{_name}__", _refusing(_symbol))


def _named(tensor: Any) -> Shaped:
    return tensor  # type: ignore[no-any-return]  # every Whole is a tensor


def element_of(tensor: Shaped) -> str:
    """How an element of a tensor is written: `A[i, j]`."""
    return f"{tensor.name}[{', '.join(_AXES[: len(tensor.shape)])}]" if tensor.shape else f"{tensor.name}()"


def _used_whole(tensor: Any, how: str, instead: str = "") -> UserTypeError:
    axes = ", ".join(_AXES[: len(tensor.shape)])
    element = element_of(tensor)
    return UserTypeError(
        f"tensor {tensor.name!r} of shape {list(tensor.shape)} is used whole, {how}",
        fix=instead
        or f"write it for one element, {element}"
        + (f": te.compute({tensor.name}.shape, lambda {axes}: {element} ...)" if axes else ""),
    )


def _matmul(tensor: Any) -> UserTypeError:
    return _used_whole(tensor, "with @", "te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k))")


def _assigned(tensor: Any) -> UserTypeError:
    return UserTypeError(
        f"elements of tensor {tensor.name!r} are assigned to or deleted, but a tensor is declared once",
        fix="declare another one: B = te.compute(A.shape, lambda i: te.if_then_else(i == 0, 3, A[i]))",
    )


def not_iterable(tensor: Shaped) -> UserError:
    """Without it Python would index 0, 1, 2 ... without end."""
    return UserTypeError(
        f"tensor {tensor.name!r} is used as a list of its elements",
        fix="read one element with A[i, j]; where several tensors are expected, give [A, B]",
    )
