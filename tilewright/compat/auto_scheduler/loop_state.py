"""States: schedules of a computation in the making, under the legacy API's names.

`state.split(C, state[C].iters[0], [8, 4])` applies a primitive to a schedule and records it as a step.
"""

from __future__ import annotations

from collections.abc import Iterator as Yields
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from ...core.errors import UserError
from ...core.hardware import LoopKind
from ...expr.nodes import IntImm
from ...schedule.handle import ScheduleHandle, StageHandle, create_schedule
from ...schedule.primitives.cache_write import loop_layout
from ...schedule.schedule import At, Inlined
from ...tensor.axis import AxisKind, IterVar, Range
from ...tensor.tensor import Operation
from .transform_step import ANNOTATIONS, STEPS, NumberedSchedule

_NOTES = ("auto_unroll", "storage_offset")
_KINDS = {LoopKind.UNROLLED: "unroll", LoopKind.VECTORIZED: "vectorize", LoopKind.PARALLEL: "parallel"}


class HasGraph(Protocol):
    """A graph, or a workload, which declares its graph on first use."""

    @property
    def compute_dag(self) -> Any:
        """The graph."""


@dataclass(frozen=True)
class Iterator:
    """A loop of a stage. `range` is None if the stage is computed inside another stage and no bounds were inferred."""

    name: str
    range: Range | None = field(compare=False)
    iter_kind: int
    annotation: int
    axis: IterVar = field(repr=False)

    ITER_KIND_TRANS_TABLE: ClassVar[Mapping[str, int]] = {"spatial": 0, "reduction": 1, "mixed": 2, "special": 3}


@dataclass(frozen=True)
class Stage:
    """A stage of a state: its operation, its loops, and the number of its place: 0 root, 1 inlined, 2 in a loop."""

    op: Operation
    op_type: int
    iters: Sequence[Iterator]
    compute_at: int

    COMPUTE_AT_TRANS_TABLE: ClassVar[Mapping[str, int]] = {"root": 0, "inlined": 1, "iter": 2}


