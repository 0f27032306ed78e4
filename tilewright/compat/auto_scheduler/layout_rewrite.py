"""Layouts of inputs that follow the loops of a state: a computation that reads them in the order of the loops.

With the loops j.outer, k and j.inner, `B[k, j]` becomes `B[j // 8, k, j % 8]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...expr.nodes import Expr, Load, Var
from ...expr.traverse import loads, rewrite, substitute
from ...schedule.handle import StageHandle
from ...schedule.primitives.cache_write import is_even, loop_layout
from ...schedule.relations import Split
from ...tensor.tensor import ComputeOp, Operation, Tensor, placeholder
from ...topi.utils import get_const_int

Layout = tuple[list[int], list[Expr]]


def layout_of(stage: StageHandle, op: ComputeOp, tensor: Tensor) -> Layout | None:
    """The extents of the loops that choose an element of `tensor`, and the loops in terms of the axes of `op`.

    None if the stage is no plain computation of `op` on split loops, or if an index of a read is no axis.
    """
    found = stage.op
    if not isinstance(found, ComputeOp) or len(found.axis) != len(op.axis):
        return None
    reads = {e.indices for e in loads(*found.values) if e.source is tensor}
    indices = reads.pop() if len(reads) == 1 else ()
    roots = {axis.var: axis for axis in stage.value.roots}
    if not indices or not all(isinstance(index, Var) and index in roots for index in indices):
        return None
    ranges, values = loop_layout(stage.value)
    if not all(isinstance(r, Split) and is_even(r, ranges) for r in stage.value.relations):
        return None
    origin = {axis: axis for axis in stage.value.roots}
    for relation in stage.value.relations:
        origin.update(dict.fromkeys(relation.below, origin[relation.above[0]]))
    loops = [axis for axis in stage.leaf_iter_vars if origin[axis].var in indices]
    own = dict(zip((axis.var for axis in found.axis), (axis.var for axis in op.axis), strict=True))
    mapping: dict[Any, Expr] = dict(own)
    return [get_const_int(ranges[axis].extent) for axis in loops], [substitute(values[axis], mapping) for axis in loops]


def rewritten(
    ops: Sequence[Operation], layouts: Mapping[tuple[Operation, Tensor], Layout]
) -> dict[Operation, Operation]:
    """Operations that read tensors in other layouts, by the operations that they replace."""
    inputs = {
        tensor: placeholder(tuple(shape), tensor.dtype, tensor.name) for (_, tensor), (shape, _) in layouts.items()
    }
    found: dict[Operation, Operation] = {tensor.op: new.op for tensor, new in inputs.items()}

    def of(op: Operation) -> Callable[[Any], Any]:
        def replaced(e: Any) -> Any:
            if not isinstance(e, Load) or not isinstance(e.source, Tensor):
                return e
            layout = layouts.get((op, e.source))
            if layout is not None:
                return Load(inputs[e.source], tuple(layout[1]))
            source = found.get(e.source.op)
            return e if source is None else Load(source.output(e.source.value_index), e.indices)

        return replaced

    for op in ops:
        if isinstance(op, ComputeOp):
            values = tuple(rewrite(e, of(op)) for e in op.values)
            found[op] = ComputeOp(op.name, op.axis, values, op.tag, op.attrs)
        else:
            found.setdefault(op, op)
    return found
