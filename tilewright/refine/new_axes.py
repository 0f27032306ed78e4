"""New axes of a stage, for redistributed loops, and the relations between them and the stage's own axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr.operators import const
from ..schedule.relations import Fuse, Relation, Split
from ..schedule.schedule import Stage
from ..tensor.axis import AxisKind, IterVar


class NewAxes:
    """Fuses and splits axes of a stage; `relations` has the given relations, then the relations of each step."""

    def __init__(self, stage: Stage, relations: Iterable[Relation] = ()) -> None:
        self.stage = stage
        self.relations = list(relations)

    def _axis(self, name: str) -> IterVar:
        return IterVar(f"{self.stage.name}.{name}", None, AxisKind.DATA)

    def fused(self, axes: Sequence[IterVar], name: str) -> IterVar:
        """Fuse axes to one axis, the last axis the fastest."""
        whole = axes[0]
        for other in axes[1:]:
            both = self._axis(name)
            self.relations.append(Fuse(whole, other, both))
            whole = both
        return whole

    def split(self, parent: IterVar, factor: int, outer: str, inner: str) -> tuple[IterVar, IterVar]:
        """The outer and the inner axis, which has `factor` iterations."""
        parts = self._axis(outer), self._axis(inner)
        self.relations.append(Split(parent, *parts, const(factor, "int32"), None))
        return parts
