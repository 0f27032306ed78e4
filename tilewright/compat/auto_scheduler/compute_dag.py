"""The graph of a computation, and schedules of it as steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from ...core.errors import UserError, warn_caller
from ...core.target import Target
from ...driver import lower
from ...expr.printer import show
from ...schedule.handle import ScheduleHandle, create_schedule
from ...schedule.steps_file import computation
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from ...topi.utils import get_const_tuple
from ...tune.flops import count_flop
from .workload_registry import tensors_of, workload_key_to_tensors


class LayoutRewriteOption(IntEnum):
    """Whether inputs named in `layout_free_placeholders` change their layout.

    Schedules pack inputs themselves, at each call, as with `INSERT_TRANSFORM_STAGE`. The arguments keep their shapes.
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


class State:
    """A schedule of a computation: its steps as data, as `Schedule.recorded` returns them.

    A state of a file is of the computation with a workload key.
    """

    def __init__(self, dag: ComputeDAG | str, steps: Sequence[Any]) -> None:
        self._dag, self.transform_steps = dag, list(steps)

    @property
    def dag(self) -> ComputeDAG:
        """The computation."""
        if isinstance(self._dag, str):
            self._dag = ComputeDAG(self._dag)
        return self._dag

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.transform_steps == other.transform_steps

    def __hash__(self) -> int:
        return hash(str(self.transform_steps))

    @property
    def stages(self) -> list[Any]:
        """The stages, producers first."""
        return self.dag.apply_steps_from_state(self)[0].stages

    def __str__(self) -> str:
        return str(lower(*self.dag.apply_steps_from_state(self), simple_mode=True))


class ComputeDAG:
    """The operations between some inputs and outputs.

    Parameters
    ----------
    compute_or_sche : list of Tensor, str or Schedule
        The inputs and outputs, a workload key, or a schedule.
    """

    def __init__(self, compute_or_sche: Any) -> None:
        if isinstance(compute_or_sche, str):
            self.tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, ScheduleHandle):
            outputs = list(compute_or_sche.computed)
            inputs = (op for op in topological([t.op for t in outputs]) if isinstance(op, PlaceholderOp))
            self.tensors = [*(op.output(0) for op in inputs), *outputs]
        else:
            self.tensors = tensors_of(compute_or_sche)

    @property
    def outputs(self) -> list[Operation]:
        """The operations of the outputs."""
        return list(dict.fromkeys(t.op for t in self.tensors if not isinstance(t.op, PlaceholderOp)))

    @property
    def ops(self) -> list[Operation]:
        """All operations, producers first."""
        return list(topological(self.outputs))

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
        return State(self, [])

    def get_init_state(self) -> State:
        """Return the state without a step."""
        return self.init_state

    def hash_key(self) -> str:
        """Return a hash of the structure, shapes and types."""
        text = "\n".join([*computation(create_schedule(self.outputs).value), str(self)])
        return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()

    def workload_key(self) -> str:
        """Return the key of a computation without a registered function: its hash and its shapes."""
        shapes = [[int(extent) for extent in get_const_tuple(t.shape)] for t in self.tensors]
        return json.dumps([self.hash_key(), *shapes])

    def apply_steps_from_state(self, state: State, layout_rewrite: Any = None) -> tuple[ScheduleHandle, list[Tensor]]:
        """Return a schedule with the steps of a state, and the tensors, which keep the shapes of their declaration."""
        free = [t.name for op in self.ops for t in op.attrs.get("layout_free_placeholders", ())]
        if free and (layout_rewrite is True or layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED):
            warn_caller(
                f"no layout is rewritten: {', '.join(free)} keep their shapes, and the schedule packs them at each "
                "call. To pack once, declare them in the packed order: docs/automatic.md, Weights that are packed once",
                UserWarning,
            )
        s = create_schedule(self.outputs)
        s.replay(state.transform_steps)
        return s, self.tensors

    def infer_bound_from_state(self, state: State) -> State:
        """Return the state: ranges are inferred when it is lowered."""
        return state

    def print_python_code_from_state(self, state: State) -> str:
        """Return the schedule of a state as a Python program."""
        return self.apply_steps_from_state(state)[0].as_python()

    def __str__(self) -> str:
        return "".join(f"{line}\n" for op in self.ops for line in _lines(op))

    def __repr__(self) -> str:
        return f"ComputeDAG({', '.join(op.name for op in self.ops)})"


class Workload:
    """A computation on a target, with its key, which alone may be given; records hold no more of a task."""

    task_inputs: Mapping[str, Any] = {}

    def __init__(self, compute_dag: ComputeDAG | None, workload_key: str, target: Any) -> None:
        self._dag, self.workload_key = compute_dag, workload_key
        self.target = Target.parse(target)

    @property
    def compute_dag(self) -> ComputeDAG:
        """The computation."""
        if self._dag is None:
            self._dag = ComputeDAG(self.workload_key)
        return self._dag


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
