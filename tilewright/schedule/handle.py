"""The objects that users hold: `s` and `s[B]`, thin recorders over the immutable schedule, under the legacy API's
names."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NoReturn

from ..core.errors import UserAttributeError, UserError, UserTypeError, caller_location
from ..core.hardware import MemoryScope
from ..core.recursion import deep
from ..core.refusals import missing, not_made
from ..core.text import one_line
from ..tensor.axis import IterVar
from ..tensor.tensor import Operation, Tensor
from .groups import StageGroup, between
from .primitives.registry import PRIMITIVES as PRIMITIVES
from .primitives.transform_layout import indices_of
from .schedule import Placement, Schedule, Stage, create
from .stage_view import StageView
from .steps import RecordedNumber, Step, StepReferences
from .steps_file import KeptSteps
from .tensor_intrin import MatrixIntrin
from .views import ScheduleViews

_SIGNATURES = {name: inspect.signature(primitive) for name, primitive in PRIMITIVES.items()}


class ScheduleHandle(ScheduleViews, KeptSteps):
    """A schedule in the making: `s[B]` gives the handle of a stage, `s.steps` the steps so far.

    `s.value` is the immutable schedule as it stands.
    """

    def __init__(self, value: Schedule) -> None:
        if not isinstance(value, Schedule):
            raise not_made("Schedule", "make one with te.create_schedule(B.op)")
        self.value = value
        self._begun = value
        self.steps: list[Step] = []
        self.groups: list[StageGroup[StageHandle]] = []
        self.reason = ""
        """Why the next steps are chosen, if a rule chooses them."""
        self._references = StepReferences()

    @deep
    def apply(self, primitive: str, *args: Any) -> Any:
        """Apply a primitive by name and record it; returns the primitive's own result (new axes, a tensor)."""
        if not isinstance(primitive, str) or primitive not in PRIMITIVES:
            raise UserError(
                f"there is no primitive {primitive!r}", primitive="apply", fix=f"use one of {', '.join(PRIMITIVES)}"
            )
        encoded = self._references.encode(self.value, args)
        plain = [arg.value if isinstance(arg, RecordedNumber) else arg for arg in args]
        self.value, result = PRIMITIVES[primitive](self.value, *plain)
        self.steps.append(Step(primitive, tuple(encoded), caller_location(), tuple(plain), result, self.reason))
        return result

    def replay(self, steps: Sequence[Step | Sequence[Any]]) -> None:
        """Apply recorded steps (`Step`s, or the lists that `Step.to_json` gives) to this schedule."""
        if not isinstance(steps, (list, tuple)):
            raise UserError(f"the steps are {steps!r}", primitive="replay", fix="give s.steps, or a list of such steps")
        for number, step in enumerate(steps, 1):
            parts = step.to_json() if isinstance(step, Step) else step
            name, *encoded = parts if isinstance(parts, (list, tuple)) and parts else [parts]
            if not isinstance(name, str) or name not in PRIMITIVES:
                raise UserError(
                    f"step {number} is the unknown {name!r}",
                    primitive="replay",
                    fix=f"the known steps are {', '.join(PRIMITIVES)}",
                )
            try:
                args = self._references.decode(self.value, list(encoded))
                _SIGNATURES[name].bind(self.value, *args)
            except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
                raise UserError(
                    f"step {number}, {name} of {encoded}, does not fit this schedule with the stages "
                    + ", ".join(f"{i} {self.value.stages[i].name}" for i in self.value.order),
                    primitive="replay",
                    fix="replay on a schedule of the same tensors as the one that was recorded, before any other step",
                ) from None
            self.apply(name, *args)

    def copy(self) -> ScheduleHandle:
        """Return a new schedule of the same computation with the same steps. Changes to one do not affect the other."""
        made = ScheduleHandle(self.value)
        made._begun, made.steps, made._references = self._begun, list(self.steps), self._references.copy()
        made.groups = [StageGroup([StageHandle(made, stage.id) for stage in group.stages]) for group in self.groups]
        return made

    def __copy__(self) -> ScheduleHandle:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ScheduleHandle:
        return self.copy()  # the copy shares tensors and axes

    def stage_id(self, item: Any, primitive: str = "s[...]") -> int:
        """The id of the stage of a tensor, an operation or a stage handle."""
        if isinstance(item, StageHandle) and item.schedule is self:
            return item.id
        op = item.op if isinstance(item, Tensor) else item
        if isinstance(item, StageHandle):
            raise UserError(
                f"{item!r} is a stage of another schedule",
                primitive=primitive,
                fix="give the stage of this schedule: s[T] for the same tensor T",
            )
        if not isinstance(op, Operation):
            raise UserError(
                f"{item!r} is not a tensor",
                primitive=primitive,
                fix="give a tensor or an operation of this schedule",
            )
        found = self.value.stage_of.get(op)
        if found is None:
            known = ", ".join(s.name for s in self.value.in_order())
            raise UserError(
                f"tensor {op.name!r} is not part of this schedule, which has the stages: {known}",
                primitive=primitive,
                fix="create the schedule from an output that depends on the tensor",
            )
        return found

    def __getitem__(self, item: Any) -> StageHandle:
        return StageHandle(self, self.stage_id(item))

    def __setitem__(self, item: Any, value: Any) -> NoReturn:
        raise UserTypeError(
            "stages are not assigned to: a primitive changes the stage it is called on",
            fix="s[B].split(axis, factor=32)",
        )

    def __iter__(self) -> NoReturn:
        raise UserTypeError("a schedule is not a list", fix="its stages are s.stages; the one of a tensor is s[B]")

    def __len__(self) -> int:
        raise UserTypeError("a schedule has no len()", fix="its stages are s.stages: len(s.stages)")

    def __bool__(self) -> bool:
        return True

    def __contains__(self, item: Any) -> bool:
        op = item.op if isinstance(item, Tensor) else item
        return isinstance(op, Operation) and op in self.value.stage_of

    def __getattr__(self, name: str) -> NoReturn:
        if name in PRIMITIVES:
            raise UserAttributeError(f"the schedule has no {name!r}: it belongs to a stage", fix=f"s[B].{name}(...)")
        raise missing("the schedule", name, dir(type(self)), self)

    def __repr__(self) -> str:
        stages = self.value.in_order()
        return one_line(f"Schedule({', '.join(stage.name for stage in stages)})")

    @property
    def stages(self) -> list[StageHandle]:
        """Handles of all stages, producers first."""
        return [StageHandle(self, i) for i in self.value.order]

    @property
    def outputs(self) -> list[Operation]:
        """The output operations."""
        return [self.value.stages[i].op for i in self.value.outputs]

    @property
    def stage_map(self) -> dict[Operation, StageHandle]:
        """Each present or former operation, with its stage."""
        return {op: StageHandle(self, i) for op, i in self.value.stage_of.items()}

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """A copy of `tensor` in `scope` memory, read by the stages `readers` instead; see the primitive."""
        self.stage_id(tensor, "cache_read")
        given = readers if isinstance(readers, (list, tuple)) else [readers]
        stages = [self.value.stages[self.stage_id(r, "cache_read")] for r in given]
        made: Tensor = self.apply("cache_read", tensor, scope, stages)
        return made

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute `tensor` (all the outputs of its operation) in `scope` memory first; see the primitive."""
        given = list(tensor) if isinstance(tensor, (list, tuple)) else [tensor]
        ids = {self.stage_id(t, "cache_write") for t in given}
        if len(ids) != 1:
            raise UserError(
                f"{[t.name for t in given]} come from different stages" if ids else "no tensor is given",
                primitive="cache_write",
                fix="cache one stage at a time",
            )
        made = self.apply("cache_write", self.value.stages[ids.pop()], scope)
        if isinstance(tensor, Tensor):
            return made[tensor.value_index]
        return made[0] if len(made) == 1 and tensor is given[0] else list(made)  # an operation or a stage: all outputs

    def rfactor(self, tensor: Any, axis: IterVar, factor_axis: int = 0) -> Any:
        """Keep a partial result of the reduction `tensor` per iteration of its loop `axis`; see the primitive.

        Returns the tensor of partial results, a list of them for a reduction of several values.
        """
        stage = self.value.stages[self.stage_id(tensor, "rfactor")]
        made = self.apply("rfactor", stage, axis, factor_axis)
        return list(made) if len(made) > 1 else made[0]

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> StageGroup[StageHandle]:
        """The stages between `inputs` and `outputs`, to be placed together; outputs included, inputs if requested.

        If no stage lies between them, the group is empty, with a warning.
        """
        ends, starts = (
            {self.stage_id(t, "create_group") for t in (given if isinstance(given, (list, tuple)) else [given])}
            for given in (outputs, inputs)
        )
        self.groups.append(
            StageGroup([StageHandle(self, i) for i in between(self.value, starts, ends, include_inputs)])
        )
        return self.groups[-1]

    def normalize(self) -> ScheduleHandle:
        """A copy: nothing needs normalising, since the ranges of loops begin at 0 here."""
        return self.copy()


class StageHandle(StageView):
    """The handle of a stage; its methods are the schedule primitives."""

    __slots__ = ("id", "schedule")

    def __init__(self, schedule: ScheduleHandle, stage_id: int) -> None:
        known = isinstance(schedule, ScheduleHandle) and isinstance(stage_id, int)
        if not known or stage_id not in schedule.value.stages:
            raise not_made("Stage", "ask the schedule for it: s[B]")
        self.schedule = schedule
        self.id = stage_id

    @property
    def value(self) -> Stage:
        """The immutable stage as it stands."""
        found: Stage = self.schedule.value.stages[self.id]
        return found

    @property
    def op(self) -> Operation:
        """The stage's current operation."""
        return self.value.op

    @property
    def origin_op(self) -> Operation:
        """The operation that the stage was made for."""
        return self.value.origin

    @property
    def leaf_iter_vars(self) -> list[IterVar]:
        """The loops, outermost first."""
        return list(self.value.leaves)

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The operation's own axes, and all axes that steps made from them."""
        return list(self.value.all_axes)

    @property
    def relations(self) -> list[Any]:
        """The splits and fusions, in the order made."""
        return list(self.value.relations)

    @property
    def scope(self) -> str:
        """The memory scope given to the stage ("" if none was)."""
        return self.value.scope.value if isinstance(self.value.scope, MemoryScope) else ""

    @property
    def is_output(self) -> bool:
        """Whether the stage is an output of the schedule."""
        return self.value.is_output

    @property
    def placement(self) -> Placement:
        """The place at which the stage is computed."""
        return self.value.placement

    def _apply(self, primitive: str, *args: Any) -> Any:
        return self.schedule.apply(primitive, self.value, *args)

    def split(
        self, parent: IterVar, factor: Any = None, nparts: Any = None, disable_predication: bool = False
    ) -> list[IterVar]:
        """Split a loop by inner extent (`factor`) or outer extent (`nparts`); returns [outer, inner].

        `disable_predication` is of the legacy API and has no effect: a guard is there only if a value could be outside.
        """
        return list(self._apply("split", parent, factor, nparts))

    def fuse(self, *args: IterVar) -> IterVar:
        """Fuse neighbouring loops into one loop; returns its axis."""
        axes = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
        made: IterVar = self._apply("fuse", *axes)
        return made

    def reorder(self, *args: IterVar) -> StageHandle:
        """Put the given loops into the given order."""
        self._apply("reorder", *args)
        return self

    def tile(self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any) -> list[IterVar]:
        """Split two loops and reorder: returns [x_outer, y_outer, x_inner, y_inner]."""
        return list(self._apply("tile", x_parent, y_parent, x_factor, y_factor))

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> StageHandle:
        """Run a loop on hardware threads."""
        self._apply("bind", ivar, thread_ivar)
        return self

    def compute_at(self, parent: Any, scope: IterVar) -> StageHandle:
        """Compute this stage inside the loop `scope` of the stage `parent` (a handle, a tensor or an operation)."""
        target = self.schedule.stage_id(parent, "compute_at")
        self._apply("compute_at", self.schedule.value.stages[target], scope)
        return self

    def compute_inline(self) -> StageHandle:
        """Compute each element in its readers."""
        self._apply("compute_inline")
        return self

    def compute_root(self) -> StageHandle:
        """Compute the whole stage at the root."""
        self._apply("compute_root")
        return self

    def set_scope(self, scope: str) -> StageHandle:
        """Keep the result in "global", "shared" or "local" memory."""
        self._apply("set_scope", scope)
        return self

    def unroll(self, var: IterVar) -> StageHandle:
        """Write out the iterations of a loop."""
        self._apply("unroll", var)
        return self

    def vectorize(self, var: IterVar) -> StageHandle:
        """Run a loop as one vector operation."""
        self._apply("vectorize", var)
        return self

    def parallel(self, var: IterVar) -> StageHandle:
        """Share a loop out to CPU threads."""
        self._apply("parallel", var)
        return self

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = None) -> StageHandle:
        """Mark a loop with a hint, such as ("auto_unroll_max_step", 16)."""
        self._apply("pragma", var, pragma_type, pragma_value)
        return self

    def storage_align(self, axis: IterVar, factor: Any, offset: Any) -> StageHandle:
        """Pad the storage so that the stride of `axis` is `offset` modulo `factor`."""
        self._apply("storage_align", axis, factor, offset)
        return self

    def storage_swizzle(self) -> StageHandle:
        """Exchange 16-byte pieces of the storage in shared memory, so that columns lie in different banks."""
        self._apply("storage_swizzle")
        return self

    def pipeline(self, depth: int) -> StageHandle:
        """Keep `depth` copies of the storage: each is filled depth - 1 iterations before it is read."""
        self._apply("pipeline", depth)
        return self

    def double_buffer(self) -> StageHandle:
        """Keep two copies of the storage: one copy is filled while the other copy is read."""
        self._apply("double_buffer")
        return self

    def prefetch(self, tensor: Tensor, var: IterVar, offset: Any) -> StageHandle:
        """Fetch the elements read of `tensor` into the cache, `offset` iterations of the loop `var` ahead."""
        self._apply("prefetch", tensor, var, offset)
        return self

    def rolling_buffer(self) -> StageHandle:
        """Keep the elements that the next iteration of the loop around the stage needs again."""
        self._apply("rolling_buffer")
        return self

    def transform_layout(self, mapping_function: Any) -> list[IterVar]:
        """Give the stage other dimensions, `lambda i, j: [j // 4, i, j % 4]`; returns their axes."""
        return list(self._apply("transform_layout", indices_of(self.schedule.value, self.value, mapping_function)))

    def round_up(self, *multiples: tuple[IterVar, int]) -> list[IterVar]:
        """Round extents up to multiples, `(i, 16), (k, 8)`, with zeros beyond the tensors that are read; returns the
        axes."""
        return list(self._apply("round_up", multiples))

    def as_product(self, batch: Any, rows: Any, columns: Any, depth: Any) -> list[Tensor]:
        """Compute a reduction as a product of two matrices; returns both and the product."""
        return list(self._apply("as_product", batch, rows, columns, depth))

    def redeclare(self, name: str, options: Any = None) -> list[Tensor]:
        """Compute a stage by another declaration of the same values; see the primitive."""
        return list(self._apply("redeclare", name, options))

    def tensorize(self, var: IterVar, intrin: Any) -> StageHandle:
        """Compute a loop and all loops inside it by a matrix instruction, or by a user's intrinsic."""
        self._apply("tensorize", var, intrin.name if isinstance(intrin, MatrixIntrin) else intrin)
        return self

    def env_threads(self, threads: Any) -> StageHandle:
        """Run a whole scan on hardware threads."""
        self._apply("env_threads", threads)
        return self

    def set_store_predicate(self, predicate: Any) -> StageHandle:
        """Store results only if a condition on thread indices holds."""
        self._apply("set_store_predicate", predicate)
        return self

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the stage", name, dir(type(self)), self)

    def __repr__(self) -> str:
        loops = ", ".join(a.name for a in self.value.leaves)
        return one_line(f"Stage({self.value.name}: {'an input' if self.value.is_placeholder else loops or 'no loops'})")


def create_schedule(ops: Any) -> ScheduleHandle:
    """The default schedule of operations (or tensors, or lists of them): plain loops, every stage at the root."""
    return ScheduleHandle(create(ops))
