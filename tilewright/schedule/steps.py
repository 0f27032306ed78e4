"""Schedule steps as data, in order, so that they can be saved and replayed.

A step names its primitive and its arguments. Objects become references. `{"axis": [stage, k]}` is the k-th of
`Stage.all_axes`, and `{"stage": id}` is a stage. `{"tensor": [stage, k]}` is its k-th output, and `{"thread": n, ...}`
is the n-th thread axis of the schedule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.atoms import Atom
from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import ThreadTag
from ..expr import nodes
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import variables
from ..tensor.axis import AxisKind, IterVar, Range
from ..tensor.tensor import Operation, Tensor
from .relations import Relation
from .schedule import Schedule, Stage
from .tensor_intrin import TensorIntrin


@dataclass(frozen=True)
class Step:
    """One applied primitive. `where` is the caller's line (not part of the record).

    `given` are its arguments as objects, and `made` its results; both are for errors that name the step. `reason` says
    why the step was chosen, if a rule chose it.
    """

    primitive: str
    args: tuple[Any, ...]
    where: str = ""
    given: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    made: Any = field(default=None, compare=False, repr=False)
    reason: str = field(default="", compare=False, repr=False)

    def to_json(self) -> list[Any]:
        """The step as JSON data."""
        return [self.primitive, *self.args]


class RecordedNumber:
    """A number that steps record in its given form, and primitives read by its `value`."""

    __slots__ = ()
    value: int


@dataclass
class _Places:
    """The place in `Stage.all_axes` of each axis that a stage had when it was last looked at."""

    op: Operation
    of: dict[IterVar, int]
    relations: tuple[Relation, ...] = ()

    def begin(self, stage: Stage) -> bool:
        """Whether the axes of `stage` begin with these axes."""
        return self.op is stage.op and stage.relations[: len(self.relations)] == self.relations


class StepReferences:
    """Turns the arguments of primitives into references and back. One instance per schedule handle."""

    def __init__(self) -> None:
        self.threads: list[IterVar] = []
        self._places: dict[int, _Places] = {}
        self._last = -1
        """The last stage in a reference: the axes after it mostly belong to this stage."""

    def encode(self, schedule: Schedule, value: Any) -> Any:
        """A JSON value for an argument."""
        if value is None or type(value) in (str, int, bool):
            return value
        if isinstance(value, (list, tuple)):
            return [self.encode(schedule, v) for v in value]
        if isinstance(value, Stage):
            self._last = value.id
            return {"stage": value.id}
        if isinstance(value, Tensor):
            if value.op not in schedule.stage_of:
                return {"tensor": None, "name": value.name}
            return {"tensor": [schedule.stage_of[value.op], value.value_index]}
        if isinstance(value, IterVar):
            return self._encode_axis(schedule, value)
        if isinstance(value, IntImm):
            return value.value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, Atom):
            return value.name
        if isinstance(value, Expr):
            return {"expr": self._encode_expr(schedule, value)}
        if isinstance(value, TensorIntrin):
            return {"intrin": value.name}
        return value

    def _encode_expr(self, schedule: Schedule, e: Any) -> Any:
        """An expression as nested lists: the name of a node, then its fields; variables as references."""
        if isinstance(e, Var):
            thread = next((t for stage in schedule.in_order() for t in _threads(stage) if t.var is e), None)
            thread = thread or next((t for t in self.threads if t.var is e), None)
            axes = (axis for stage in schedule.in_order() for axis in stage.all_axes)
            axis = thread or next((axis for axis in axes if axis.var is e), None)
            return {"size": e.name} if axis is None else self._encode_axis(schedule, axis)
        if isinstance(e, Expr):
            return [type(e).__name__, *(self._encode_expr(schedule, getattr(e, name)) for name in e.FIELDS)]
        if isinstance(e, tuple):
            return {"tuple": [self._encode_expr(schedule, part) for part in e]}
        return {"dtype": str(e)} if isinstance(e, DType) else e

    def _decode_expr(self, schedule: Schedule, value: Any) -> Any:
        if isinstance(value, list):
            kind = getattr(nodes, value[0], None)
            if not (isinstance(kind, type) and issubclass(kind, Expr)):
                raise LookupError(value[0])
            return kind(*(self._decode_expr(schedule, part) for part in value[1:]))
        if not isinstance(value, dict):
            return value
        if "tuple" in value:
            return tuple(self._decode_expr(schedule, part) for part in value["tuple"])
        if "dtype" in value:
            return DType(value["dtype"])
        if "size" in value:
            shapes = (t.shape for stage in schedule.in_order() for t in stage.op.outputs)
            return next(v for shape in shapes for v in variables(*shape) if v.name == value["size"])
        return self.decode(schedule, value).var

    def _encode_axis(self, schedule: Schedule, axis: IterVar) -> Any:
        if axis.thread is not None:
            known = [i for i, t in enumerate(self.threads) if t is axis]
            if not known:
                self.threads.append(axis)
            number = known[0] if known else len(self.threads) - 1
            extent = None if axis.dom is None else self.encode(schedule, axis.dom.extent)
            return {"thread": number, "tag": axis.thread_tag, "name": axis.name, "extent": extent}
        for number in (self._last, *schedule.order):
            stage = schedule.stages.get(number)
            place = None if stage is None else self._places_of(stage).of.get(axis)
            if place is not None:
                return {"axis": [number, place]}
        return {"axis": None, "name": axis.name}

    def _places_of(self, stage: Stage) -> _Places:
        """The places of a stage's axes. The axes of new relations are added to the known places."""
        known = self._places.get(stage.id)
        if known is None or not known.begin(stage):
            known = self._places[stage.id] = _Places(stage.op, {axis: i for i, axis in enumerate(stage.roots)})
        for relation in stage.relations[len(known.relations) :]:
            known.of.update({axis: len(known.of) + i for i, axis in enumerate(relation.below)})
        known.relations = stage.relations
        return known

    def decode(self, schedule: Schedule, value: Any) -> Any:
        """The argument that a JSON value stands for, in `schedule`."""
        if isinstance(value, list):
            return [self.decode(schedule, v) for v in value]
        if not isinstance(value, dict):
            return value
        if "stage" in value:
            return schedule.stages[value["stage"]]
        if "expr" in value:
            return self._decode_expr(schedule, value["expr"])
        if value.get("tensor"):
            stage, index = value["tensor"]
            return schedule.stages[stage].op.outputs[index]
        if value.get("axis"):
            stage, index = value["axis"]
            return schedule.stages[stage].all_axes[index]
        if "thread" in value:
            return self._decode_thread(value)
        raise UserError(
            f"the step argument {value!r} cannot be replayed",
            primitive="replay",
            fix="give steps as s.steps records them, of axes, stages, tensors and constant numbers",
        )

    def copy(self) -> StepReferences:
        """Return new references with the same threads."""
        made = StepReferences()
        made.threads = list(self.threads)
        return made

    def _decode_thread(self, value: dict[str, Any]) -> IterVar:
        while len(self.threads) <= value["thread"]:
            dom = None if value["extent"] is None else Range(value["extent"])
            self.threads.append(IterVar(value["name"], dom, AxisKind.THREAD, ThreadTag.parse(value["tag"])))
        thread: IterVar = self.threads[value["thread"]]
        return thread


def _threads(stage: Stage) -> list[IterVar]:
    """The thread axes that loops of a stage are bound to."""
    return [annotation.thread for annotation in stage.annotations.values() if annotation.thread is not None]


References = StepReferences
"""The name in pickles of version 0.2.0."""


def flattened(values: Iterable[Any]) -> Iterator[Any]:
    """Yield values, and in place of a list or a tuple its elements: the arguments or the results of a step."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flattened(value)
        else:
            yield value
