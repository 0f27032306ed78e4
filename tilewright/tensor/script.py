"""Operations with a statement written as a Python function, with loops that a schedule may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.hardware import LoopKind
from ..core.refusals import not_made
from .axis import IterVar
from .extern import ExternOp
from .tensor import Tensor

Emulation = Callable[[Sequence[np.ndarray], Callable[[str], Any]], Sequence[np.ndarray]]
"""Runs the Python function: the values of the inputs, and the NumPy type for a type's name, to the values of the
results."""


class LoopNest(NamedTuple):
    """Loops directly inside each other, outermost first, with nothing in between; `parent` is the nest around them.

    No range of such a loop depends on another loop of the nest.
    """

    axes: tuple[IterVar, ...]
    parent: int | None


class ScriptOp(ExternOp):
    """An operation that a function in the hybrid language carries out.

    `nests` are the loops of its statement in the order of the text. `loop_kinds` and `loop_threads` say how the text
    wants some of them to run. `assertions` are the (message, line) of each assertion that the statement reports.
    `emulation` runs the function on NumPy arrays.
    """

    __slots__ = ("assertions", "emulation", "loop_kinds", "loop_threads", "nests")

    def __init__(
        self,
        name: str,
        parts: ExternOp,
        nests: tuple[LoopNest, ...],
        loop_kinds: Mapping[IterVar, LoopKind],
        loop_threads: Mapping[IterVar, IterVar],
        assertions: tuple[tuple[str, str], ...],
        emulation: Emulation,
    ) -> None:
        if not isinstance(parts, ExternOp) or not callable(emulation):
            raise not_made("HybridOp", "make one by calling a function under @te.hybrid.script with tensors")
        self.nests = nests
        self.loop_kinds = loop_kinds
        self.loop_threads = loop_threads
        self.assertions = assertions
        self.emulation = emulation
        super().__init__(
            name,
            parts.inputs,
            parts.shapes,
            parts.dtypes,
            parts.statement,
            parts.input_buffers,
            parts.output_buffers,
            parts.tag,
            parts.attrs,
        )

    def reading(self, inputs: tuple[Tensor, ...]) -> ScriptOp:
        parts = super().reading(inputs)
        loops = self.nests, self.loop_kinds, self.loop_threads
        return ScriptOp(self.name, parts, *loops, self.assertions, self.emulation)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The loops of the text that it does not bind to threads, in order."""
        return tuple(axis for axis in self.loop_axes if axis not in self.loop_threads)

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return tuple(axis for nest in self.nests for axis in nest.axes)

    def nest_of(self, axis: IterVar) -> int:
        """The number of the nest that has the loop `axis` of the text."""
        return next(i for i, nest in enumerate(self.nests) if axis in nest.axes)

    def path(self, nest: int) -> set[int]:
        """The numbers of the nests around `nest`, and of `nest`."""
        found = {nest}
        at = self.nests[nest].parent
        while at is not None:
            found.add(at)
            at = self.nests[at].parent
        return found
