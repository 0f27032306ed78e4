"""as_product: a reduction of two tensors as a product of two matrices, which are views of the tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...arith.simplify import simplify
from ...core.errors import UserError
from ...expr.nodes import TRUE, Expr, IntImm, Load, Mul
from ...expr.operators import add, as_expr, floordiv, floormod, multiply
from ...expr.traverse import loads, rewrite, substitute, uses_any
from ...tensor.axis import AxisKind, IterVar, Range, extent_or
from ...tensor.reduction import Reduce, adds_from_zero
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import ComputeOp, Tensor
from ..legality import has_loops, names
from ..schedule import Schedule, Stage

Axes = tuple[IterVar, ...]


def as_product(
    schedule: Schedule, stage: Stage, batch: Sequence[IterVar], rows: Sequence[IterVar], columns: Sequence[IterVar],
    depth: Sequence[IterVar],
) -> tuple[Schedule, tuple[Tensor, Tensor, Tensor]]:  # fmt: skip
    """Compute a reduction as a product of matrices: its axes are rows, columns and the depth of the product.

        C[n, o, y] = sum(A[n, r, y + t] * W[o, r, t])     ->     C.left[i, k] = W[i, k // 3, k % 3]
                                                                 C.right[k, j] = A[j // 8, k // 3, j % 8 + k % 3]
                                                                 C.product[i, j] = sum(C.left[i, k] * C.right[k, j])
                                                                 C[n, o, y] = C.product[o, n * 8 + y]

    `rows=[o], columns=[n, y], depth=[r, t]`, the slowest axis first; `batch` are axes that both tensors follow. The
    left view follows the rows, the right one the columns. Their last dimension is the one along which neighbours lie
    together. Products of 16-bit floats are added up in float32. Returns the left view, the right view and the product,
    to be inlined, tiled or cached as any other stage.
    Raises UserError if the stage is not such a reduction, or if it has been scheduled already.
    """
    has_loops(stage, "as_product")
    groups = tuple(tuple(each) for each in (batch, rows, columns, depth))
    body = _checked(stage, groups)
    left, right = _factors(stage, body, groups)
    b, i, j, k = (_axis(name, group) for name, group in zip("bijk", groups, strict=True))
    values = {axis.var: e for new, group in zip((b, i, j, k), groups, strict=True) for axis, e in _parts(new, group)}
    before = (b,) if groups[0] else ()
    views: dict[Load, Load] = {}
    found: list[Tensor] = []
    for name, load, own, group in (("left", left, i, groups[1]), ("right", right, j, groups[2])):
        dims = (*before, k, own) if _lies_along(load, group) else (*before, own, k)
        made = tuple(IterVar(a.name, a.dom, AxisKind.DATA) for a in dims)
        there = {a.var: m.var for a, m in zip(dims, made, strict=True)}
        element = substitute(substitute(load, values), there)
        op = ComputeOp(f"{stage.name}.{name}", made, (element,), "")
        found.append(op.outputs[0])
        views[load] = Load(op.outputs[0], tuple(a.var for a in dims))
        schedule, _ = schedule.with_new_stage(op, before=stage.id)
    source = tuple(substitute(rewrite(e, lambda part: views.get(part, part)), values) for e in body.source)
    total = _in_float32(body, source, k)
    if total is None:
        total = Reduce(body.combiner.where(values), source, (k,), TRUE, 0, (), ())
    product = ComputeOp(f"{stage.name}.product", (*before, i, j), (total,), stage.op.tag)
    schedule, _ = schedule.with_new_stage(product, before=stage.id)
    place = [_flat(group) for group in groups[:3] if group is not groups[0] or group]
    value = as_expr(product.outputs[0](*place)).astype(str(body.source[0].dtype))
    out = ComputeOp(stage.op.name, stage.op.axis, (value,), "", stage.op.attrs)
    schedule = schedule.with_stage(replace(stage, op=out, leaves=out.axis, relations=(), annotations={}))
    return schedule, (found[0], found[1], product.outputs[0])


def _checked(stage: Stage, groups: tuple[Axes, ...]) -> Reduce:
    """Return the reduction of an untouched stage with the axes `groups`."""
    body = stage.op.values[0] if len(stage.op.values) == 1 else None
    plain = (
        isinstance(stage.op, ComputeOp) and isinstance(body, Reduce) and not stage.relations and not stage.annotations
    )
    if not plain or not isinstance(body, Reduce) or body.condition is not TRUE or body.init or body.ends:
        raise UserError(
            f"stage {stage.name!r} is not an unconditional reduction, or has been scheduled already",
            primitive="as_product",
            fix="call as_product first, on a stage such as te.sum(A[i, k] * B[k, j], axis=k)",
        )
    given = [axis for group in groups for axis in group]
    if len(set(given)) != len(given) or set(given) != set(stage.roots) or not set(groups[3]) <= set(body.axes):
        raise UserError(
            f"the groups name the axes {names(given)}, but stage {stage.name!r} has {names(stage.roots)}",
            primitive="as_product",
            fix="name each data axis once, as batch, rows or columns, and each reduction axis as depth",
        )
    strange = next((a for a in given if not _is_plain(a)), None)
    if strange is not None or not (groups[1] and groups[2] and groups[3]):
        raise UserError(
            f"axis {strange.name!r} does not count a constant number from 0"
            if strange is not None
            else "rows, columns or depth have no axis",
            primitive="as_product",
            fix="declare constant extents, and give at least one axis each for rows, columns and depth",
        )
    return body


def _is_plain(axis: IterVar) -> bool:
    dom = axis.dom
    return dom is not None and isinstance(dom.extent, IntImm) and isinstance(dom.min, IntImm) and dom.min.value == 0


def _factors(stage: Stage, body: Reduce, groups: tuple[Axes, ...]) -> tuple[Load, Load]:
    """The load that depends on the rows, and the load that depends on the columns."""
    rows, columns = ({axis.var for axis in group} for group in groups[1:3])
    read = [e for e in loads(*body.source) if isinstance(e.source, Tensor)]
    left = [e for e in read if uses_any(e, rows) and not uses_any(e, columns)]
    right = [e for e in read if uses_any(e, columns) and not uses_any(e, rows)]
    inside = {e for each in read for e in loads(*each.indices)}
    if len(left) != 1 or len(right) != 1 or len(read) != 2 or inside:
        raise UserError(
            f"stage {stage.name!r} does not read one element that follows the rows {names(groups[1])} and one that "
            f"follows the columns {names(groups[2])}",
            primitive="as_product",
            fix="group the axes as the two tensors read them",
        )
    bare = rewrite(body.source[0], lambda e: as_expr(0, e.dtype) if isinstance(e, Load) else e)
    if uses_any(bare, {axis.var for group in groups for axis in group}):
        raise UserError(
            f"the terms of stage {stage.name!r} depend on its axes directly, not only by the elements that they read",
            primitive="as_product",
            fix="compute such factors in a stage of their own",
        )
    return left[0], right[0]


def _in_float32(body: Reduce, source: tuple[Expr, ...], axis: IterVar) -> Expr | None:
    """The sum of products of 16-bit floats in float32, as matrix instructions add up; None for another reduction."""
    term = source[0]
    if (
        not adds_from_zero(body.combiner)
        or not isinstance(term, Mul)
        or not term.dtype.is_float
        or term.dtype.bits != 16
    ):
        return None
    left, right = term.a.astype("float32"), term.b.astype("float32")
    plain = isinstance(term.a, Load) and isinstance(term.b, Load)
    return reduce_sum(left * right, axis=[axis]) if plain else None


def _axis(name: str, group: Axes) -> IterVar:
    kind = AxisKind.REDUCE if name == "k" else AxisKind.DATA
    return IterVar(name, Range(as_expr(prod(extent_or(axis, 1) for axis in group), "int32")), kind)


def _parts(whole: IterVar, group: Axes) -> list[tuple[IterVar, Expr]]:
    """The values of the axes of a group; the last axis is the fastest."""
    found: list[tuple[IterVar, Expr]] = []
    below = 1
    for place, axis in enumerate(reversed(group)):
        value = floordiv(whole.var, below) if below > 1 else whole.var
        found.append((axis, floormod(value, extent_or(axis, 1)) if place < len(group) - 1 else value))
        below *= extent_or(axis, 1)
    return found


def _flat(group: Axes) -> Expr:
    value: Expr = as_expr(0, "int32")
    for axis in group:
        value = add(multiply(value, extent_or(axis, 1)), axis.var)
    return value


def _lies_along(load: Load, group: Axes) -> bool:
    """Whether neighbours in the last of the axes are neighbours in memory."""
    last = load.indices[-1] if load.indices else None
    return last is not None and uses_any(last, {group[-1].var}) and _steps_by_one(last, group[-1])


def _steps_by_one(index: Expr, axis: IterVar) -> bool:
    return bool(simplify(substitute(index, {axis.var: axis.var + 1}) - index) is as_expr(1, index.dtype))
