"""Operations given by statements instead of by the value of each element."""

from __future__ import annotations

from typing import Any

from ..core.dtype import DType
from ..core.refusals import not_made
from ..core.views import view
from ..expr.nodes import Expr
from .tensor import Operation, Tensor


class ExternOp(Operation):
    """An operation that `statement`, a program of the loop grammar, carries out on whole tensors.

    `statement` reads `input_buffers` and writes `output_buffers`, which stand for `inputs` and for the results. The
    types of statements and buffers are known to the floors above.
    """

    __slots__ = ("input_buffers", "inputs", "output_buffers", "shapes", "statement")

    def __init__(
        self,
        name: str,
        inputs: tuple[Tensor, ...],
        shapes: tuple[tuple[Expr, ...], ...],
        dtypes: tuple[DType, ...],
        statement: Any,
        input_buffers: tuple[Any, ...],
        output_buffers: tuple[Any, ...],
        tag: str = "",
        attrs: Any = None,
    ) -> None:
        if not (isinstance(inputs, tuple) and isinstance(shapes, tuple) and shapes):
            raise not_made("ExternOp", "make one with te.extern(shape, inputs, fcompute)")
        self.inputs = inputs
        self.shapes = shapes
        self.statement = statement
        self.input_buffers = input_buffers
        self.output_buffers = output_buffers
        super().__init__(name, shapes[0], dtypes, tag, attrs)

    def reading(self, inputs: tuple[Tensor, ...]) -> ExternOp:
        """Return the operation with a statement that reads other tensors of the same shapes and types."""
        buffers = self.input_buffers, self.output_buffers
        return ExternOp(self.name, inputs, self.shapes, self.dtypes, self.statement, *buffers, self.tag, self.attrs)

    @property
    def body(self) -> Any:
        return view("statement", self)

    def shape_of(self, index: int) -> tuple[Expr, ...]:
        return self.shapes[index]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))
