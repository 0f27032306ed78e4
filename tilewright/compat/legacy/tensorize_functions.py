"""The registered functions by which the legacy API's tests look at tensorized loops: `test.op.InferTensorizeRegion`."""

from __future__ import annotations

from typing import Any, TypeVar

from ...arith.region import extremes
from ...arith.simplify import simplify
from ...bounds.infer import infer_bounds
from ...core.errors import UserError
from ...expr.nodes import Expr, Load
from ...expr.operators import add, cast, const, subtract
from ...expr.traverse import post_order, substitute
from ...runtime.packed import register_func
from ...schedule.handle import StageHandle
from ...schedule.tensor_intrin import TensorIntrin
from ...te.schedule import ScheduleOps
from ...tensor.axis import IterVar, Range
from ...tensor.tensor import Tensor

Key = TypeVar("Key")


class _Map(dict[Key, Any]):
    """A dictionary with a list of items, as in the legacy API's maps."""

    def items(self) -> Any:
        return list(super().items())


def infer_tensorize_region(stage: Any, dom_map: Any = None) -> tuple[dict[IterVar, Range], dict[Tensor, list[Range]]]:
    """Return the regions that the tensorized loops of a stage compute and read.

    Parameters
    ----------
    stage
        The stage: `s[C]`.
    dom_map
        Accepted as in the legacy API; the ranges are inferred anew.

    Returns
    -------
    The range of each axis of the stage's operation, and the ranges of each tensor that is read, one per dimension. The
    loops outside are fixed.

    Raises
    ------
    UserError
        If the stage is not tensorized by a declared intrinsic.
    """
    declared = stage.value.declared if isinstance(stage, StageHandle) else None
    if declared is None:
        raise UserError(
            f"{stage!r} is not a tensorized stage",
            primitive="InferTensorizeRegion",
            fix="give s[C] after s[C].tensorize(axis, intrinsic)",
        )
    found = infer_bounds(stage.schedule.value)[stage.id]
    own = found.stage
    inner = own.loops[own.leaves.index(declared[0]) :]
    running = {loop.var: (const(0, loop.var.dtype), found.ranges[loop.axis].extent) for loop in inner}
    values = found.values

    def span(e: Expr) -> Range:
        ends = extremes(simplify(e, found.facts), running, found.facts)
        if ends is None:
            raise UserError(
                f"`{e}` has no bounds that can be found",
                primitive="InferTensorizeRegion",
                fix="read at sums of axes times constants",
            )
        return Range.from_min_extent(ends.lo, simplify(add(subtract(ends.hi, ends.lo), 1), found.facts))

    axes = {axis.var: cast(axis.var.dtype, values[axis]) for axis in own.roots}
    reads: _Map[Tensor] = _Map()
    for load in (e for e in post_order(*found.body) if isinstance(e, Load)):
        if isinstance(load.source, Tensor):
            reads.setdefault(load.source, [span(substitute(index, axes)) for index in load.indices])
    return _Map({axis: span(values[axis]) for axis in own.roots}), reads


def match_tensorize_body(stage: Any, out_dom: Any, in_dom: Any, intrin: Any) -> list[Expr]:
    """Return the values that the tensorized loops of a stage compute, in terms of the intrinsic's axes and inputs.

    Parameters
    ----------
    stage
        The stage: `s[C]`.
    out_dom, in_dom
        Accepted as in the legacy API.
    intrin
        The intrinsic that it was tensorized by.

    Raises
    ------
    UserError
        If the loops do not match the intrinsic's declaration.
    """
    declared = stage.value.declared if isinstance(stage, StageHandle) else None
    if declared is None or not isinstance(intrin, TensorIntrin) or declared[1] is not intrin:
        raise UserError(
            f"{stage!r} is not tensorized by {intrin!r}",
            primitive="MatchTensorizeBody",
            fix="give s[C], and the intrinsic given to s[C].tensorize(axis, intrinsic)",
        )
    ScheduleOps(stage.schedule)  # compares the two
    return list(intrin.op.values)


register_func("test.op.InferTensorizeRegion", infer_tensorize_region)
register_func("test.op.MatchTensorizeBody", match_tensorize_body)
