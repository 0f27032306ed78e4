"""Intrinsics that programs declare by `te.decl_tensor_intrin`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from ..core.errors import UserError
from ..tensor.intrinsic_call import IntrinsicCall, call_intrinsic
from ..tensor.tensor import Operation, Tensor


@dataclass(frozen=True)
class MatrixIntrin:
    """An intrinsic for a matrix instruction: the name of an atom, or "load" or "store" for copies of fragments."""

    name: str


@dataclass(frozen=True, eq=False)
class TensorIntrin:
    """An intrinsic defined by statements. `op` declares their computation, `buffers` (inputs, then outputs) their
    accesses.

    `body` computes all of `op`. If a reduction is only partly inside, `reset` stores the initial values, and `update`
    adds to the stored values. Without a reset, `body` computes the first part. The types of statements and buffers are
    known to the floors above. `scalar_params` are variables that stand for numbers, which differ between uses.
    """

    name: str
    op: Operation
    buffers: tuple[Any, ...]
    body: Any
    reset: Any
    update: Any
    scalar_params: tuple[Any, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs of the operation, in the order of their buffers."""
        return self.op.input_tensors

    @property
    def reduce_init(self) -> Any:
        """The statement that stores the first values of a reduction; None if there is none."""
        return self.reset

    @property
    def reduce_update(self) -> Any:
        """The statement that adds to the stored values; None if there is none."""
        return self.update

    def __call__(self, *args: Any, reduce_axis: Any = None) -> IntrinsicCall:
        """The intrinsic on regions of tensors, for the function of a `te.compute` that takes fewer axes.

        `reduce_axis` is an axis, or a list of axes, that the regions are reduced over besides.
        """
        return call_intrinsic(self, args, reduce_axis)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"


def refuse(what: str, fix: str) -> NoReturn:
    """Raise UserError for loops that an intrinsic or a matrix instruction cannot replace."""
    raise UserError(what, primitive="tensorize", fix=fix)
