"""What bound inference finds out of each stage."""

from __future__ import annotations

from dataclasses import dataclass

from ..arith.facts import Facts
from ..core.hardware import MemoryScope
from ..expr.nodes import Expr
from ..schedule.value import Stage
from ..tensor.axis import IterVar, Range
from .nest import Loop


@dataclass(frozen=True)
class StageBounds:
    """What is known of one stored stage.

    `ranges` covers all its axes; `region` is the part of the tensor that is computed and stored (one range a
    dimension); `widened` says, for each axis whose range is larger than needed, why. `facts` are the ranges
    of the loops around the stage and of its own.
    """

    stage: Stage
    body: tuple[Expr, ...]
    ranges: dict[IterVar, Range]
    region: tuple[Range, ...]
    scope: MemoryScope
    outer: tuple[Loop, ...]
    facts: Facts
    widened: dict[IterVar, str]


Bounds = dict[int, StageBounds]
