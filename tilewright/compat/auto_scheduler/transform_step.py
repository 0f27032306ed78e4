"""Steps of states as data: the codes of the legacy records, and the schedule primitives that they mean.

`["SP", 2, 0, 512, [8, 4], 1]` splits loop 0 of stage 2. Any other step is a recorded primitive of `Schedule.recorded`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...core.errors import UserError, warn_caller
from ...runtime.packed import get_global_func
from ...schedule.handle import ScheduleHandle, StageHandle
from ...schedule.relations import Fuse, Split
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import Operation

ANNOTATIONS = (
    "none", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y", "threadIdx.y",
    "blockIdx.z", "threadIdx.z", "tensorize",
)  # fmt: skip
"""The annotations of loops; records hold their places in this list."""
Apply = Callable[..., Any]


class NumberedSchedule:
    """A schedule with the stage numbers of the legacy API, and the steps so far.

    A copy that `cache_read` makes comes behind its source. Other new stages come before the stage that reads them.
    """

    def __init__(self, schedule: ScheduleHandle, ops: Sequence[Operation]) -> None:
        self.schedule = schedule
        self.order = [schedule.stage_id(op) for op in ops]
        self.steps: list[list[Any]] = []
        self.cached: dict[int, int] = {}
        """The id of the stage that computes a stage in nearer memory, by that stage's id."""
        self.open: set[IterVar] = set()
        """The loops of splits with lengths that a search chooses."""
        self.names: dict[IterVar, str] = {}
        """The legacy names of loops that steps made: i.0 and i.1 are parts of i, and i@j@ is a fusion."""
        self.notes: dict[int, dict[str, int]] = {}
        """The largest unrolled steps and the offset of the storage, by the id of the stage."""

    def copy(self) -> NumberedSchedule:
        """Return a new schedule with the same steps."""
        made = NumberedSchedule(self.schedule.copy(), ())
        made.order, made.steps, made.cached = list(self.order), list(self.steps), dict(self.cached)
        made.open = set(self.open)
        made.names, made.notes = dict(self.names), {key: dict(value) for key, value in self.notes.items()}
        return made

    @property
    def stages(self) -> list[StageHandle]:
        """The stages by number."""
        return [StageHandle(self.schedule, i) for i in self.order]

    def name_of(self, stage: StageHandle, axis: IterVar) -> str:
        """Return the legacy name of a loop."""
        if axis in self.names:
            return self.names[axis]
        for relation in stage.value.relations:
            if isinstance(relation, Split) and axis in (relation.outer, relation.inner):
                return f"{self.name_of(stage, relation.parent)}.{int(axis is relation.inner)}"
            if isinstance(relation, Fuse) and axis is relation.fused:
                return "".join(f"{self.name_of(stage, part)}@" for part in (relation.outer, relation.inner))
        return axis.name

    def number(self, item: Any) -> int:
        """The number of the stage of a tensor or an operation; a number is itself."""
        if isinstance(item, int) and 0 <= item < len(self.order):
            return item
        return self.order.index(self.schedule.stage_id(item, "State"))

    def take(self, step: Sequence[Any]) -> Any:
        """Apply a step; returns the new loops of a split, the new loop of a fusion, or the new stage of a cache."""
        code, *args = step
        apply = STEPS.get(code)
        if apply is None:
            source = self._source(step)
            self.schedule.replay([step])
            result = None
        else:
            source = args[0] if code == "CHR" else None
            try:
                stage = self.stages[args[0]]
                result = apply(self, stage, *args[1:])
            except UserError:
                raise
            except (LookupError, TypeError, ValueError):
                raise UserError(
                    f"step {len(self.steps)}, {list(step)}, does not fit the stages of this state: "
                    + ", ".join(f"{i} {each.op.name}" for i, each in enumerate(self.stages)),
                    primitive="State",
                    fix="apply the steps to the computation that they were recorded for",
                ) from None
        self._number_new_stages(source)
        self.steps.append(list(step))
        return result

    def _source(self, step: Sequence[Any]) -> int | None:
        """The number of the stage that a recorded `cache_read` copies."""
        if step[0] != "cache_read":
            return None
        return self.order.index(step[1]["tensor"][0])

    def _number_new_stages(self, source: int | None) -> None:
        order = self.schedule.value.order
        for place, stage_id in reversed(list(enumerate(order))):
            if stage_id in self.order:
                continue
            if source is not None:
                self.order.insert(source + 1, stage_id)
            else:
                self.order.insert(self.order.index(order[place + 1]), stage_id)

    def lengths_of(self, step: int) -> list[int | None]:
        """The lengths of an earlier split."""
        code, *args = self.steps[step]
        if code == "FSP":
            return _lengths_behind(self.lengths_of(args[2]), args[3])
        if code != "SP":
            raise UserError(
                f"step {step} is no split: {self.steps[step]}", primitive="follow_split", fix="give the step of a split"
            )
        found: list[int | None] = args[3]
        return found


