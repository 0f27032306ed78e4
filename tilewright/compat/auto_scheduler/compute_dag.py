"""The graph of a computation, and workloads: a graph for a target."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from ...core.errors import UserError, warn_caller
from ...core.target import Target
from ...expr.nodes import Load
from ...expr.printer import show
from ...expr.traverse import rewrite
from ...schedule.handle import ScheduleHandle, create_schedule
from ...schedule.steps_file import computation
from ...te.schedule import InferBound
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from ...topi.utils import get_const_tuple
from ...tune.flops import count_flop
from .layout_rewrite import Layout, layout_of, rewritten
from .loop_state import State
from .transform_step import NumberedSchedule
from .workload_registry import TASK_INPUT_BUFFER_TABLE, tensors_of, workload_key_to_tensors


class LayoutRewriteOption(IntEnum):
    """Whether inputs named in `layout_free_placeholders` change their layout.

    `REWRITE_FOR_PRE_TRANSFORMED` changes arguments if the steps are of the legacy API. Schedules of `tw.auto_schedule`
    pack inputs themselves, at each call.
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> LayoutRewriteOption:
        """Return the option that the legacy API takes for a target."""
        if Target.parse(target).is_gpu:
            return LayoutRewriteOption.NO_REWRITE
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


class ComputeDAG:
    """The operations between some inputs and outputs.

    Parameters
    ----------
    compute_or_sche : list of Tensor, str or Schedule
        The inputs and outputs, a workload key, or a schedule. The caches of a schedule are part of the computation.
    """

    def __init__(self, compute_or_sche: Any) -> None:
        if isinstance(compute_or_sche, ScheduleHandle):
            stages = _stage_ops(compute_or_sche)
            self.ops = list(stages.values())
            inputs = [op.output(0) for op in self.ops if isinstance(op, PlaceholderOp)]
            self.tensors = [*inputs, *(t for i in compute_or_sche.value.outputs for t in stages[i].outputs)]
        else:
            is_key = isinstance(compute_or_sche, str)
            self.tensors = workload_key_to_tensors(compute_or_sche) if is_key else tensors_of(compute_or_sche)
            self.ops = _in_order(self.tensors)
        self.stored = list(dict.fromkeys(t.op for t in self.tensors if not isinstance(t.op, PlaceholderOp)))
        """The operations with results among the tensors."""

    @property
    def compute_dag(self) -> ComputeDAG:
        """The graph itself."""
        return self

    @property
    def outputs(self) -> list[Operation]:
        """The operations that no other one reads, as in the legacy API.

        A result that another operation reads is stored, too, if it is among the tensors. Its stage may be computed
        inside another one.
        """
        read = {t.op for op in self.ops for t in op.input_tensors}
        return [op for op in self.stored if op not in read]

    @property
    def flop_ct(self) -> float:
        """The floating-point operations of the computation; 0 if they cannot be counted."""
        try:
            return float(count_flop(create_schedule(self.outputs).value, conditions=False))
        except UserError:
            return 0.0

    @property
    def init_state(self) -> State:
        """The state without a step."""
        return State([], self)

    def get_init_state(self) -> State:
        """Return the state without a step."""
        return self.init_state

    def hash_key(self) -> str:
        """Return a hash of the structure, shapes and types."""
        text = "\n".join([*computation(create_schedule(self.outputs).value), _text(topological(self.outputs))])
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    def workload_key(self) -> str:
        """Return the key of a computation without a registered function: its hash and its shapes."""
        shapes = [[int(extent) for extent in get_const_tuple(t.shape)] for t in self.tensors]
        return json.dumps([self.hash_key(), *shapes])

    def apply_steps_from_state(self, state: State, layout_rewrite: Any = None) -> tuple[ScheduleHandle, list[Tensor]]:
        """Return a schedule with the steps of a state, and the tensors.

        With `LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED`, inputs named in `layout_free_placeholders` have the
        layout of the loops that read them, if the steps are of the legacy API. They keep their shapes otherwise.
        """
        own = self._own(state)
        own.check_lengths()
        free = [t.name for op in self.ops for t in op.attrs.get("layout_free_placeholders", ())]
        is_wanted = layout_rewrite is True or layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        if not free or not is_wanted:
            return own.schedule(), self.tensors
        other = self._rewritten(own)
        if other is None:
            warn_caller(
                f"no layout is rewritten: {', '.join(free)} keep their shapes, and the schedule packs them at each "
                "call. To pack once, declare them in the packed order: docs/automatic.md, Weights that are packed once",
                UserWarning,
            )
            return own.schedule(), self.tensors
        return State(own, other).schedule(), other.tensors

    def rewrite_layout_from_state(self, state: State) -> ComputeDAG:
        """Return the graph with inputs in the layouts of a state's loops, as far as the steps are of the legacy API."""
        return self._rewritten(self._own(state)) or self

    def _rewritten(self, state: State) -> ComputeDAG | None:
        """The graph with inputs in the layouts of a state's loops; None if no such layout exists."""
        stages = {op: stage for op, stage in state.loops_of(self.ops).items() if isinstance(op, ComputeOp)}
        layouts: dict[tuple[Operation, Tensor], Layout] = {}
        for op, stage in stages.items():
            for tensor in op.attrs.get("layout_free_placeholders", ()):
                layout = layout_of(stage, op, tensor)
                if layout is not None:
                    layouts[op, tensor] = layout
        if not layouts:
            return None
        found = rewritten(self.ops, layouts)
        made = ComputeDAG([found[tensor.op].output(tensor.value_index) for tensor in self.tensors])
        made.ops = [found[op] for op in self.ops]
        return made

    def infer_bound_from_state(self, state: State) -> State:
        """Return a copy of a state with the ranges of all loops, also inside other stages."""
        made = self._own(state)
        return made.with_bounds(InferBound(made.schedule()))

    def _own(self, state: State) -> State:
        """Return `state` with its steps on this graph, because the state may belong to an equal graph."""
        return state if state.is_of(self) else State(state, self)

    def print_python_code_from_state(self, state: State) -> str:
        """Return the schedule of a state as a Python program."""
        return self.apply_steps_from_state(state)[0].as_python()

    def __str__(self) -> str:
        return _text(self.ops)

    def __repr__(self) -> str:
        return f"ComputeDAG({', '.join(op.name for op in self.ops)})"


