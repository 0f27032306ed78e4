"""References: random inputs, expected outputs, and tolerances.

The expected values come from the declaration of the tensors, evaluated by NumPy in float64: no schedule, no loops and
no generated code stand between. They are computed once per declaration and kept in a file. If all of them would take
more than some seconds, only a sample of the elements is computed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.node import Node
from ..expr.nodes import Call, Cast, Compare, FloatImm, FloorDiv, FloorMod, IntImm, Mod, Var
from ..expr.traverse import post_order
from ..tensor.axis import IterVar, extent_or
from ..tensor.reduction import CommReducer, Reduce
from ..tensor.reference import reference
from ..tensor.reference_sample import sampled_reference, values_at, work_of
from ..tensor.tensor import PlaceholderOp, Tensor, topological
from .job import CheckSpec, Job
from .outcome import ReferenceDisputed
from .reference_file import Expected, OutputSample, load, random

_LOOSEST_TOLERANCE = 0.1
_STEPS = frozenset({"ceil", "floor", "fmod", "nearbyint", "round", "sign", "trunc"})
"""Functions of floats with steps."""
_MOST_STEPS = 3.2e8
"""The most steps of NumPy for a whole reference, and for a sample of one. They take one to five seconds."""


def describe(args: Sequence[Any], rounding: float = 0.0) -> CheckSpec:
    """A kernel's description for its check: some arguments are placeholders, the others outputs.

    `rounding` is the relative rounding error of operands in the matrix instructions of its schedule.
    """
    for position, arg in enumerate(args):
        if not isinstance(arg, Tensor):
            raise UserError(
                f"argument {position} is {arg!r}: only tensors of known shape can be measured",
                primitive="measure",
                fix="declare the tensors with the sizes to measure",
            )
    outputs = tuple(i for i, arg in enumerate(args) if not isinstance(arg.op, PlaceholderOp))
    ops = topological([arg.op for arg in args])
    sums = []
    for op in ops:
        if not isinstance(op, PlaceholderOp):
            terms = math.prod(extent_or(axis, 1) for axis in op.reduce_axis) if op.reduce_axis else 0
            sums.append((terms, max((_unit(d) for d in op.dtypes if d.is_float), default=0.0)))
    branches = any(_branches(node) for op in ops for node in post_order(*op.values))
    return CheckSpec(_Fingerprint().of(args), outputs, tolerance(sums, rounding), branches)


def _branches(node: Any) -> bool:
    """Whether rounding errors of a node's operands may change its value by much: steps, and comparisons of floats."""
    if isinstance(node, Compare | FloorDiv | FloorMod | Mod):
        return bool(node.a.dtype.is_float)
    if isinstance(node, Cast):
        return bool(node.value.dtype.is_float and not node.dtype.is_float)
    if isinstance(node, Reduce):
        return any(_branches(each) for each in post_order(*node.combiner.result))
    return isinstance(node, Call) and node.name in _STEPS


def tolerance(sums: Sequence[tuple[int, float]], rounding: float = 0.0) -> float:
    """The allowed relative error. `sums`: (number of terms, machine epsilon) of each sum.

    Rounding errors add up like a random walk, in the type of each sum. Eight of its steps leave room for any order of
    summation, and one missing term of several thousand is still far outside. Stored values, and operands with the
    relative error `rounding`, are rounded once, however many terms there are.
    """
    largest = max((unit for _, unit in sums), default=0.0)
    walk = math.sqrt(sum(terms * unit**2 for terms, unit in sums))
    return min(_LOOSEST_TOLERANCE, 16 * max(largest, rounding) + 8 * walk)


def _unit(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).eps)  # type: ignore[no-untyped-call]  # missing in the stubs


