"""The schedule as an immutable value: operations in frozen stages.

A primitive takes a `Schedule` and returns a new one. Stages refer to each other by id. `stage_of` maps every
operation that a stage ever had to that id. So replacing a stage's operation, as `cache_write` does, leaves its readers
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ..core.atoms import Atom
from ..core.errors import InternalError, UserError
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..expr.nodes import Expr, Var
from ..tensor.axis import AxisKind, IterVar
from ..tensor.scan import ScanOp
from ..tensor.script import ScriptOp
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from .relations import Relation
from .tensor_intrin import TensorIntrin


@dataclass(frozen=True)
class AtRoot:
    """Computed at the root, before its readers."""


@dataclass(frozen=True)
class Inlined:
    """Computed anew in every reader."""


@dataclass(frozen=True)
class At:
    """Computed within the loop over `axis` of another stage."""

    stage: int
    axis: IterVar


Placement = AtRoot | Inlined | At


@dataclass(frozen=True)
class AxisAnnotations:
    """The annotations of a leaf axis: the kind of its loop, its hardware thread, its pragmas."""

    kind: LoopKind = LoopKind.SERIAL
    thread: IterVar | None = None
    pragmas: tuple[tuple[str, Any], ...] = ()


PLAIN = AxisAnnotations()
AxisNotes = AxisAnnotations  # the name in pickles of versions 0.2.0 and 0.3.0


class Prefetch(NamedTuple):
    """The elements that a stage reads of `tensor` are fetched into the cache `offset` iterations of the loop `axis`
    ahead."""

    tensor: Tensor
    axis: IterVar
    offset: int


class Loop(NamedTuple):
    """One loop around a stage: the leaf `axis` of stage `stage`, bound to `thread` or not."""

    stage: int
    axis: IterVar
    thread: IterVar | None

    @property
    def tag(self) -> ThreadTag | None:
        """The hardware index of the loop, None for a plain loop."""
        return self.thread.thread if self.thread is not None else None

    @property
    def on_hardware(self) -> bool:
        """Whether the loop is bound to blocks or threads of the hardware."""
        return self.thread is not None and self.thread.thread is not ThreadTag.VTHREAD

    @property
    def var(self) -> Var:
        """The variable that the loop counts in."""
        return self.thread.var if self.thread is not None else self.axis.var


@dataclass(frozen=True)
class Stage:
    """One operation and how its loops run.

    `leaves` are the axes of its loops, outermost first; `relations` say how they come from the operation's own axes, in
    the order made. `scope` is None until the user gives one: then the placement decides. `aligns` maps a data axis of
    the operation to the (factor, offset) of its stride in memory. `stages` is how many copies of its result there are
    in a loop that computes it ahead of its readers. Results are stored only if `store_predicate` holds. `tensorized` is
    the outermost loop that a matrix instruction replaces, and the instruction; `declared` is the same for a user's
    intrinsic. A stage that `is_operand` of such an instruction is loaded by it: its readers read the source of the
    copy. A `rolling` stage keeps the elements that the next iteration of the loop around it needs again; `prefetches`
    are its own. A `transformed` stage has other dimensions than the tensor that was declared. For
    `private` loops, each thread keeps its own result, which has the elements of their first iteration.
    """

    id: int
    op: Operation
    origin: Operation
    leaves: tuple[IterVar, ...]
    relations: tuple[Relation, ...] = ()
    placement: Placement = AtRoot()
    scope: MemoryScope | None = None
    annotations: Mapping[IterVar, AxisAnnotations] = field(default_factory=dict)
    is_output: bool = False
    aligns: Mapping[IterVar, tuple[int, int]] = field(default_factory=dict)
    swizzled: bool = False
    stages: int = 1
    store_predicate: Expr | None = None
    tensorized: tuple[IterVar, Atom] | None = None
    declared: tuple[IterVar, TensorIntrin] | None = None
    is_operand: bool = False
    rolling: bool = False
    prefetches: tuple[Prefetch, ...] = ()
    transformed: bool = False
    private: frozenset[IterVar] = frozenset()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "notes" in state:  # pickled by version 0.2.0 or 0.3.0
            state = {"annotations" if name == "notes" else name: value for name, value in state.items()}
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"Stage({self.id}, {self.name}: {', '.join(a.name for a in self.leaves)})"

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.op.name

    @property
    def is_placeholder(self) -> bool:
        """Whether the stage is an input."""
        return isinstance(self.op, PlaceholderOp)

    @property
    def roots(self) -> tuple[IterVar, ...]:
        """The operation's own axes, data axes first."""
        return self.op.loop_axes

    @cached_property
    def all_axes(self) -> tuple[IterVar, ...]:
        """The operation's own axes, and all axes derived from them."""
        return (*self.roots, *(axis for relation in self.relations for axis in relation.below))

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of the stage's own leaves, outermost first."""
        return tuple([Loop(self.id, axis, self.annotation(axis).thread) for axis in self.leaves])

    @cached_property
    def mixed(self) -> frozenset[IterVar]:
        """The axes from fusing data axes with reduction axes, and the parts of such axes."""
        data, mixed = set(self.op.axis), set[IterVar]()
        for relation in self.relations:
            if data.intersection(relation.above):
                data.update(relation.below)
                mixed.update(axis for axis in relation.below if axis.kind is AxisKind.REDUCE)
        return frozenset(mixed)

    @cached_property
    def place_of(self) -> Mapping[IterVar, int]:
        """The place of each axis in `all_axes`."""
        return {axis: i for i, axis in enumerate(self.all_axes)}

    @cached_property
    def place_of_leaf(self) -> Mapping[IterVar, int]:
        """The place of each loop in `leaves`. A search of the tuple would compare its axes one by one."""
        return {axis: i for i, axis in enumerate(self.leaves)}

    def place_of_loop(self, axis: IterVar) -> int:
        """The place of an axis in `leaves`, -1 if it is not a loop; for a primitive, which asks once.

        The last loops are looked at first: splits of splits find theirs at once, however many there are.
        """
        leaves = self.leaves
        return next((at for at in range(len(leaves) - 1, -1, -1) if leaves[at] is axis), -1)

    def annotation(self, axis: IterVar) -> AxisAnnotations:
        """The annotations of `axis`."""
        return self.annotations.get(axis, PLAIN)

    def moved(self, old: IterVar, new: IterVar) -> tuple[Prefetch, ...]:
        """The prefetches of the stage, with prefetches at the loop `old` moved to the loop `new`."""
        return tuple(p._replace(axis=new) if p.axis is old else p for p in self.prefetches)

    def with_annotation(self, axis: IterVar, **changes: Any) -> Stage:
        """This stage with some of the annotations on `axis` changed."""
        return replace(self, annotations={**self.annotations, axis: replace(self.annotation(axis), **changes)})