def _split(
    s: NumberedSchedule,
    stage: StageHandle,
    loop: int,
    extent: Any,
    lengths: Sequence[int | None],
    from_inner: Any = True,
) -> list[IterVar]:
    if not all(length is None or (isinstance(length, int) and length > 0) for length in lengths):
        raise UserError(
            f"the lengths are {list(lengths)} (loop {loop} of stage {stage.op.name!r})",
            primitive="split",
            fix="give whole numbers from 1 on, or None for a length that the search chooses",
        )
    found, rest = list[IterVar](), stage.leaf_iter_vars[loop]
    name = s.name_of(stage, rest)
    numbers = [length or 1 for length in lengths]
    for length in reversed(numbers) if from_inner else numbers:
        outer, inner = stage.split(rest, factor=length) if from_inner else stage.split(rest, nparts=length)
        rest, part = (outer, inner) if from_inner else (inner, outer)
        found.append(part)
    parts = [rest, *reversed(found)] if from_inner else [*found, rest]
    s.names.update((part, f"{name}.{i}") for i, part in enumerate(parts))
    if None in lengths:
        s.open.update(parts)
    return parts


def _fuse(s: NumberedSchedule, stage: StageHandle, loops: Sequence[int]) -> IterVar:
    parts = [stage.leaf_iter_vars[i] for i in loops]
    name = "".join(f"{s.name_of(stage, part)}@" for part in parts)
    fused: IterVar = stage.fuse(*parts)
    s.names[fused] = name
    return fused


def _lengths_behind(lengths: Sequence[int | None], count: int) -> list[int | None]:
    """The first `count` - 1 lengths of a split, and the product of the other lengths."""
    if not 1 <= count <= len(lengths) + 1:
        raise UserError(
            f"n_split={count} of a split by {list(lengths)}", primitive="follow_split", fix=f"1 to {len(lengths) + 1}"
        )
    return [*lengths[: count - 1], _product(lengths[count - 1 :])]


def _product(lengths: Sequence[int | None]) -> int | None:
    return None if None in lengths else prod(length or 1 for length in lengths)


def _follow_split(s: NumberedSchedule, stage: StageHandle, loop: int, step: int, count: int) -> list[IterVar]:
    return _split(s, stage, loop, None, _lengths_behind(s.lengths_of(step), count))


def _follow_fused_split(
    s: NumberedSchedule, stage: StageHandle, loop: int, steps: Sequence[int], level: int, is_factor: Any
) -> list[IterVar]:
    return _split(s, stage, loop, None, [_product([s.lengths_of(step)[level] for step in steps])], is_factor)


def _annotate(_: NumberedSchedule, stage: StageHandle, loop: int, annotation: int, function: str = "") -> None:
    name, axis = ANNOTATIONS[annotation], stage.leaf_iter_vars[loop]
    if name in ("unroll", "vectorize", "parallel"):
        getattr(stage, name)(axis)
    elif name == "tensorize":
        intrinsic: Any = get_global_func(function, allow_missing=True)
        if intrinsic is None:
            raise UserError(
                f"no function {function!r} is registered",
                primitive="tensorize",
                fix="register one that returns the intrinsic: @tvm.register_func",
            )
        stage.tensorize(axis, intrinsic())
    elif name != "none":
        stage.bind(axis, thread_axis(name))


def _pragma(s: NumberedSchedule, stage: StageHandle, loop: int, text: str) -> None:
    name, _sign, value = text.partition("$")
    stage.pragma(stage.leaf_iter_vars[loop], name, int(value) if value.isdecimal() else value or None)
    if name == "auto_unroll_max_step" and value.isdecimal():
        s.notes.setdefault(stage.id, {})["auto_unroll"] = int(value)


def _storage_align(s: NumberedSchedule, stage: StageHandle, loop: int, factor: int, offset: int) -> None:
    axis = stage.leaf_iter_vars[loop]
    s.notes.setdefault(stage.id, {})["storage_offset"] = offset
    if axis in stage.op.axis:
        stage.storage_align(axis, factor, offset)
    else:
        warn_caller(f"storage_align has no effect: {axis.name!r} is not a data axis of {stage.op.name!r}", UserWarning)


def _compute_at(s: NumberedSchedule, stage: StageHandle, target: int, loop: int) -> None:
    around = s.stages[target]
    stage.compute_at(around.op, around.leaf_iter_vars[loop])


def _cache_read(s: NumberedSchedule, stage: StageHandle, scope: str, readers: Sequence[int]) -> Operation:
    made: Operation = s.schedule.cache_read(stage.op.output(0), scope, [s.stages[i].op for i in readers]).op
    return made


def _cache_write(s: NumberedSchedule, stage: StageHandle, scope: str) -> Operation:
    found: Operation = s.schedule.cache_write(stage.op.outputs[0], scope).op
    s.cached[stage.id] = s.schedule.stage_id(found)
    return found


def _rfactor(s: NumberedSchedule, stage: StageHandle, loop: int, factor_axis: int) -> Operation:
    made = s.schedule.rfactor(stage.op.output(0), stage.leaf_iter_vars[loop], factor_axis)
    found: Operation = (made[0] if isinstance(made, list) else made).op
    return found


STEPS: dict[str, Apply] = {
    "AN": _annotate,
    "CA": _compute_at,
    "CHR": _cache_read,
    "CHW": _cache_write,
    "CI": lambda _, stage: stage.compute_inline(),
    "CR": lambda _, stage: stage.compute_root(),
    "FFSP": _follow_fused_split,
    "FSP": _follow_split,
    "FU": _fuse,
    "PR": _pragma,
    "RE": lambda _, stage, loops: stage.reorder(*(stage.leaf_iter_vars[i] for i in loops)),
    "RF": _rfactor,
    "SA": _storage_align,
    "SP": _split,
}
"""The codes of steps in records, with the functions that apply them to a stage."""
