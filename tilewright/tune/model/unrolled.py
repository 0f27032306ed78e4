"""The unrolled loops of a kernel, by `passes/unroll_loops.py` or by the back end's compiler.

The length of a loop includes all of its work: its own stage, and the stages computed in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...bounds.nest import Loop
from ...core.hardware import LoopKind
from ...expr.nodes import Var
from ...schedule.schedule import Schedule
from .extents import KernelExtents, StageExtents
from .traced import Number

_MOST_STEPS_UNROLLED_BY_COMPILER = 96
"""The most steps that the back end's compiler unrolls by itself."""
_YES, _NO = np.ones((), bool), np.zeros((), bool)


@dataclass
class _Body:
    """The body of a loop: its inner loops, and the steps of stages outside these."""

    loop: Loop | None = None
    extent: Number = 1
    loops: dict[Var, _Body] = field(default_factory=dict)
    steps: Number = 0.0
    rolled: Number = False
    """Whether a fill inside it stays a loop."""


class Unrolled:
    """For the loops of a kernel, whether they are unrolled in each configuration.

    `fills` maps the identity of a cooperatively filled stage to the number of elements per thread.
    """

    def __init__(
        self, schedule: Schedule, kernel: KernelExtents, most: Number, fills: Mapping[int, np.ndarray]
    ) -> None:
        self.schedule = schedule
        self.most = most
        self._flags: dict[Var, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        whole = _Body()
        for found in kernel.stages:
            if id(found) in fills:
                body = _inside(whole, found, found.outer)
                each = fills[id(found)]
                body.steps = body.steps + np.where(each <= most, each, 1)
                body.rolled = body.rolled | ((each > most) & (each > 1))
            else:
                body = _inside(whole, found, [loop for loop in found.path if not self._is_vector(loop)])
                body.steps = body.steps + _copies(found)
        self._decide(whole)

    def of(self, loop: Loop) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return whether a serial loop is unrolled, whether our pass unrolls it, and whether only our pass would."""
        return self._flags.get(loop.var, (_YES, _YES, _NO))

    def is_asked(self, loop: Loop) -> bool:
        """Return whether the schedule unrolls or vectorizes the loop."""
        return self.schedule.stages[loop.stage].annotation(loop.axis).kind in (LoopKind.UNROLLED, LoopKind.VECTORIZED)

    def _is_vector(self, loop: Loop) -> bool:
        return self.schedule.stages[loop.stage].annotation(loop.axis).kind is LoopKind.VECTORIZED

    def _decide(self, body: _Body) -> tuple[Number, Number]:
        """Decide which loops of a body are unrolled, the innermost first.

        Returns the number of steps after unrolling, and whether loops remain.
        """
        steps, rolled = body.steps, body.rolled
        for inner in body.loops.values():
            more, remains = self._decide(inner)
            steps, rolled = steps + more, rolled | remains
        if body.loop is None:
            return steps, rolled
        size = steps * body.extent
        auto = ~np.asarray(rolled) & (size <= np.maximum(self.most, _MOST_STEPS_UNROLLED_BY_COMPILER))
        self._flags[body.loop.var] = auto, auto & (size <= self.most), auto & (size > _MOST_STEPS_UNROLLED_BY_COMPILER)
        written = auto | (body.extent == 1) | self.is_asked(body.loop)
        return np.where(written, size, steps), rolled | ~written


def _inside(whole: _Body, found: StageExtents, path: Iterable[Loop]) -> _Body:
    """Return the body of the innermost serial loop around a stage."""
    body = whole
    for loop in path:
        if loop.tag is None:
            extent = np.asarray(found.loop_extents[loop.var])
            body = body.loops.setdefault(loop.var, _Body(loop, extent))
    return body


def _copies(found: StageExtents) -> Number:
    """Return the number of virtual threads that each compute the stage."""
    copies: Number = 1.0
    for loop in found.path:
        if found.is_copied(loop):
            copies = copies * found.loop_extents[loop.var]
    return copies
