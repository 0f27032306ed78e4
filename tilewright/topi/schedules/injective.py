"""Schedules of operations with independent elements."""

from __future__ import annotations

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import thread_axis
from ...tensor.tensor import Operation
from ..argument_checks import known
from .stages import LANES, PARALLEL_FROM, bytes_of, count, threads_of, vector_bytes


def one_element_each(s: ScheduleHandle, op: Operation, target: Target) -> None:
    """Share the elements of an operation out to threads, or to processors and vectors."""
    if target.is_gpu:
        _to_threads(s, op, target)
    else:
        _to_processors(s, op)


def _to_threads(s: ScheduleHandle, op: Operation, target: Target) -> None:
    """Neighbouring threads compute neighbouring vectors."""
    stage, elements = s[op], count(op.axis)
    rest = stage.fuse(*op.axis)
    width = vector_bytes(target) // bytes_of(op.outputs)
    threads = threads_of(target)
    # If the last vector would stick out, a guard would turn all of them into single elements.
    while width > 1 and (elements is None or elements % width or not _in_rows(op, width)):
        width //= 2
    vector = None
    if width > 1:
        rest, vector = stage.split(rest, factor=width)
    block, thread = stage.split(rest, factor=threads)
    stage.bind(block, thread_axis("blockIdx.x"))
    stage.bind(thread, thread_axis("threadIdx.x"))
    if vector is not None:
        stage.vectorize(vector)


def _in_rows(op: Operation, width: int) -> bool:
    """Whether each vector lies in one row of the result, so that its indices need no division per element."""
    last = known(op.axis[-1].dom.extent) if op.axis and op.axis[-1].dom is not None else None
    return last is not None and last % width == 0


def _to_processors(s: ScheduleHandle, op: Operation) -> None:
    stage, elements = s[op], count(op.axis)
    if not op.axis:
        return
    *outer, last = op.axis
    width, row = 4 * LANES // bytes_of(op.outputs), count([last])
    if row is None or row >= width:
        more, vector = stage.split(last, factor=width)
        stage.vectorize(vector)
        outer = [*outer, more]
    if outer and (elements is None or elements >= PARALLEL_FROM):
        stage.parallel(stage.fuse(*outer))
