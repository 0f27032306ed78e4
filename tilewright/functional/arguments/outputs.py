"""The rules for the argument `out`, for arrays of every library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...core.errors import UserError


class ArrayMemory(NamedTuple):
    """How the arrays of one library lie in memory.

    Attributes
    ----------
    noun : str
        "an array" or "a tensor", for errors.
    place : callable
        Two arrays of the same place are the same elements in the same order.
    overlap, copy : callable
        Whether two arrays share memory, and a copy of an array.
    """

    noun: str
    place: Callable[[Any], Any]
    overlap: Callable[[Any, Any], bool]
    copy: Callable[[Any], Any]

    def apart(self, array: Any, out: Any) -> Any:
        """Return a bias or a residual, copied if it overlaps `out`, which the kernel would overwrite before reading it.

        A residual may be `out` itself.
        """
        if array is None or self.place(array) == self.place(out) or not self.overlap(array, out):
            return array
        return self.copy(array)

    def check_inputs(self, name: str, out: Any, inputs: Iterable[Any]) -> None:
        """Raise UserError for an `out` that shares memory with an input of the operator `name`."""
        if any(array is not None and self.overlap(out, array) for array in inputs):
            raise UserError(
                "out shares memory with an input, which is read while it is written",
                primitive=name,
                fix=f"pass another {self.noun.split()[1]}",
            )


def check_places(name: str, shape: Iterable[int], strides: Iterable[int], noun: str = "an array") -> None:
    """Raise UserError for an `out` with overlapping elements; `name` is the operator's name."""
    if any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=False)):
        raise UserError(
            "several elements of out are one place in memory", primitive=name, fix=f"pass {noun} of its own memory"
        )
