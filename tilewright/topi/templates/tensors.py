"""The tensors of a convolution's schedule, and the time at which its kernel adds a bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import ComputeOp, Tensor
from ...tune.space.knobs import Knob, alike, value_knob
from ...tune.space.space import Space


@dataclass(frozen=True)
class Tensors:
    """A convolution's tensors. `extras` are the tensors that its epilogue reads. Without an epilogue, `sums` is `out`.

    `finished` holds the sums after the activation, if a strategy applies it before results are stored. Without a
    `target`, the kernel is for the default GPU. If `are_factors`, data and weights are the left and the right factor of
    a contraction, and the caller has scheduled their inputs.
    """

    data: Tensor
    weights: Tensor
    extras: tuple[Tensor, ...]
    sums: Tensor
    out: Tensor
    finished: Tensor | None = None
    target: Target | None = None
    are_factors: bool = False

    @property
    def padded(self) -> Tensor:
        """The operand of the sums other than the weights: the padded input."""
        return next(t for t in self.sums.op.input_tensors if t.op is not self.weights.op)

    @property
    def args(self) -> list[Any]:
        """The arguments of the kernel, in order: data, weights if there are any, extras, result."""
        weights = [] if self.weights is self.data else [self.weights]
        return [self.data, *weights, *self.extras, self.out]

    def in_registers(self, s: ScheduleHandle) -> Tensor:
        """Compute the sums in registers; returns their stage, which the caller attaches to `out`."""
        if self.sums is self.out:
            made: Tensor = s.cache_write(self.out, "local")
            return made
        s[self.sums].set_scope("local")
        return self.sums


def inputs_named(tensor: Tensor, *names: str) -> list[Tensor]:
    """Return the tensors of the given names among the producers of a tensor."""
    return [next(t for t in tensor.op.input_tensors if t.op.name == name) for name in names]


def as_stored(weights: Tensor, reader: Tensor) -> tuple[Tensor, Tensor]:
    """Return the kernel's argument that holds the weights, and the stage that reads it: `reader`, or a view of the
    weights."""
    return (weights.op.input_tensors[0], weights) if isinstance(weights.op, ComputeOp) else (weights, reader)


FIRST, LAST, HELD = "first", "last", "held"
"""The time at which a bias is added. FIRST: sums start at the bias. That takes no instruction, but the sums wait for
its load. LAST: the bias is read and added after a sum is complete. HELD: the same, but a thread reads the bias once,
outside all conditions, so that it may be loaded long before."""


def bias_knob(choices: Sequence[str] = (FIRST, LAST, HELD)) -> Knob:
    """Return the knob for the time at which a bias is added; it is the last knob of a space."""
    return value_knob("bias", list(choices))


def without_bias_knob(space: Space) -> Space:
    """Return the space without the knob of the bias, for kernels without an epilogue.

    Without a bias, that knob makes no difference. It is the last knob of a space, so an index means the same in both
    spaces.
    """
    return space.with_knob(alike(bias_knob((FIRST,)))) if "bias" in space.space_map else space


def when(choices: Mapping[str, Any]) -> str:
    """Return the time at which a configuration adds a bias."""
    return str(choices["bias"].val) if "bias" in choices else FIRST


def is_added_last(choices: Mapping[str, Any]) -> bool:
    """Return whether a configuration adds the bias to complete sums."""
    return when(choices) in (LAST, HELD)


def read_once(
    s: ScheduleHandle, t: Tensors, made: Sequence[Tensor], at: tuple[Tensor, IterVar], together: int = 1
) -> None:
    """Have a thread read the biases of its filters once, in the loop `at`, `together` neighbours per load.

    Otherwise, biases added last would be read late, and once per row of results. No compiler moves a load out of the
    test for the end of an image. `made` are the stages that may read the bias.
    """
    bias = next((extra for extra in t.extras if len(extra.shape) == 1), None)
    reader = next((each for each in made if bias in each.op.input_tensors), None)
    if bias is None or reader is None:
        return
    mine = s.cache_read(bias, "local", [reader])
    s[mine].compute_at(s[at[0]], at[1])
    if together > 1:
        s[mine].vectorize(s[mine].split(mine.op.axis[0], factor=together)[1])
