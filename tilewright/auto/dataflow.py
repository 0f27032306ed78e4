"""The dataflow graph on which rules decide: stored stages, their reads, and their work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple

from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import loads, post_order, variables
from ..schedule.handle import ScheduleHandle
from ..schedule.inlining import inlined_bodies
from ..schedule.schedule import Inlined
from ..tensor.axis import IterVar
from ..tensor.reduction import Reduce
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, Operation, Tensor, is_reduction

SIZE_AT_CALL = 1024
"""The extent that rules assume for a size that is known only at the call."""
_INSTRUCTIONS_PER_ADDITION = 1.0
_INSTRUCTIONS_PER_DIVISION = 4.0
_INSTRUCTIONS_PER_FUNCTION = 8.0
"""Instructions per call of a function such as exp."""


def extent_of(extent: object) -> int:
    """Return an extent as a number; `SIZE_AT_CALL` if it is known only at the call."""
    if isinstance(extent, int):
        return extent
    return extent.value if isinstance(extent, IntImm) else SIZE_AT_CALL


def bytes_of(tensor: Tensor) -> int:
    """Return the bytes of a tensor."""
    return prod(map(extent_of, tensor.shape)) * tensor.dtype.bytes


def size(axis: IterVar) -> int:
    """Return the extent of an axis as a number."""
    return extent_of(axis.dom.extent) if axis.dom is not None else 1


def known(axis: IterVar) -> int | None:
    """Return the extent of an axis; None if it is known only at the call."""
    extent = axis.dom.extent if axis.dom is not None else None
    return extent.value if isinstance(extent, IntImm) else None


def total(axes: Iterable[IterVar]) -> int:
    """Return the number of iterations of a loop nest."""
    return prod(size(axis) for axis in axes)


def known_total(axes: Sequence[IterVar]) -> int | None:
    """Return the number of iterations of a loop nest; None if it is known only at the call."""
    each = [known(axis) for axis in axes]
    return None if None in each else prod(e for e in each if e is not None)


def is_element_wise(op: Operation) -> bool:
    """Return whether an operation computes each element by an expression without a reduction."""
    return isinstance(op, ComputeOp) and not isinstance(op.body[0], Reduce) and op.call is None


class Read(NamedTuple):
    """A load of a stored tensor."""

    source: Tensor
    indices: tuple[Expr, ...]


class Dataflow:
    """The stored stages of a schedule; inlined stages are expanded in their readers."""

    def __init__(self, s: ScheduleHandle) -> None:
        schedule = s.value
        bodies = inlined_bodies(schedule)
        self.outputs = list(s.outputs)
        stages = [stage for stage in schedule.in_order() if not stage.is_placeholder]
        self.stored: list[Operation] = [t.op for t in stages if not isinstance(t.placement, Inlined)]
        """Operations that are stored, producers first."""
        self.bodies = {t.op: bodies[t.id] for t in stages if t.id in bodies}

    @property
    def scans(self) -> list[ScanOp]:
        """The scans among the stored operations."""
        return [op for op in self.stored if isinstance(op, ScanOp)]

    @cached_property
    def reads(self) -> dict[Operation, list[Read]]:
        """The loads of each stored operation."""
        found: dict[Operation, list[Read]] = {}
        for op in self.stored:
            each = [Read(e.source, e.indices) for e in loads(*self.bodies.get(op, ())) if isinstance(e.source, Tensor)]
            found[op] = list(dict.fromkeys(each))
        return found

    @cached_property
    def readers(self) -> dict[Operation, list[Operation]]:
        """The stored operations that read an operation."""
        found: dict[Operation, list[Operation]] = {op: [] for op in self.stored}
        for op in self.stored:
            sources = [load.source.op for load in self.reads[op]] if op in self.bodies else []
            for source in dict.fromkeys(sources or [t.op for t in op.input_tensors]):
                found.setdefault(source, []).append(op)
        return found

    def loads_of(self, reader: Operation, source: Operation) -> list[Read]:
        """The loads by which one operation reads another."""
        return [load for load in self.reads[reader] if load.source.op is source]

    def work(self, op: Operation) -> int:
        """Return the number of iterations of an operation's loops."""
        return total(op.loop_axes)

    def reuse(self, op: Operation) -> float:
        """Return the number of reads per element of the least reused operand of a product.

        Return 1 if the operation has no two operands indexed by different loops.
        """
        if not is_reduction(op):
            return 1.0
        work = self.work(op)
        spans: dict[Tensor, int] = {}
        for load in self.reads[op]:
            used = set(variables(*load.indices))
            spans[load.source] = max(spans.get(load.source, 1), total(a for a in op.loop_axes if a.var in used))
        ratios = [work / span for span in spans.values()]
        return min(ratios) if len(ratios) > 1 else 1.0

    def is_product(self, op: Operation, least: float = 8.0) -> bool:
        """Return whether an operation reuses its operands often enough for tiling to pay."""
        return self.reuse(op) >= least and total(op.reduce_axis) >= 8


def weight(body: Iterable[Expr]) -> float:
    """Return the instructions of an element, without loads and index arithmetic."""
    found = 0.0
    for e in post_order(*body):
        if isinstance(e, Reduce) or (e.dtype.is_int and not isinstance(e, n.Call)):
            continue
        if isinstance(e, (n.Select, n.Compare)):
            found += _INSTRUCTIONS_PER_ADDITION
        elif isinstance(e, n.Call):
            found += _INSTRUCTIONS_PER_FUNCTION
        elif isinstance(e, n.Arithmetic):
            found += _INSTRUCTIONS_PER_DIVISION if isinstance(e, n.Div) else _INSTRUCTIONS_PER_ADDITION
    return found


def whole_index(e: Expr, axes: dict[Var, IterVar]) -> tuple[IterVar, int] | None:
    """Return the axis and the divisor of an index: (i, 1) for i, (i, 4) for i // 4. None for any other index."""
    if isinstance(e, Var):
        return (axes[e], 1) if e in axes else None
    if isinstance(e, (n.FloorDiv, n.Div)) and isinstance(e.a, Var) and isinstance(e.b, IntImm):
        return (axes[e.a], e.b.value) if e.a in axes and e.b.value > 0 else None
    return None
