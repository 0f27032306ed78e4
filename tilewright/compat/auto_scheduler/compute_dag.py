"""The graph of a computation, and schedules of it as steps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from ...core.errors import UserError
from ...core.target import Target
from ...driver import lower
from ...expr.printer import show
from ...schedule.handle import ScheduleHandle, create_schedule
from ...schedule.steps_file import computation
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological
from ...tune.flops import count_flop
from .workload_registry import tensors_of, workload_key_to_tensors


class LayoutRewriteOption(IntEnum):
    """Whether layouts of constant inputs may change; schedules here repack such inputs themselves."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2


class State:
    """A schedule of a computation: its steps as data, as `Schedule.recorded` returns them."""

    def __init__(self, dag: ComputeDAG, steps: Sequence[Any]) -> None:
        self.dag, self.transform_steps = dag, list(steps)

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
        """The floating-point operations of the computation."""
        return float(count_flop(create_schedule(self.outputs).value))

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

    def apply_steps_from_state(self, state: State, layout_rewrite: Any = None) -> tuple[ScheduleHandle, list[Tensor]]:
        """Return a schedule with the steps of a state, and the tensors."""
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
    """A computation on a target, with its key; records hold no more of a task."""

    def __init__(self, compute_dag: ComputeDAG, workload_key: str, target: Any) -> None:
        self.compute_dag, self.workload_key = compute_dag, workload_key
        self.target = Target.parse(target)


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
