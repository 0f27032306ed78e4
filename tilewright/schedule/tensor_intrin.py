"""Intrinsics that programs declare by `te.decl_tensor_intrin`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.errors import UserError
from ..tensor.tensor import Operation


@dataclass(frozen=True)
class MatrixIntrin:
    """One that stands for a matrix instruction: the name of an atom, or "load" or "store" for copies of fragments."""

    name: str


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """One that is given by statements: `op` says what they compute, `buffers` (inputs, then outputs) what they access.

    `body` computes all of `op`. Where a reduction is only partly inside, `reset` stores the first values and `update`
    adds to what is there; without a reset, `body` computes the first part. What statements and buffers are is known to
    the floors above.
    """

    name: str
    op: Operation
    buffers: tuple[Any, ...]
    body: Any
    reset: Any
    update: Any

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise UserError(
            f"the intrinsic {self.name!r} is called with {', '.join(map(repr, args))}",
            primitive="tensorize",
            fix="declare the values with te.compute, and tensorize its loops: s[C].tensorize(axis, intrinsic)",
        )

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"