@dataclass(frozen=True)
class Schedule:
    """Stages in dependence order, producers first; `outputs` are ids."""

    stages: Mapping[int, Stage]
    order: tuple[int, ...]
    stage_of: Mapping[Operation, int]
    outputs: tuple[int, ...]
    next_id: int

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.in_order())})"

    @property
    def rounding(self) -> float:
        """How much of itself an operand may lose in a matrix instruction that multiplies shorter numbers."""
        return max((stage.tensorized[1].rounding for stage in self.stages.values() if stage.tensorized), default=0.0)

    def stage(self, op: Operation) -> Stage:
        """The stage that computes `op`."""
        found = self.stage_of.get(op)
        if found is None:
            raise InternalError(f"{op} has no stage")
        return self.stages[found]

    def producer(self, tensor: Tensor) -> Stage:
        """The stage that computes `tensor`."""
        return self.stage(tensor.op)

    def same(self, a: Tensor, b: Tensor) -> bool:
        """Return whether two tensors are the same output of one stage, although a primitive may have replaced its
        operation."""
        known = self.stage_of.get(a.op)
        return known is not None and known == self.stage_of.get(b.op) and a.value_index == b.value_index

    def in_order(self) -> tuple[Stage, ...]:
        """All stages, producers first."""
        return tuple(self.stages[i] for i in self.order)

    def readers(self, stage_id: int) -> tuple[Stage, ...]:
        """Return the stages with operations that read a tensor of stage `stage_id`."""
        return tuple(self.stages[i] for i in self._readers.get(stage_id, ()))

    def at_outermost(self, stage_id: int) -> Schedule:
        """Return the schedule with a stage computed separately: at the root, or in the loop of its scan."""
        return self.with_stage(replace(self.stages[stage_id], placement=self.outermost(stage_id)))

    def outermost(self, stage_id: int) -> Placement:
        """The root, or the loop of the scan that a stage advances."""
        for scan in self.in_order():
            if not isinstance(scan.op, ScanOp):
                continue
            inside = {self.stage_of[state.op] for state in scan.op.state}
            updates = {self.stage_of[update.op] for update in scan.op.update}
            for stage in self.in_order():
                reads = any(self.stage_of.get(tensor.op) in inside for tensor in stage.op.input_tensors)
                if stage.id in updates or (reads and stage.id != scan.id):
                    inside.add(stage.id)
            if stage_id in inside:
                return At(scan.id, scan.op.scan_axis)
        return AtRoot()

    @cached_property
    def _readers(self) -> Mapping[int, Iterable[int]]:
        """The ids of the stages that read a stage, producers first."""
        found: dict[int | None, dict[int, None]] = {}
        for stage in self.in_order():
            for tensor in stage.op.input_tensors:
                found.setdefault(self.stage_of.get(tensor.op), {})[stage.id] = None
        return {producer: tuple(readers) for producer, readers in found.items() if producer is not None}

    def with_stage(self, stage: Stage) -> Schedule:
        """Return the schedule with a stage replaced; its operation is registered."""
        stage_of = self.stage_of if stage.op in self.stage_of else {**self.stage_of, stage.op: stage.id}
        made = replace(self, stages={**self.stages, stage.id: stage}, stage_of=stage_of)
        before = self.stages.get(stage.id)
        if before is not None and before.op is stage.op and "_readers" in vars(self):
            vars(made)["_readers"] = self._readers  # the graph of readers is unchanged
        return made

    def with_new_stage(
        self, op: Operation, before: int | None = None, after: int | None = None
    ) -> tuple[Schedule, Stage]:
        """This schedule with a stage for `op` put next to another in the order."""
        stage = Stage(self.next_id, op, op, op.loop_axes)
        at = self.order.index(before) if before is not None else self.order.index(after) + 1 if after is not None else 0
        order = (*self.order[:at], stage.id, *self.order[at:])
        made = replace(self, order=order, next_id=self.next_id + 1).with_stage(stage)
        return made, stage


