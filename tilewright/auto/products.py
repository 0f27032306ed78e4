"""Products: reductions of two tensors as contractions, the form of tiled schedules."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import NamedTuple

from ..arith.simplify import simplify
from ..core.target import Target
from ..expr import nodes as n
from ..expr.nodes import IntImm
from ..expr.operators import as_expr, is_const
from ..expr.traverse import loads, post_order, rewrite, substitute, uses_any, variables
from ..tensor.axis import IterVar
from ..tensor.reduction import Reduce, adds_from_zero
from ..tensor.tensor import ComputeOp
from ..topi.schedules.stages import vector_bytes
from ..topi.templates.contraction import Contraction, MatrixOperand
from ..topi.templates.workload import sum_dtype
from ..tune.model.operations import operations
from .dataflow import Dataflow, Read, is_element_wise, known, size
from .kernels import FusedKernel


class ProductAxes(NamedTuple):
    """The axes of a reduction as the axes of a product of matrices, each group with its slowest axis first."""

    batch: tuple[IterVar, ...]
    rows: tuple[IterVar, ...]
    columns: tuple[IterVar, ...]
    depth: tuple[IterVar, ...]


@dataclass(frozen=True)
class MatrixProduct:
    """A reduction that is a product of two matrices.

    `element` is the type of both factors, by which matrix instructions are looked up; empty if terms are not plain
    products. `vector` is the number of bytes that a thread loads at once.
    """

    contraction: Contraction
    element: str
    vector: int


def product_of(
    flow: Dataflow, kernel: FusedKernel, op: ComputeOp, target: Target
) -> tuple[ProductAxes, MatrixProduct] | None:
    """Return a reduction of a kernel as a product on a target; None if it is no product."""
    body, reads = op.body[0], flow.reads[op]
    plain = isinstance(body, Reduce) and len(op.body) == 1 and not body.init and not body.ends
    if not plain or not isinstance(body, Reduce) or body.condition is not n.TRUE or len(reads) != 2:
        return None
    if any(known(axis) is None or axis.dom is None or not is_const(axis.dom.min, 0) for axis in op.loop_axes):
        return None
    used = [set(variables(*read.indices)) for read in reads]
    if any(loads(*read.indices) for read in reads) or _uses_axes_elsewhere(body, op):
        return None
    batch = tuple(a for a in op.axis if a.var in used[0] and a.var in used[1])
    own = [tuple(a for a in op.axis if a.var in used[i] and a.var not in used[1 - i]) for i in (0, 1)]
    if not own[0] or not own[1] or len(batch) + len(own[0]) + len(own[1]) != len(op.axis):
        return None
    if not all(any(a.var in u for u in used) for a in op.reduce_axis):
        return None
    right = next(i for i in (0, 1) if op.axis[-1] in own[i]) if op.axis[-1] not in batch else 1
    rows, columns = own[1 - right], own[right]
    axes = ProductAxes(batch, rows, columns, _depth(op, reads))
    where = {mine: place[0] for mine, place in zip(op.axis, kernel.places[op], strict=True) if place is not None}
    if len(where) != len(op.axis):
        return None
    dims = list(kernel.out.axis)
    places = [tuple(dims.index(where[a]) for a in group) for group in (batch, rows, columns)]
    if any(list(each) != sorted(each) for each in places):
        return None
    vector = vector_bytes(target)
    left, over = (
        _operand(flow, read, own, axes.depth, vector)
        for read, own in ((reads[1 - right], rows), (reads[right], columns))
    )
    deep = over.along_depth
    windows = [size(a) for a in axes.depth]
    period = (windows[-1] if deep else prod(windows[1:])) if len(windows) > 1 else 1
    element, sums = _element(body, reads), str(op.dtypes[0])
    made = Contraction(
        prod(map(size, batch)), left, over, prod(windows), str(reads[0].source.dtype),
        sum_dtype(element) if op.dtypes[0].bits == 16 and sums == element else sums,
        places[0], places[1], places[2], period, _run(kernel, places[2]),
        term_instructions=1 if element else _term_instructions(body),
    )  # fmt: skip
    return axes, MatrixProduct(made, element, vector)


def _uses_axes_elsewhere(body: Reduce, op: ComputeOp) -> bool:
    """Return whether terms use axes other than in the indices of loads."""
    bare = rewrite(body.source[0], lambda e: as_expr(0, e.dtype) if isinstance(e, n.Load) else e)
    return uses_any(bare, {axis.var for axis in op.loop_axes})


def _steps_by_one(read: Read, axis: IterVar) -> bool:
    last = read.indices[-1] if read.indices else None
    if last is None or not uses_any(last, {axis.var}):
        return False
    return bool(simplify(substitute(last, {axis.var: axis.var + 1}) - last) is as_expr(1, last.dtype))


def _depth(op: ComputeOp, reads: list[Read]) -> tuple[IterVar, ...]:
    """Return the reduction axes, the one along which the larger operand is contiguous last."""
    axes = list(op.reduce_axis)
    for read in sorted(reads, key=lambda r: -prod(getattr(e, "value", 1) for e in r.source.shape)):
        last = read.indices[-1] if read.indices else None
        found = next((a for a in axes if last is a.var), None)
        if found is not None:
            return (*(a for a in axes if a is not found), found)
    return tuple(axes)


def _operand(
    flow: Dataflow, read: Read, own: tuple[IterVar, ...], depth: tuple[IterVar, ...], vector: int
) -> MatrixOperand:
    deep = not _steps_by_one(read, own[-1])
    extent = prod(map(size, own))
    together = _together(flow, read, depth if deep else own, vector)
    return MatrixOperand(extent, deep, together, read.source.dtype.bytes)


def _together(flow: Dataflow, read: Read, axes: tuple[IterVar, ...], vector: int) -> int:
    """Return the number of contiguous elements per vector load along the axes: whole rows of the tensor, without
    conditions."""
    tensor = read.source
    if is_element_wise(tensor.op) and any(
        isinstance(e, (n.IfThenElse, n.Select)) for e in post_order(*flow.bodies[tensor.op])
    ):
        return 1
    run = 1
    for index, axis, extent in zip(reversed(read.indices), reversed(axes), reversed(tensor.shape), strict=False):
        whole = extent.value if isinstance(extent, IntImm) else 1
        if index is not axis.var:
            break
        run *= gcd(size(axis), whole)
        if size(axis) != whole:
            break
    last = tensor.shape[-1]
    return gcd(
        run, gcd(run * (last.value if isinstance(last, IntImm) and run == 1 else 1), vector // tensor.dtype.bytes)
    )


def _run(kernel: FusedKernel, columns: tuple[int, ...]) -> int:
    """Return the number of neighbouring columns that are contiguous in the result."""
    dims, run = list(kernel.out.axis), 1
    for d, column in zip(range(len(dims) - 1, -1, -1), reversed(columns), strict=False):
        if d != column:
            break
        run *= size(dims[d])
    return run


def _element(body: Reduce, reads: list[Read]) -> str:
    """Return the type of both factors if this is a plain sum of plain products; else an empty string."""
    kinds = {str(read.source.dtype) for read in reads}
    term = body.source[0]
    parts = [term.a, term.b] if isinstance(term, n.Mul) else []
    bare = [part.value if isinstance(part, n.Cast) else part for part in parts]
    good = (
        len(kinds) == 1
        and adds_from_zero(body.combiner)
        and len(bare) == 2
        and all(isinstance(part, n.Load) for part in bare)
    )
    return kinds.pop() if good else ""


def _term_instructions(body: Reduce) -> int:
    """Return the instructions that compute a term and add it."""
    fused, others, _ = operations((body,))
    return max(1, round(fused + others))


def is_sum(op: ComputeOp) -> bool:
    """Return whether a reduction is a sum that starts at 0, so that zeros beyond its ends change nothing."""
    body = op.body[0]
    return isinstance(body, Reduce) and adds_from_zero(body.combiner)
