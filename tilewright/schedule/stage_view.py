"""Attributes of a stage under the legacy API's names: the annotations on its loops, and the place it is attached to."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.hardware import LoopKind
from ..expr.nodes import StringImm
from ..tensor.axis import IterVar
from ..tensor.scan import ScanOp
from .groups import smallest_around
from .schedule import At, AxisAnnotations, Inlined, Stage
from .tensor_intrin import TensorIntrin

_ITER_TYPES = {
    LoopKind.THREAD: IterVar.ThreadIndex,
    LoopKind.UNROLLED: IterVar.Unrolled,
    LoopKind.VECTORIZED: IterVar.Vectorized,
    LoopKind.PARALLEL: IterVar.Parallelized,
}
_GROUP_ROOT, _INLINE, _SCOPE, _SCAN_UPDATE = 1, 2, 4, 5


class IterVarAttr(NamedTuple):
    """The annotations of a loop: its kind, thread, intrinsic and pragmas, and the alignment of its axis."""

    iter_type: int
    bind_thread: IterVar | None
    tensor_intrin: TensorIntrin | None
    pragma_keys: tuple[StringImm, ...]
    pragma_values: tuple[Any, ...]
    dim_align_factor: int
    dim_align_offset: int


class StageView:
    """A handle of a stage that answers as the legacy API's does."""

    __slots__ = ()

    schedule: Any

    @property
    def value(self) -> Stage:
        """The immutable stage as it stands."""
        raise NotImplementedError

    @property
    def iter_var_attrs(self) -> dict[IterVar, IterVarAttr]:
        """The annotations of the stage's loops and axes; plain ones are not listed."""
        stage = self.value
        said = [axis for axis in stage.all_axes if axis in stage.annotations or axis in stage.aligns]
        said += [axis for axis in (_tensorized(stage),) if axis is not None and axis not in said]
        return {axis: _attr(stage, axis, stage.annotation(axis)) for axis in said}

    @property
    def attach_type(self) -> int:
        """The stage's place: 1 by itself, 2 inlined, 4 at a loop of another stage, 5 at the loop of its scan."""
        placement = self.value.placement
        if isinstance(placement, Inlined):
            return _INLINE
        if not isinstance(placement, At):
            return _GROUP_ROOT
        return _SCAN_UPDATE if self._is_step(placement) else _SCOPE

    @property
    def attach_ivar(self) -> IterVar | None:
        """The loop that the stage is computed at; None if it is computed by itself or inlined."""
        placement = self.value.placement
        return placement.axis if isinstance(placement, At) else None

    @property
    def attach_stage(self) -> Any:
        """The stage with the loop of this stage's compute_at; None if this stage is at the root or inlined."""
        placement = self.value.placement
        return type(self)(self.schedule, placement.stage) if isinstance(placement, At) else None  # type: ignore[call-arg]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StageView):
            return NotImplemented
        return self.schedule is other.schedule and self.value.id == other.value.id

    def __hash__(self) -> int:
        return hash((id(self.schedule), self.value.id))

    @property
    def group(self) -> Any:
        """The smallest group that has the stage, of `s.create_group` or the steps of a scan; None if there is none."""
        return smallest_around(self.schedule, self)

    def _is_step(self, placement: At) -> bool:
        around = self.schedule.value.stages[placement.stage].op
        return isinstance(around, ScanOp) and placement.axis is around.scan_axis


def _tensorized(stage: Stage) -> IterVar | None:
    return stage.declared[0] if stage.declared else None


def _attr(stage: Stage, axis: IterVar, annotation: AxisAnnotations) -> IterVarAttr:
    intrinsic = stage.declared[1] if stage.declared and stage.declared[0] is axis else None
    kind = IterVar.Tensorized if intrinsic else _ITER_TYPES.get(annotation.kind, axis.iter_type)
    keys = tuple(StringImm(key) for key, _ in annotation.pragmas)
    values = tuple(value for _, value in annotation.pragmas)
    return IterVarAttr(kind, annotation.thread, intrinsic, keys, values, *stage.aligns.get(axis, (0, 0)))
