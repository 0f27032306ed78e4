"""When a kernel adds a bias to its sums, and the place from which a thread reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.space.knobs import Knob, alike, value_knob
from ...tune.space.space import Space
from .tensors import Tensors

FIRST, LAST, HELD = "first", "last", "held"
"""Sums start at the bias, which takes no instruction but has to be there first; it is added to complete sums, and read
there; or it is added to them, and read once per thread outside of all conditions, so that it may be loaded long before.
"""


def bias_knob(choices: Sequence[str] = (FIRST, LAST, HELD)) -> Knob:
    """Return the knob that says when a bias is added, the last one of a space."""
    return value_knob("bias", list(choices))


def searched(space: Space) -> Space:
    """The space of kernels without an epilogue, among which nothing done to a bias tells configurations apart.

    The knob is the last of a space, so that an index means the same in both.
    """
    return space.with_knob(alike(bias_knob((FIRST,)))) if "bias" in space.space_map else space


def when(choices: Mapping[str, Any]) -> str:
    """When a configuration adds a bias."""
    return str(choices["bias"].val) if "bias" in choices else FIRST


def is_added_last(choices: Mapping[str, Any]) -> bool:
    """Whether a configuration has a bias added to the sums when they are complete."""
    return when(choices) in (LAST, HELD)


def read_once(
    s: ScheduleHandle, t: Tensors, made: Sequence[Tensor], at: tuple[Tensor, IterVar], together: int = 1
) -> None:
    """Have a thread read the biases of its filters once, in the loop `at`, `together` neighbours by one load.

    Otherwise, biases added last would be read for each row of results, and late: no compiler moves a load out of the
    test for the end of an image. `made` are the stages that may read it.
    """
    bias = next((extra for extra in t.extras if len(extra.shape) == 1), None)
    reader = next((each for each in made if bias in each.op.input_tensors), None)
    if bias is None or reader is None:
        return
    mine = s.cache_read(bias, "local", [reader])
    s[mine].compute_at(s[at[0]], at[1])
    if together > 1:
        s[mine].vectorize(s[mine].split(mine.op.axis[0], factor=together)[1])