class Workload:
    """A computation on a target: its graph or only its key, and the names of inputs with given values."""

    def __init__(
        self,
        compute_dag: ComputeDAG | None,
        workload_key: str,
        target: Any,
        layout_rewrite_option: Any = None,
        input_names: Sequence[str] = (),
    ) -> None:
        self._dag, self.workload_key = compute_dag, workload_key
        self.target = Target.parse(target)
        default = LayoutRewriteOption.get_target_default(self.target)
        self.layout_rewrite_option = LayoutRewriteOption(
            default if layout_rewrite_option is None else layout_rewrite_option
        )
        self.task_input_names = list(input_names)

    @property
    def compute_dag(self) -> ComputeDAG:
        """The computation."""
        if self._dag is None:
            self._dag = ComputeDAG(self.workload_key)
        return self._dag

    @property
    def task_inputs(self) -> Mapping[str, Any]:
        """The given values of inputs by name."""
        table = TASK_INPUT_BUFFER_TABLE.get(self.workload_key, {})
        return {name: table[name] for name in self.task_input_names if name in table}


def _in_order(tensors: Sequence[Tensor]) -> list[Operation]:
    """The operations in the order of the legacy API, which numbers stages in records.

    An operation is ready when its inputs are placed. Of the ready ones, the next is the last that a search from the
    outputs discovers.
    """
    found: dict[Operation, int] = {}
    stack = [t.op for t in tensors]
    readers: dict[Operation, list[Operation]] = {}
    while stack:
        op = stack.pop()
        if op in found:
            continue
        found[op] = len(found)
        for tensor in op.input_tensors:
            readers.setdefault(tensor.op, []).append(op)
            stack.append(tensor.op)
    ops, missing = list(found), {op: len(op.input_tensors) for op in found}
    ready = [-i for i, op in enumerate(ops) if not missing[op]]
    heapq.heapify(ready)
    order: list[Operation] = []
    while ready:
        order.append(ops[-heapq.heappop(ready)])
        for reader in readers.get(order[-1], ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, -found[reader])
    return order


def _stage_ops(schedule: ScheduleHandle) -> dict[int, Operation]:
    """The operations of a schedule's stages by their ids, in the order of the legacy API."""
    made = NumberedSchedule(create_schedule(schedule.computed), _in_order(schedule.computed))
    for step in schedule.recorded:
        made.take(step)
    found: dict[int, Operation] = {}

    def current(e: Any) -> Any:
        """A read of the operation that the stage has now."""
        if isinstance(e, Load) and isinstance(e.source, Tensor):
            return Load(found[schedule.value.stage_of[e.source.op]].output(e.source.value_index), e.indices)
        return e

    for i in made.order:
        op = schedule.value.stages[i].op
        if isinstance(op, ComputeOp):
            op = ComputeOp(op.name, op.axis, tuple(rewrite(e, current) for e in op.values), op.tag, op.attrs)
        found[i] = op
    return found


def _text(ops: Sequence[Operation]) -> str:
    return "".join(f"{line}\n" for op in ops for line in _lines(op))


def _lines(op: Operation) -> list[str]:
    """An operation as text: `B(i) += A[i, k]`."""
    if isinstance(op, PlaceholderOp):
        return [f"{op.name} = PLACEHOLDER [{', '.join(map(str, op.shape))}]"]
    if not isinstance(op, ComputeOp):
        return [f"{op.name} = {type(op).__name__.removesuffix('Op').upper()}"]
    left = f"{op.name}({', '.join(axis.name for axis in op.axis)})"
    if isinstance(op.values[0], Reduce) and op.num_outputs == 1:
        reduction = op.values[0]
        kind = {"Add": "+=", "Max": "max=", "Min": "min="}.get(type(reduction.combiner.result[0]).__name__)
        if kind:
            return [f"{left} {kind} {show(reduction.source[0])}"]
    several = op.num_outputs > 1
    return [f"{left}{f'.v{i}' if several else ''} = {show(value)}" for i, value in enumerate(op.values)]


def get_shape_from_rewritten_layout(rewritten_layout: str, axis_names: Sequence[str]) -> list[int]:
    """Raise: inputs keep the shapes of their declaration."""
    raise UserError(
        f"no layout is rewritten, and {rewritten_layout!r} is one",
        primitive="get_shape_from_rewritten_layout",
        fix="take the shapes of the tensors",
    )
