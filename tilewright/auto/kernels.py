"""Kernels: stages that are computed together, and the axes along which they are divided into rows.

A stage joins the kernel of its readers if both are divided into the same rows. A row of the result then needs one row
of the stage, which no other row needs. The intermediate results of a row stay on the chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from ..tensor.axis import IterVar
from ..tensor.tensor import ComputeOp, Operation, is_reduction
from ..topi.schedules.blocked import fits_blocks
from .dataflow import Dataflow, is_element_wise, known, size, total, whole_index

Row = tuple[IterVar, int]
"""An axis of the result, and the number of its neighbouring values in one row."""


@dataclass(frozen=True)
class RowLimits:
    """The limits of kernels that are computed row by row.

    A kernel has at least `fewest` rows, to fill the machine, or at most `work` iterations. Each of its stages has at
    most `elements` elements per row, so that the memory near a processor holds the row.

    `across`: whether neighbouring threads compute neighbouring rows, as on GPUs. Only then may neighbouring rows be
    neighbours in memory.
    """

    fewest: int
    work: int
    elements: int
    across: bool


@dataclass
class FusedKernel:
    """Stages that are computed together.

    `places` maps each dimension of a member to (axis of the result, divisor). `operands` are element-wise stages that
    one reduction of the kernel reads repeatedly.
    """

    out: Operation
    members: list[Operation] = field(default_factory=list)
    operands: list[Operation] = field(default_factory=list)
    places: dict[Operation, tuple[Row | None, ...]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        """The axes along which the members are divided into rows, in the order of the result's axes."""
        found: list[Row] = []
        for axis in self.out.axis:
            divisors = [1]
            for member in self.members:
                here = [d for a, d in filter(None, self.places[member]) if a is axis]
                if len(here) != 1:
                    break
                divisors += here
            else:
                most = max(divisors)
                if all(most % d == 0 for d in divisors):
                    found.append((axis, most))
        return found

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return prod(-(-size(axis) // divisor) for axis, divisor in self.rows)

    @property
    def reductions(self) -> list[ComputeOp]:
        """The reductions, producers first; the result's own reduction is last."""
        return [op for op in (*reversed(self.members), self.out) if isinstance(op, ComputeOp) and is_reduction(op)]

    @property
    def one_each(self) -> bool:
        """Whether each element of every member belongs to one element of the result."""
        rows = self.rows
        return (
            len(rows) == len(self.out.axis)
            and all(d == 1 for _, d in rows)
            and all(len(m.axis) == len(self.out.axis) for m in self.members)
        )


def kernels(flow: Dataflow, limits: RowLimits) -> list[FusedKernel]:
    """Divide the stored stages into kernels, producers first."""
    owner: dict[Operation, FusedKernel] = {}
    found: list[FusedKernel] = []
    for op in reversed(flow.stored):
        if op in owner:
            continue
        kernel = FusedKernel(op)
        found.append(kernel)
        owner[op] = kernel
        if isinstance(op, ComputeOp) and op.call is None:
            for member in _members(flow, kernel, owner, limits):
                owner[member] = kernel
    return found[::-1]


def _members(
    flow: Dataflow, kernel: FusedKernel, owner: Mapping[Operation, FusedKernel], limits: RowLimits
) -> Iterator[Operation]:
    """Add the stages that are divided into the rows of a kernel, and yield each of them."""
    kernel.places[kernel.out] = tuple((axis, 1) for axis in kernel.out.axis)
    inside = {kernel.out}
    for op in reversed(flow.stored):
        readers = flow.readers.get(op, [])
        free = isinstance(op, ComputeOp) and op.call is None and op not in flow.outputs and op not in owner
        if not free or not readers or not all(r in inside for r in readers):
            continue
        product = _reads_again(flow, readers[0], limits)
        if len(readers) == 1 and is_element_wise(op) and product and not _ends_rows(flow, op):
            kernel.operands.append(op)
            inside.add(op)
            yield op
            continue
        if any(r in kernel.operands for r in readers):
            continue
        places = _places(flow, kernel, op, readers)
        trial = FusedKernel(kernel.out, [*kernel.members, op], kernel.operands, {**kernel.places, op: places})
        if _pays(flow, trial, op, limits):
            kernel.members, kernel.places = trial.members, trial.places
            inside.add(op)
            yield op


def _reads_again(flow: Dataflow, op: Operation, limits: RowLimits) -> bool:
    """Return whether a reduction reads its operands repeatedly: a product, or rows of sums on a CPU."""
    if not isinstance(op, ComputeOp) or not is_reduction(op):
        return False
    return flow.is_product(op) or (not limits.across and fits_blocks(op))


def _ends_rows(flow: Dataflow, op: Operation) -> bool:
    """Return whether a stage reads sums of its own rows, as a normalisation does. One kernel then computes both."""
    inside = {read.source.op for read in flow.reads[op] if is_reduction(read.source.op)}
    return any(total(each.axis) < total(op.axis) and _are(flow.readers.get(each, []), op, inside) for each in inside)


def _are(readers: list[Operation], op: Operation, others: set[Operation]) -> bool:
    """Whether every reader is `op` or one of the `others`."""
    return all(reader is op or reader in others for reader in readers)


def _places(flow: Dataflow, kernel: FusedKernel, op: Operation, readers: list[Operation]) -> tuple[Row | None, ...]:
    """Return the axis of the result that indexes each dimension of a stage, if all readers agree."""
    found: list[set[Row | None]] = [set() for _ in op.axis]
    for reader in readers:
        axes = {axis.var: axis for axis in reader.axis}
        own = dict(zip(reader.axis, kernel.places[reader], strict=True))
        for load in flow.loads_of(reader, op):
            for d, index in enumerate(load.indices):
                at = whole_index(index, axes)
                place = own[at[0]] if at is not None else None
                found[d].add(None if at is None or place is None else (place[0], place[1] * at[1]))
    places = [next(iter(each)) if len(each) == 1 else None for each in found]
    return tuple(_with_single_elements(kernel, op, places))


def _with_single_elements(kernel: FusedKernel, op: Operation, places: list[Row | None]) -> Iterator[Row | None]:
    """Yield `places` with dimensions of one element mapped to such dimensions of the result."""
    taken = {place[0] for place in places if place is not None}
    free = [axis for axis in kernel.out.axis if known(axis) == 1 and axis not in taken]
    for axis, place in zip(op.axis, places, strict=True):
        yield (free.pop(0), 1) if place is None and known(axis) == 1 and free else place


def _pays(flow: Dataflow, kernel: FusedKernel, op: Operation, limits: RowLimits) -> bool:
    """Return whether a kernel is faster with its last member than without it."""
    if not kernel.rows:
        return not kernel.out.axis and not op.axis and not _has_product(flow, kernel)
    if kernel.one_each:
        return not _has_product(flow, kernel) or len(kernel.reductions) == 1
    if _has_product(flow, kernel):
        return False
    work = sum(total(each.loop_axes) for each in (kernel.out, *kernel.members))
    stored = max(total(each.axis) for each in (kernel.out, *kernel.members)) // max(kernel.row_count, 1)
    along = limits.across or all(axis is not kernel.out.axis[-1] or d > 1 for axis, d in kernel.rows)
    return along and stored <= limits.elements and (kernel.row_count >= limits.fewest or work <= limits.work)


def _has_product(flow: Dataflow, kernel: FusedKernel) -> bool:
    return any(flow.is_product(op) for op in kernel.reductions)
