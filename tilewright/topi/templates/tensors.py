"""The tensors that a schedule of a convolution works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import ComputeOp, Tensor


@dataclass(frozen=True)
class Tensors:
    """A convolution's tensors; `extras` are the tensors that its epilogue adds. Without an epilogue, `sums` is `out`.

    `finished` is what an activation makes of the sums, if a strategy has that done before results are stored. Without a
    `target`, the kernel is for the default GPU. If `inputs_are_placed`, the caller has scheduled their inputs.
    """

    data: Tensor
    weights: Tensor
    extras: tuple[Tensor, ...]
    sums: Tensor
    out: Tensor
    finished: Tensor | None = None
    target: Target | None = None
    inputs_are_placed: bool = False

    @property
    def padded(self) -> Tensor:
        """The other operand of the sums beside the weights: the input with its border."""
        return next(t for t in self.sums.op.input_tensors if t.op is not self.weights.op)

    @property
    def args(self) -> list[Any]:
        """The arguments of the kernel, in order: data, weights if there are any, extras, result."""
        weights = [] if self.weights is self.data else [self.weights]
        return [self.data, *weights, *self.extras, self.out]

    def in_registers(self, s: ScheduleHandle) -> Tensor:
        """Have the sums computed in registers; returns the stage that does it, to be attached to `out`."""
        if self.sums is self.out:
            made: Tensor = s.cache_write(self.out, "local")
            return made
        s[self.sums].set_scope("local")
        return self.sums


def as_stored(weights: Tensor, reader: Tensor) -> tuple[Tensor, Tensor]:
    """Return the argument of the kernel that has the weights, and its reader: `reader`, or the view that reads it."""
    return (weights.op.input_tensors[0], weights) if isinstance(weights.op, ComputeOp) else (weights, reader)