class _Fingerprint:
    """A graph of tensors as text in which everything has a number, and names and addresses play no part."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.keep: list[Any] = []  # numbered objects must stay alive, so that no address is reused
        self.hash = hashlib.sha256()

    def of(self, args: Sequence[Tensor]) -> str:
        for op in topological([arg.op for arg in args]):
            axes = [(self.ref(a), self.ref(a.dom.min), self.ref(a.dom.extent)) for a in op.axis if a.dom is not None]
            body = [self.ref(e) for e in op.values]
            shape = [self.ref(e) for e in op.shape]
            self._define(op, f"{type(op).__name__} {op.dtypes} {shape} {axes} {body}")
        self.hash.update(repr([self.ref(arg) for arg in args]).encode())
        return self.hash.hexdigest()

    def ref(self, value: Any) -> Any:
        """The number of a value of the graph, or the text of plain data."""
        if isinstance(value, Tensor):
            return "tensor", self.numbers[id(value.op)], value.value_index
        if isinstance(value, IterVar):
            return self.ref(value.var)
        if isinstance(value, tuple):
            return tuple(self.ref(v) for v in value)
        if not isinstance(value, (Node, CommReducer)):
            return repr(value)
        if id(value) not in self.numbers:
            parts = self._parts(value)
            self._define(value, f"{type(value).__name__} {[self.ref(part) for part in parts]}")
        return self.numbers[id(value)]

    def _parts(self, value: Any) -> tuple[Any, ...]:
        """The identity of a node."""
        if isinstance(value, CommReducer):
            return value.lhs, value.rhs, value.result, value.identity
        if isinstance(value, Var):  # the variable itself, because names mean nothing
            return (value.dtype,)
        fields = tuple(getattr(value, name) for name in value.FIELDS)
        if isinstance(value, Reduce):
            fields += tuple((a.dom.min, a.dom.extent) for a in value.axes if a.dom is not None)
        return fields

    def _define(self, value: Any, text: str) -> None:
        self.numbers[id(value)] = len(self.numbers)
        self.keep.append(value)
        self.hash.update(f"{text}\n".encode())


class _Structure(_Fingerprint):
    """A fingerprint that all sizes of a graph share: numbers differ by their types only."""

    def ref(self, value: Any) -> Any:
        if isinstance(value, (int, float, IntImm, FloatImm)):
            return type(value).__name__
        return super().ref(value)


def structure_of(args: Sequence[Tensor]) -> str:
    """Return the identity of a graph of tensors without its sizes and its other constants."""
    return _Structure().of(args)


def expected_of(
    job: Job, given: Sequence[np.ndarray] | None, dispute: ReferenceDisputed | None = None
) -> tuple[Sequence[np.ndarray], Sequence[Expected]]:
    """Return the inputs and the expected outputs of a job, with more elements after a dispute."""
    with job.target:
        if given is None and job.reference is not None:
            return job.reference()
        _, tensors = job.instantiate()
        if dispute is not None:
            with suppress(OSError):  # a file that was removed is replaced
                inputs, expected = load(dispute.path)
                return inputs, extended(tensors, inputs, expected, dispute.points)
        return compute(tensors, np.random.default_rng(), given)


def compute(
    args: Sequence[Tensor], rng: np.random.Generator, given: Sequence[np.ndarray] | None = None
) -> tuple[list[np.ndarray], list[Expected]]:
    """Random inputs and their expected outputs, in the order of the arguments.

    If all outputs would take too many steps, samples of them are returned. If samples would as well, as of a sum over a
    large result, all outputs are returned after all.
    """
    inputs = [arg for arg in args if isinstance(arg.op, PlaceholderOp)]
    outputs = [arg for arg in args if not isinstance(arg.op, PlaceholderOp)]
    if given is not None:
        values = _matching(args, inputs, given)
        return values, _expected(outputs, dict(zip(inputs, values, strict=True)), rng)
    for careful in (False, True):
        shapes = [tuple(int(extent) for extent in t.shape) for t in inputs]
        values = [random(shape, t.dtype, rng, careful) for shape, t in zip(shapes, inputs, strict=True)]
        try:
            expected = _expected(outputs, dict(zip(inputs, values, strict=True)), rng)
        except UserError:  # integers that are indices, and point outside
            if careful:
                raise
            continue
        found = [each.values if isinstance(each, OutputSample) else each for each in expected]
        if all(np.isfinite(each).all() for each in found if each.dtype.kind == "f"):
            break
    return values, expected


def _expected(outputs: Sequence[Tensor], inputs: dict[Any, Any], rng: np.random.Generator) -> list[Expected]:
    found = sampled_reference(outputs, inputs, rng, _MOST_STEPS) if work_of(outputs) > _MOST_STEPS else None
    return list(reference(outputs, inputs)) if found is None else _samples(outputs, found)


def _samples(outputs: Sequence[Tensor], found: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[Expected]:
    shapes = [tuple(int(extent) for extent in t.shape) for t in outputs]
    return [OutputSample(shape, *each) for shape, each in zip(shapes, found, strict=True)]


def extended(
    args: Sequence[Tensor], values: Sequence[np.ndarray], expected: Sequence[Expected], points: Sequence[np.ndarray]
) -> list[Expected]:
    """Return samples of expected outputs with more elements: `points` has the positions to add for each output."""
    tensors = [arg for arg in args if isinstance(arg.op, PlaceholderOp)]
    inputs = {t: v.view(t.dtype.numpy) if v.dtype.kind == "V" else v for t, v in zip(tensors, values, strict=True)}
    outputs = [arg for arg in args if not isinstance(arg.op, PlaceholderOp)]
    added = _samples(outputs, values_at(outputs, inputs, [[each] for each in points]))
    return [
        a.joined(b) if isinstance(a, OutputSample) and isinstance(b, OutputSample) else a
        for a, b in zip(expected, added, strict=True)
    ]


def _matching(args: Sequence[Tensor], inputs: Sequence[Tensor], given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The given values of the inputs; raises UserError if they do not fit."""
    chosen = list(given)
    if len(given) == len(args):
        chosen = [a for a, arg in zip(given, args, strict=True) if isinstance(arg.op, PlaceholderOp)]
    wanted = [(tuple(int(extent) for extent in t.shape), DType(t.dtype).numpy) for t in inputs]
    if [(a.shape, a.dtype) for a in chosen] != wanted:
        shown = ", ".join(f"{dtype}{list(shape)}" for shape, dtype in wanted)
        raise UserError(
            f"ref_input holds {', '.join(f'{a.dtype}{list(a.shape)}' for a in given)}",
            primitive="LocalRunner",
            fix=f"give the inputs of the kernel, {shown}, or all of its arguments in order",
        )
    return chosen
