"""Fixed-point analysis of scans: the dimensions along which the elements of a recurrence do not depend on each other.

A schedule may split such a dimension outside of the scan's own loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.errors import UserError
from ..expr.nodes import Expr, Load
from ..expr.operators import const
from ..expr.traverse import post_order
from .axis import IterVar
from .scan import ScanOp
from .tensor import ComputeOp, Operation, Tensor, topological

_Place = tuple[int, int]
"""The number of a scan's state, and a dimension of the state."""


def scan_fixed_points(scan: ScanOp) -> dict[IterVar, Expr]:
    """Return 1 for each axis in `scan.spatial_axis_` along which no element reads the state of another element, else 0.

    Parameters
    ----------
    scan
        The operation of `te.scan`.

    Raises
    ------
    UserError
        If it is another operation.
    """
    if not isinstance(scan, ScanOp):
        raise UserError(
            f"{scan!r} is not a scan", primitive="ScanFixPointAnalysis", fix="give res.op of res = te.scan(...)"
        )
    places = [(i, d) for i, state in enumerate(scan.state) for d in range(1, len(state.shape))]
    mixed: set[_Place] = set()
    for place, reached in _reached(scan):
        if reached != {place}:
            mixed |= {place, *reached}
    one, zero = const(1, "int32"), const(0, "int32")
    return {axis: zero if at in mixed else one for axis, at in zip(scan.spatial_axis_, places, strict=True)}


def _reached(scan: ScanOp) -> Iterator[tuple[_Place, set[_Place]]]:
    """Each dimension of each read of a state, and the dimensions of the results with positions equal to its index."""
    steps = set(scan.steps())
    marks: dict[tuple[Operation, int], set[_Place]] = {}
    for i, update in enumerate(scan.update):
        for d in range(1, len(update.shape)):
            marks.setdefault((update.op, d), set()).add((i, d))
    states = {tensor: i for i, tensor in enumerate(scan.state)}
    for op in reversed([op for op in topological([scan]) if op in steps]):
        dims = {axis.var: d for d, axis in enumerate(op.axis)} if isinstance(op, ComputeOp) else {}
        for load in _loads(op):
            for q, index in enumerate(load.indices):
                own = marks.get((op, dims[index]), set()) if index in dims else set[_Place]()  # type: ignore[index]
                if load.source in states and q:
                    yield (states[load.source], q), own
                elif isinstance(load.source, Tensor) and load.source.op in steps:
                    marks.setdefault((load.source.op, q), set()).update(own or {(-1, -1)})
        if not isinstance(op, ComputeOp):
            read = [states[tensor] for tensor in op.input_tensors if tensor in states]
            yield from (((i, d), set[_Place]()) for i in read for d in range(1, len(scan.state[i].shape)))


def _loads(op: Operation) -> list[Load]:
    return [e for e in post_order(*op.body) if isinstance(e, Load)] if isinstance(op, ComputeOp) else []
