"""A user's program as a function of arrays: its inputs and outputs, and the shapes of its results."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...auto.schedule import arguments
from ...core.errors import UserError
from ...expr import nodes as n
from ...schedule.handle import ScheduleHandle
from ...tensor.gradient.adjoints import gradient
from ...tensor.tensor import PlaceholderOp, Tensor, placeholder
from ..arguments.expressions import ArrayFunctions, evaluate

Sizes = dict[n.Var, Any]
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Min": min, "Max": max,
    "FloorDiv": operator.floordiv, "FloorMod": operator.mod,
    "Div": operator.floordiv, "Mod": operator.mod,  # sizes are not negative
}  # fmt: skip


@dataclass(frozen=True)
class DeclaredProgram:
    """The tensors of a program, and its schedule.

    Attributes
    ----------
    name : str
        The name of the operator, for errors.
    schedule : ScheduleHandle, optional
        The schedule; None for `auto_schedule`.
    sizes : tuple of Var
        The sizes that are arguments. Other sizes are extents of inputs.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[n.Var, ...]
    schedule: ScheduleHandle | None

    @property
    def arguments(self) -> list[Any]:
        """The arguments of the built function."""
        return [*self.inputs, *self.outputs, *self.sizes]

    def shapes(self, given: Sequence[tuple[Any, str]], numbers: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Check the shapes and types of inputs, and return the shapes of the results for some sizes.

        Extents are numbers, or PyTorch's symbolic integers, which compute like numbers.
        """
        known: Sizes = dict(zip(self.sizes, numbers, strict=True))
        for tensor, (shape, dtype) in zip(self.inputs, given, strict=True):
            if dtype != str(tensor.dtype):
                raise self._wrong(tensor, f"has the type {dtype}", f"convert it to {tensor.dtype}")
            if len(shape) != len(tensor.shape):
                raise self._wrong(tensor, f"has the shape {tuple(shape)}", f"give it {len(tensor.shape)} dimensions")
            for wanted, extent in zip(tensor.shape, shape, strict=True):
                if isinstance(wanted, n.Var):
                    known.setdefault(wanted, extent)
        for tensor, (shape, _) in zip(self.inputs, given, strict=True):
            whole = self._shape(tensor, known)
            if any(extent != size for extent, size in zip(shape, whole, strict=True)):
                raise self._wrong(tensor, f"has the shape {tuple(shape)}", f"give it the shape {whole}")
        made = [(tensor, self._shape(tensor, known)) for tensor in self.outputs]
        for tensor, shape in made:
            if any(isinstance(extent, int) and extent < 0 for extent in shape):
                raise self._wrong(tensor, f"would have the shape {shape}", "give larger inputs")
        return [shape for _, shape in made]

    def _shape(self, tensor: Tensor, known: Sizes) -> tuple[Any, ...]:
        def unknown(part: Any) -> UserError:
            return UserError(
                f"the extent {part} of {tensor.name!r} does not follow from the shapes of the inputs",
                primitive=self.name,
                fix="add the size to the arguments of the function",
            )

        numbers = ArrayFunctions(unknown, _ARITHMETIC, {}, lambda value, _: value, lambda value, _: value)
        return tuple(evaluate(extent, known, numbers) for extent in tensor.shape)

    def _wrong(self, tensor: Tensor, message: str, fix: str) -> UserError:
        return UserError(f"{tensor.name} {message}", primitive=self.name, fix=fix)

    def gradient(self, output: int, wanted: Sequence[bool], name: str) -> DeclaredProgram:
        """Return the gradients of an output with respect to the wanted inputs, as a program of all inputs and the
        output's gradient."""
        made = self.outputs[output]
        head = placeholder(made.shape, str(made.dtype), f"{made.name}_gradient")
        found = gradient(made, [t for t, asked in zip(self.inputs, wanted, strict=True) if asked], head)
        return DeclaredProgram(name, (*self.inputs, head), tuple(found), self.sizes, None)


def declared(name: str, inputs: Any, args: Sequence[Any] | None) -> DeclaredProgram:
    """Return the program of a schedule and its arguments, or of bare tensors; UserError for anything else."""
    schedule = inputs if isinstance(inputs, ScheduleHandle) else None
    tensors = [] if schedule is not None else list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if (schedule is None and not all(isinstance(t, Tensor) for t in tensors)) or (
        schedule is not None and args is None
    ):
        what = "no arguments are given" if schedule is not None else f"{inputs!r} is neither a schedule nor tensors"
        raise UserError(what, primitive=name, fix=f'register a schedule: torch_operator("{name}", s, [A, W, B])')
    if args is None:
        results = [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
        args = arguments(tensors, [t.op for t in results])
    found = [a for a in args if isinstance(a, Tensor)]
    sizes = tuple(a for a in args if isinstance(a, n.Var))
    if len(found) + len(sizes) != len(args):
        other = next(a for a in args if not isinstance(a, (Tensor, n.Var)))
        raise UserError(f"{other!r} is not a tensor or a size", primitive=name, fix="give tensors and te.var sizes")
    outputs = tuple(t for t in found if not isinstance(t.op, PlaceholderOp))
    if not outputs:
        raise UserError("no argument is computed", primitive=name, fix="add the results to the arguments")
    return DeclaredProgram(name, tuple(t for t in found if isinstance(t.op, PlaceholderOp)), outputs, sizes, schedule)
