"""Weight gradients on CPUs."""

from __future__ import annotations

from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from .processor import VectorRegisters
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .weight_gradient import WeightGradient


def space(of: WeightGradient) -> Space:
    """No choice."""
    return Space([value_knob("parallel", [1])])


def schedule(of: WeightGradient, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Filters on all processors."""
    s[t.out].parallel(t.out.op.axis[0])
    if t.sums is not t.out:
        s[t.sums].compute_at(s[t.out], t.out.op.axis[-1])


def usual(of: WeightGradient, registers: VectorRegisters) -> dict[str, Any]:
    return {"parallel": 1}


ON_CPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, usual)
