"""The results of bound inference, one per stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..arith.facts import Facts
from ..core.atoms import Atom, Fragment
from ..core.hardware import MemoryScope
from ..expr.nodes import Expr, Load, Var
from ..schedule.schedule import Stage
from ..tensor.axis import IterVar, Range
from .nest import Loop, axis_values


@dataclass(frozen=True)
class StageContraction:
    """The innermost loops of a stage as a product of matrices: sums over `depth` of a[rows, depth] * b[depth, columns].

    The axes are loops of `stage` with the ranges `ranges`: the stage before its loops were distributed over lanes. `a`
    and `b` are the operands as the body of the stage loads them.
    """

    atom: Atom
    stage: Stage
    ranges: dict[IterVar, Range]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    depth: tuple[IterVar, ...]
    a: Load
    b: Load


@dataclass(frozen=True)
class ReadEnd:
    """The minimum or the extent of a reduction axis: `var` stands for `value`, an expression of the operation's axes.

    `depth` is the place of the first loop of the stage that runs over the axis, or over a part of it.
    """

    var: Var
    value: Expr
    depth: int


@dataclass(frozen=True)
class StageBounds:
    """The bounds of one stored stage.

    `ranges` covers all its axes; `region` is the part of the tensor that is computed and stored (one range per
    dimension). `widened` has the reason for each axis with a range larger than needed. `facts` are the ranges of the
    loops around the stage and of its own. `contraction` has the loops that a matrix instruction computes, and
    `fragment` the distribution of its result over a warp's lanes. `align` is the alignment of its address, in bytes.
    `ends` are the ends of its reduction axes that are read from tensors. `readers` are the ids of the stages that read
    it.
    """

    stage: Stage
    body: tuple[Expr, ...]
    ranges: dict[IterVar, Range]
    region: tuple[Range, ...]
    scope: MemoryScope
    outer: tuple[Loop, ...]
    facts: Facts
    widened: dict[IterVar, str]
    contraction: StageContraction | None = None
    fragment: Fragment | None = None
    align: int = 64
    ends: tuple[ReadEnd, ...] = ()
    readers: tuple[int, ...] = ()

    @cached_property
    def values(self) -> Mapping[IterVar, Expr]:
        """The value of each axis in terms of loop variables."""
        return axis_values(self.stage, self.ranges)


Bounds = dict[int, StageBounds]