def create(ops: Operation | Tensor | Sequence[Operation | Tensor]) -> Schedule:
    """The default schedule of operations: every stage at the root, loops in the order of the axes.

    Raises UserError for anything but operations or tensors.
    """
    given = tuple(ops) if isinstance(ops, (list, tuple)) else (ops,)
    outputs: list[Operation] = []
    for item in given:
        op = item.op if isinstance(item, Tensor) else item
        if not isinstance(op, Operation):
            raise UserError(
                f"{item!r} is neither an operation nor a tensor",
                primitive="create_schedule",
                fix="pass B.op (or [B.op, C.op])",
            )
        outputs.append(op)
    if not outputs:
        raise UserError("needs at least one operation", primitive="create_schedule", fix="pass B.op")
    ops_in_order = topological(outputs)
    stage_of = {op: i for i, op in enumerate(ops_in_order)}
    # Stages that a scan recomputes in each step are computed inside its loop.
    inside = {step: op for op in ops_in_order if isinstance(op, ScanOp) for step in op.steps()}
    placements: dict[Operation, Placement] = {op: At(stage_of[s], s.scan_axis) for op, s in inside.items()}
    stages = {
        i: Stage(
            i,
            op,
            op,
            _loops(op),
            placement=placements.get(op, AtRoot()),
            annotations=_annotations(op),
            is_output=op in outputs,
            declared=_declared(op),
        )
        for i, op in enumerate(ops_in_order)
    }
    return Schedule(stages, tuple(stages), stage_of, tuple(dict.fromkeys(stage_of[op] for op in outputs)), len(stages))


def _loops(op: Operation) -> tuple[IterVar, ...]:
    """The loops of an operation before any step; loops that a called intrinsic computes are innermost."""
    if not isinstance(op, ComputeOp) or op.call is None:
        return op.loop_axes
    inner = len(op.axis) - op.call.dimensions()
    outside = len(op.call.axes)
    return (*op.axis[:inner], *op.reduce_axis[:outside], *op.axis[inner:], *op.reduce_axis[outside:])


def _declared(op: Operation) -> tuple[IterVar, TensorIntrin] | None:
    """The outermost loop that the declaration's intrinsic computes, and the intrinsic; None if it has none."""
    if not isinstance(op, ComputeOp) or op.call is None:
        return None
    return op.axis[len(op.axis) - op.call.dimensions()], op.call.intrin


def _annotations(op: Operation) -> dict[IterVar, AxisAnnotations]:
    """How the loops of an operation run before any step: a script states the kinds and threads of its loops."""
    if not isinstance(op, ScriptOp):
        return {}
    annotations = {axis: AxisAnnotations(kind) for axis, kind in op.loop_kinds.items()}
    return annotations | {axis: AxisAnnotations(LoopKind.THREAD, thread) for axis, thread in op.loop_threads.items()}