class State:
    """A schedule of a computation, and its steps.

    Parameters
    ----------
    state_object : State or list
        A state, or steps: legacy codes, and primitives as `Schedule.recorded` returns them.
    dag : ComputeDAG
        The computation.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[Mapping[str, int]] = {name: i for i, name in enumerate(ANNOTATIONS)}

    def __init__(self, state_object: State | Sequence[Any], dag: HasGraph) -> None:
        given = state_object.transform_steps if isinstance(state_object, State) else state_object
        self._dag, self._steps = dag, [list(step) for step in given]
        self._made: NumberedSchedule | None = None
        self._bounds: Mapping[IterVar, Range] = {}

    @property
    def dag(self) -> Any:
        """The computation."""
        return self._dag.compute_dag

    def is_of(self, dag: HasGraph) -> bool:
        """Whether the state belongs to `dag` itself, rather than to an equal graph."""
        return self._dag is dag

    @property
    def state_object(self) -> State:
        """The state itself."""
        return self

    @property
    def transform_steps(self) -> list[list[Any]]:
        """The steps as data."""
        return self._steps if self._made is None else self._made.steps

    @property
    def _schedule(self) -> NumberedSchedule:
        """The schedule after the steps."""
        if self._made is None:
            legacy = all(step[0] in STEPS for step in self._steps)
            # Steps of `auto_schedule` count the stages of a schedule that stores all results.
            made = NumberedSchedule(create_schedule(self.dag.outputs if legacy else self.dag.stored), self.dag.ops)
            for step in self._steps:
                made.take(step)
            self._made = made
        return self._made

    def schedule(self) -> ScheduleHandle:
        """Return a copy of the schedule after the steps."""
        return self._schedule.schedule.copy()

    def check_lengths(self) -> None:
        """Raise UserError if a search must choose lengths of splits."""
        for number, step in enumerate(self.transform_steps):
            if step[0] == "SP" and None in step[4]:
                raise UserError(
                    f"step {number} splits by {step[4]}: the search has not chosen the lengths",
                    primitive="apply_steps_from_state",
                    fix="tune the task with the rule that made this state, or split by numbers",
                )

    def with_bounds(self, bounds: Mapping[IterVar, Range]) -> State:
        """Return a copy with the given ranges of loops."""
        made = self.copy()
        made._bounds = bounds
        return made

    def copy(self) -> State:
        """Return an independent state with the same steps."""
        made = State(self, self._dag)
        made._made = None if self._made is None else self._made.copy()
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.transform_steps == other.transform_steps

    def __hash__(self) -> int:
        return hash(str(self.transform_steps))

    def __getstate__(self) -> Mapping[str, Any]:
        return {"_steps": self.transform_steps, "_dag": self._dag, "_made": None, "_bounds": {}}

    # Stages

    @property
    def stages(self) -> list[Stage]:
        """The stages, producers first."""
        return [self._stage(stage) for stage in self._schedule.stages]

    @property
    def stage_ops(self) -> list[Operation]:
        """The operations of the stages."""
        return [stage.op for stage in self._schedule.stages]

    @property
    def stage_id_map(self) -> dict[Operation, int]:
        """The numbers of the stages by operation."""
        return {op: i for i, op in enumerate(self.stage_ops)}

    def __getitem__(self, key: Any) -> Stage:
        made = self._schedule
        return self._stage(made.stages[made.number(key)])

    def _stage(self, stage: StageHandle) -> Stage:
        place = stage.placement
        ranges = self._bounds or (loop_layout(stage.value)[0] if not isinstance(place, At) else {})
        name_of = self._schedule.name_of
        ranges = {axis: range_ for axis, range_ in ranges.items() if axis not in self._schedule.open}
        loops = tuple(_iterator(stage, axis, ranges, name_of(stage, axis)) for axis in stage.leaf_iter_vars)
        where = "inlined" if isinstance(place, Inlined) else "iter" if isinstance(place, At) else "root"
        return Stage(stage.op, int(not stage.value.is_placeholder), loops, Stage.COMPUTE_AT_TRANS_TABLE[where])

    def loops_of(self, ops: Sequence[Operation]) -> dict[Operation, StageHandle]:
        """The stage with the loops of each operation: in other memory after `cache_write`. Nothing for other steps."""
        made = self._schedule
        if not made.steps or any(step[0] not in STEPS for step in made.steps):
            return {}
        found: dict[Operation, StageHandle] = {}
        for op in ops:
            stage_id = made.schedule.stage_id(op)
            while stage_id in made.cached:
                stage_id = made.cached[stage_id]
            found[op] = StageHandle(made.schedule, stage_id)
        return found

    def loops_with_stages(self, stage: Any) -> set[IterVar]:
        """The loops of a stage that other stages are computed in."""
        made = self._schedule
        number = made.order[made.number(stage)]
        return {p.axis for p in (s.placement for s in made.stages) if isinstance(p, At) and p.stage == number}

    def stages_inside(self, stage: Any) -> list[int]:
        """The numbers of the stages that are computed in loops of a stage."""
        made = self._schedule
        number = made.order[made.number(stage)]
        places = [each.placement for each in made.stages]
        return [i for i, place in enumerate(places) if isinstance(place, At) and place.stage == number]

    def number_of(self, op: Operation) -> int:
        """The number of the stage of an operation."""
        return self._schedule.number(op)

    def readers_of(self, stage: Any) -> list[int]:
        """The numbers of the stages that read a stage."""
        made, number = self._schedule, self._schedule.number(stage)
        ops = [each.op for each in made.stages]
        return [i for i, op in enumerate(ops) if number in {made.number(t.op) for t in op.input_tensors}]

    # Steps

    def _take(self, code: str, stage: Any, *args: Any) -> Any:
        """Apply a step to a stage; iterators among the arguments become the numbers of loops."""
        made = self._schedule
        number = made.number(stage)
        result = made.take([code, number, *args])
        self._bounds = {}
        return result

    def _loop(self, stage: Any, iterator: Any) -> int:
        """The number of a loop of a stage."""
        handle = self._schedule.stages[self._schedule.number(stage)]
        leaves = handle.leaf_iter_vars
        axis = iterator.axis if isinstance(iterator, Iterator) else None
        place = next((i for i, leaf in enumerate(leaves) if leaf is axis), None)
        if place is None:
            raise UserError(
                f"{getattr(iterator, 'name', iterator)!r} is no loop of stage {self[stage].op.name!r}",
                primitive="State",
                fix="use one of state[stage].iters: "
                + ", ".join(self._schedule.name_of(handle, leaf) for leaf in leaves),
            )
        return place

    def _loops(self, stage: Any, axes: Sequence[IterVar]) -> list[Iterator]:
        found = {each.axis: each for each in self[stage].iters}
        return [found[axis] for axis in axes]

    def split(
        self, stage: Any, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Split a loop by the extents of its inner parts, or of its outer parts; returns all parts.

        A length of None is left to a search, as in a rule for sketches.
        """
        extent = getattr(iterator.range.extent, "value", None) if iterator.range is not None else None
        loop = self._loop(stage, iterator)
        return self._loops(stage, self._take("SP", stage, loop, extent, list(lengths), int(inner_to_outer)))

    def follow_split(self, stage: Any, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Split a loop like an earlier step, by `n_split` lengths; the last length takes the rest."""
        return self._loops(stage, self._take("FSP", stage, self._loop(stage, iterator), src_step_id, n_split))

    def follow_fused_split(
        self, stage: Any, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator]:
        """Split a loop by the product of the lengths of earlier steps at a level."""
        args = (self._loop(stage, iterator), list(src_step_ids), level, int(factor_or_nparts))
        return self._loops(stage, self._take("FFSP", stage, *args))

    def fuse(self, stage: Any, iters: Sequence[Iterator]) -> Iterator:
        """Fuse neighbouring loops; returns the loop."""
        made = self._take("FU", stage, [self._loop(stage, each) for each in iters])
        return self._loops(stage, [made])[0]

    def reorder(self, stage: Any, order: Sequence[Iterator]) -> None:
        """Put loops into the given order."""
        self._take("RE", stage, [self._loop(stage, each) for each in order])

    def _annotated(self, stage: Any, iterator: Iterator, annotation: str, *more: Any) -> Iterator:
        self._take("AN", stage, self._loop(stage, iterator), self.ANNOTATION_TRANS_TABLE[annotation], *more)
        return self._loops(stage, [iterator.axis])[0]

    def bind(self, stage: Any, iterator: Iterator, thread_name: str) -> Iterator:
        """Run a loop on hardware threads: "blockIdx.x", "threadIdx.x", "vthread" ..."""
        threads = [name for name in ANNOTATIONS if "Idx" in name or name == "vthread"]
        if thread_name not in threads:
            raise UserError(
                f"thread_name is {thread_name!r}, which is unknown",
                primitive="bind",
                fix=f"use one of {', '.join(threads)}",
            )
        return self._annotated(stage, iterator, thread_name)

    def parallel(self, stage: Any, iterator: Iterator) -> Iterator:
        """Share a loop out to CPU threads."""
        return self._annotated(stage, iterator, "parallel")

    def unroll(self, stage: Any, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Write out the iterations of a loop, unless they are more than `max_unroll`."""
        extent = iterator.range.extent if iterator.range is not None else None
        if max_unroll is not None and isinstance(extent, IntImm) and extent.value > max_unroll:
            return iterator
        return self._annotated(stage, iterator, "unroll")

    def vectorize(self, stage: Any, iterator: Iterator) -> Iterator:
        """Run a loop as one vector operation."""
        return self._annotated(stage, iterator, "vectorize")

    def tensorize(self, stage: Any, iterator: Iterator, ti_func_name: str) -> Iterator:
        """Compute a loop by the intrinsic that a registered function returns."""
        return self._annotated(stage, iterator, "tensorize", ti_func_name)

    def pragma(self, stage: Any, iterator: Iterator, pragma_type: str) -> None:
        """Mark a loop with a hint: "auto_unroll_max_step$64"."""
        self._take("PR", stage, self._loop(stage, iterator), pragma_type)

    def storage_align(self, stage: Any, iterator: Iterator, factor: int, offset: int) -> None:
        """Pad the storage so that the stride of an axis is `offset` modulo `factor`."""
        self._take("SA", stage, self._loop(stage, iterator), factor, offset)

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Iterator) -> None:
        """Compute a stage inside a loop of another stage."""
        target = self._schedule.number(target_stage)
        self._take("CA", stage, target, self._loop(target_stage, target_iter))

    def compute_inline(self, stage: Any) -> None:
        """Compute each element of a stage in its readers."""
        self._take("CI", stage)

    def compute_root(self, stage: Any) -> None:
        """Compute a whole stage at the root."""
        self._take("CR", stage)

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> Operation:
        """Let stages read a copy of a stage; returns the operation of the copy."""
        readers = [self._schedule.number(each) for each in reader_stages]
        made: Operation = self._take("CHR", stage, scope_name, readers)
        return made

    def cache_write(self, stage: Any, scope_name: str) -> Operation:
        """Compute a stage in other memory first; returns the operation in that memory."""
        made: Operation = self._take("CHW", stage, scope_name)
        return made

    def rfactor(self, stage: Any, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Keep a partial result for each iteration of a reduction loop; returns the operation of these results."""
        made: Operation = self._take("RF", stage, self._loop(stage, iterator), factor_iter_id)
        return made

    # Text

    def __str__(self) -> str:
        """The loops of all stages as text, in the form of the legacy API; loops of one iteration are left out."""
        stages = self._schedule.stages
        inputs = ", ".join(stage.op.name for stage in stages if stage.value.is_placeholder)
        roots = (s for s in stages if not s.value.is_placeholder and not isinstance(s.placement, (At, Inlined)))
        lines = [f"Placeholder: {inputs}", *(line for stage in roots for line in self._lines(stage, 0))]
        return "".join(f"{line}\n" for line in lines)

    def _lines(self, stage: StageHandle, depth: int) -> Yields[str]:
        """The loops of a stage as text, with the stages that are computed inside them."""
        notes = self._schedule.notes.get(stage.id, {})
        yield from (f"{'  ' * depth}{stage.op.name} {key}: {notes[key]}" for key in _NOTES if notes.get(key))
        for loop in self._stage(stage).iters:
            kind = "for" if not loop.annotation else ANNOTATIONS[loop.annotation]
            extent = None if loop.range is None else getattr(loop.range.extent, "value", loop.range.extent)
            if extent != 1:
                yield f"{'  ' * depth}{kind} {loop.name} {'(None)' if extent is None else f'(0,{extent})'}"
                depth += 1
            for other in self._schedule.stages:
                place = other.placement
                if isinstance(place, At) and place.stage == stage.id and place.axis is loop.axis:
                    yield from self._lines(other, depth)
        yield f"{'  ' * depth}{stage.op.name} = ..."


def _iterator(stage: StageHandle, axis: IterVar, ranges: Mapping[IterVar, Range], title: str) -> Iterator:
    annotation = stage.value.annotation(axis)
    name = _KINDS.get(annotation.kind, "none")
    if annotation.thread is not None and annotation.thread.thread is not None:
        name = annotation.thread.thread.value
    if any(found is not None and found[0] is axis for found in (stage.value.declared, stage.value.tensorized)):
        name = "tensorize"
    kind = "mixed" if axis in stage.value.mixed else "reduction" if axis.kind is AxisKind.REDUCE else "spatial"
    kinds = Iterator.ITER_KIND_TRANS_TABLE
    return Iterator(title, ranges.get(axis), kinds[kind], State.ANNOTATION_TRANS_TABLE[name], axis)


StateObject = State
"""The compiler's object of a state in the legacy API; here, the state itself."""
