"""Scans on GPUs: each thread computes all steps of one column, in one kernel."""

from __future__ import annotations

from ..schedule.handle import ScheduleHandle
from ..tensor.axis import thread_axis
from ..tensor.scan import ScanOp
from ..tensor.tensor import ComputeOp, Operation
from .dataflow import Dataflow, is_element_wise, known_total

_BLOCK_THREADS = 32
"""Threads per block: there are few columns and many multiprocessors."""


def steps_of(scan: ScanOp) -> list[Operation]:
    """Return the stages that compute the initial rows and the rows of each step."""
    return list(dict.fromkeys(t.op for t in (*scan.init, *scan.update)))


def has_own_columns(flow: Dataflow, scan: ScanOp) -> bool:
    """Return whether columns of a scan are independent, and steps have no stages other than their updates."""
    states, updates = {t.op for t in scan.state}, {t.op for t in scan.update}
    if set(scan.steps()) - updates:
        return False
    widths = set()
    for op in steps_of(scan):
        if not isinstance(op, ComputeOp) or not is_element_wise(op) or len(op.axis) < 2 or op not in flow.reads:
            return False
        widths.add(known_total(op.axis[1:]))
        columns = tuple(axis.var for axis in op.axis[1:])
        if any(read.source.op in states and read.indices[1:] != columns for read in flow.reads[op]):
            return False
    return len(widths) == 1 and None not in widths


def schedule_scan(s: ScheduleHandle, scan: ScanOp) -> None:
    """Bind the columns of all steps to the same threads, and the whole scan to them."""
    width = known_total(steps_of(scan)[0].axis[1:]) or 1
    block, thread = (
        thread_axis((0, -(-width // _BLOCK_THREADS)), "blockIdx.x"),
        thread_axis((0, _BLOCK_THREADS), "threadIdx.x"),
    )
    for op in steps_of(scan):
        columns = op.axis[1:]
        flat = s[op].fuse(*columns) if len(columns) > 1 else columns[0]
        outer, inner = s[op].split(flat, factor=_BLOCK_THREADS)
        s[op].bind(outer, block)
        s[op].bind(inner, thread)
    s[scan].env_threads([block, thread])
