"""te.gradient: reverse-mode differentiation of a graph of `te.compute`s, an adjoint for each tensor.

The adjoint of a tensor A that B reads is a sum over the elements of B that read an element of A. Each term is the
element's adjoint times the slope there. These elements follow from equations between indices (`equations.py`), so the
adjoint is an ordinary `te.compute`. The adjoint of a convolution is a convolution; a matrix product has two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...arith.facts import EMPTY
from ...arith.simplify import simplify
from ...core.errors import UserError
from ...expr import nodes as n
from ...expr.nodes import Expr, Load, Var
from ...expr.operators import add, all_of, as_expr, cast, const, equal, if_then_else, multiply
from ...expr.traverse import post_order, substitute
from ..axis import AxisKind, IterVar, Range
from ..reduction import CommReducer, Reduce, adds
from ..reduction import sum as sum_of
from ..tensor import ComputeOp, Operation, PlaceholderOp, Tensor, compute, topological
from .derivative import Part, derivative
from .derivative import add as plus
from .equations import Equation, Solution, solve
from .selection import moved, moved_axes, selected


@dataclass(frozen=True)
class Adjoint:
    """The derivative of the output by a tensor, of shape prefix + that of the tensor; None stands for the identity."""

    tensor: Tensor | None
    prefix: tuple[Expr, ...]


def gradient(output: Any, inputs: Any, head: Any = None) -> list[Tensor]:
    """Declare the derivatives of a tensor by tensors that it is computed from.

    Parameters
    ----------
    output
        The tensor to differentiate, of a floating-point type.
    inputs
        The tensors to differentiate by, or one of them: inputs of the program, or intermediate tensors.
    head
        The adjoint of the output, which multiplies the derivatives, such as the gradient of a loss with respect to the
        output. Its shape is prefix + output.shape. Without one, it is the identity, and the derivatives are Jacobians
        of shape output.shape + input.shape.

    Returns
    -------
    One tensor for each input, of shape prefix + input.shape. If the output does not depend on it, it is zero.

    Raises
    ------
    UserError
        For types that are not floating-point, a head of another shape, and operations or functions with a derivative
        that is not known.

    Notes
    -----
    Reverse mode: adjoints are summed from the output to the inputs. Equations between indices are solved, so that sums
    run only over loops that the read leaves open. If a maximum has ties, one of them counts.
    """
    wanted = _inputs(inputs)
    if not isinstance(output, Tensor) or not output.dtype.is_float:
        shown = f"of type {output.dtype}" if isinstance(output, Tensor) else f"{output!r}"
        raise UserError(
            f"the output is {shown}, which has no gradient", primitive="gradient", fix="give a tensor of floats"
        )
    start = Adjoint(None, output.shape) if head is None else _head(output, head)
    order = [op for op in topological([output.op]) if not isinstance(op, PlaceholderOp)]
    useful = _depending(order, wanted)
    parts: dict[Tensor, list[Tensor]] = {}
    adjoints: dict[Tensor, Adjoint] = {output: start}
    for op in reversed(order):
        if op not in useful:
            continue
        for tensor in op.outputs:
            known = _total(tensor, parts.get(tensor, []), adjoints.get(tensor), start.prefix)
            if known is not None:
                adjoints[tensor] = known
                _spread(op, tensor, known, useful, wanted, parts)
    return [_result(t, output, adjoints, parts, start) for t in wanted]


def _inputs(inputs: Any) -> list[Tensor]:
    given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    for tensor in given:
        if not isinstance(tensor, Tensor) or not tensor.dtype.is_float:
            shown = f"{tensor.name!r} of type {tensor.dtype}" if isinstance(tensor, Tensor) else repr(tensor)
            raise UserError(
                f"the derivative by {shown} is asked for",
                primitive="gradient",
                fix="give tensors of floats, which have derivatives",
            )
    return given


def _head(output: Tensor, head: Any) -> Adjoint:
    rank = len(output.shape)
    shape = head.shape if isinstance(head, Tensor) else ()
    fits = isinstance(head, Tensor) and len(shape) >= rank and shape[len(shape) - rank :] == output.shape
    if not fits or head.dtype != output.dtype:
        shown = f"{head.dtype}{list(shape)}" if isinstance(head, Tensor) else repr(head)
        raise UserError(
            f"the head is {shown} for the output {output.name!r}, {output.dtype}{list(output.shape)}",
            primitive="gradient",
            fix="give a tensor of the output's type, with a shape that ends with the output's shape",
        )
    return Adjoint(head, shape[: len(shape) - rank])


def _depending(order: Sequence[Operation], wanted: Sequence[Tensor]) -> set[Operation]:
    """The operations that depend on one of the inputs."""
    found: set[Operation] = set()
    for op in order:
        if any(t in wanted or t.op in found for t in op.input_tensors):
            found.add(op)
    return found


def _total(tensor: Tensor, parts: list[Tensor], own: Adjoint | None, prefix: tuple[Expr, ...]) -> Adjoint | None:
    """The sum of a tensor's contributions; `own` is the contribution of the output itself."""
    if not parts:
        return own
    if own is not None:
        parts = [_identity(tensor, own) if own.tensor is None else own.tensor, *parts]
    return Adjoint(_summed(tensor, parts), prefix)


def _summed(tensor: Tensor, parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]

    def value(*indices: Var) -> Expr:
        made: Expr = parts[0](*indices)
        for part in parts[1:]:
            made = add(made, part(*indices))
        return made

    made: Tensor = compute(parts[0].shape, value, name=f"{tensor.name}.grad")
    return made


def _identity(tensor: Tensor, adjoint: Adjoint) -> Tensor:
    rank = len(tensor.shape)

    def value(*indices: Var) -> Expr:
        same = [equal(a, b) for a, b in zip(indices[:rank], indices[rank:], strict=True)]
        one, zero = const(1, tensor.dtype), const(0, tensor.dtype)
        return if_then_else(all_of(*same), one, zero) if same else one

    made: Tensor = compute((*adjoint.prefix, *tensor.shape), value, name=f"{tensor.name}.identity")
    return made


def _result(
    tensor: Tensor, output: Tensor, adjoints: dict[Tensor, Adjoint], parts: dict[Tensor, list[Tensor]], start: Adjoint
) -> Tensor:
    found = adjoints.get(tensor)
    if isinstance(tensor.op, PlaceholderOp) or found is None:
        found = _total(tensor, parts.get(tensor, []), start if tensor is output else None, start.prefix)
    if found is None:
        zero = const(0, tensor.dtype)
        made: Tensor = compute((*start.prefix, *tensor.shape), lambda *_: zero, name=f"{tensor.name}.grad")
        return made
    return _identity(tensor, found) if found.tensor is None else found.tensor


def _spread(
    op: Operation,
    tensor: Tensor,
    adjoint: Adjoint,
    useful: set[Operation],
    wanted: Sequence[Tensor],
    parts: dict[Tensor, list[Tensor]],
) -> None:
    """Add to the adjoints of an operation's operands."""
    if not isinstance(op, ComputeOp):
        raise UserError(
            f"the output depends on the inputs through {op.name!r}, a {_kind(op)} without a known derivative",
            primitive="gradient",
            fix=f"declare {op.name!r} with te.compute",
        )
    if not tensor.dtype.is_float:
        return
    body = op.body[tensor.value_index]
    exprs = [body] if not isinstance(body, Reduce) else [*body.source, *body.init]
    loads: list[Any] = [e for e in post_order(*exprs) if isinstance(e, Load) and isinstance(e.source, Tensor)]
    pairs = [(e, e.source) for e in dict.fromkeys(loads) if e.source in wanted or e.source.op in useful]
    for load, read in pairs:
        if read.dtype.is_float:
            made = _contribution(op, body, adjoint, load, read)
            if made is not None:
                alone = len(pairs) == 1 and tensor not in wanted
                parts.setdefault(read, []).append(selected(made) if alone else made)


def _kind(op: Operation) -> str:
    return {"ScanOp": "te.scan", "ExternOp": "te.extern", "ScriptOp": "te.hybrid.script"}.get(
        type(op).__name__, "stage"
    )


def _contribution(op: ComputeOp, body: Expr, adjoint: Adjoint, load: Load, read: Tensor) -> Tensor | None:
    """The contribution to `read` through one read of an operation; None if there is no contribution."""
    if isinstance(body, Reduce) and not adds(body.combiner):
        if body.init:
            raise UserError(
                f"the reduction of {op.name!r}, by {body.combiner.name}, starts at values of its own (init=)",
                primitive="gradient",
                fix="combine these values in a te.compute after the reduction",
            )
        return _through_combiner(op, body, adjoint, load, read)
    terms: list[tuple[Expr, Sequence[IterVar], Expr]] = [(body, (), n.TRUE)]
    if isinstance(body, Reduce):
        terms = [(body.source[0], body.axes, body.condition), *((e, (), n.TRUE) for e in body.init)]
    made = [_sum_over(op, e, axes, keep, adjoint, load, read) for e, axes, keep in terms]
    found = [part for part in made if part is not None]
    return _summed(read, found) if found else None


def _sum_over(
    op: ComputeOp, e: Expr, axes: Sequence[IterVar], keep: Expr, adjoint: Adjoint, load: Load, read: Tensor
) -> Tensor | None:
    """The sum of adjoint * slope over all that reads an element."""
    slope = derivative(e, load)
    if slope is None:
        return None
    unknowns = {axis.var: _range(axis) for axis in (*op.axis, *axes)}
    shape = (*adjoint.prefix, *read.shape)
    indices = tuple(IterVar(f"i{d}", Range(extent), AxisKind.DATA) for d, extent in enumerate(shape))
    prefix, at = indices[: len(adjoint.prefix)], indices[len(adjoint.prefix) :]
    equations = [Equation(i, axis.var) for i, axis in zip(load.indices, at, strict=True)]
    if adjoint.tensor is None:
        equations += [Equation(axis.var, p.var) for axis, p in zip(op.axis, prefix, strict=True)]
    solution = solve(equations, unknowns, {axis.var: _range(axis) for axis in indices})
    factor = slope
    if adjoint.tensor is not None:
        head = Load(adjoint.tensor, (*(p.var for p in prefix), *(axis.var for axis in op.axis)))
        factor = head if _is_one(slope) else multiply(head, slope)
    return _declared(read, indices, factor, keep, solution, unknowns)


def _declared(
    read: Tensor,
    indices: Sequence[IterVar],
    factor: Expr,
    keep: Expr,
    solution: Solution,
    unknowns: dict[Var, Range],
) -> Tensor:
    """A `te.compute` over `indices`: the sum of `factor` over the remaining unknowns, under its conditions."""
    left = _open_axes(solution, AxisKind.REDUCE)
    renamed: dict[Any, Expr] = {var: axis.var for var, axis in left.items()}
    values = {var: substitute(e, renamed) for var, e in solution.values.items()} | renamed
    conditions = [substitute(c, values) for c in solution.conditions]
    facts = EMPTY.bind_all({a.var: (_range(a).min, _range(a).extent) for a in (*indices, *left.values())})
    if keep is not n.TRUE:
        conditions.append(substitute(keep, values))
    for condition in conditions:
        facts = facts.assume(condition)
    made = simplify(substitute(factor, values), facts)
    if conditions:
        made = if_then_else(all_of(*conditions), made, const(0, made.dtype))
    if not left:
        return ComputeOp(f"{read.name}.grad", tuple(indices), (cast(read.dtype, made),)).outputs[0]
    sums = ComputeOp(f"{read.name}.grad", tuple(indices), (sum_of(made, axis=list(left.values())),)).outputs[0]
    if sums.dtype == read.dtype:
        return sums
    narrow: Tensor = compute(sums.shape, lambda *i: cast(read.dtype, sums(*i)), f"{read.name}.grad")
    return narrow


def _through_combiner(op: ComputeOp, body: Reduce, adjoint: Adjoint, load: Load, read: Tensor) -> Tensor | None:
    """Through a reduction of any kind: values and slopes are reduced together, a slope for each element that is read.

    Data axes that the read determines are solved for; the others are summed over by the adjoint.
    """
    slopes = [derivative(e, load) for e in body.source]
    if all(slope is None for slope in slopes):
        return None
    unknowns = {axis.var: _range(axis) for axis in op.axis}
    shape = (*adjoint.prefix, *read.shape)
    indices = tuple(IterVar(f"i{d}", Range(extent), AxisKind.DATA) for d, extent in enumerate(shape))
    prefix, at = indices[: len(adjoint.prefix)], indices[len(adjoint.prefix) :]
    reduced = {axis.var for axis in body.axes}
    own = [(i, axis) for i, axis in zip(load.indices, at, strict=True) if reduced.isdisjoint(_names(i))]
    rest = [(i, axis) for i, axis in zip(load.indices, at, strict=True) if not reduced.isdisjoint(_names(i))]
    equations = [Equation(i, axis.var) for i, axis in own]
    if adjoint.tensor is None:
        equations += [Equation(axis.var, p.var) for axis, p in zip(op.axis, prefix, strict=True)]
    solution = solve(equations, unknowns, {axis.var: _range(axis) for axis in indices})
    # The slopes: over the elements that are read and the axes that are left open.
    open_axes = _open_axes(solution, AxisKind.DATA)
    names: dict[Any, Expr] = {var: a.var for var, a in open_axes.items()}
    solved = {var: substitute(e, names) for var, e in solution.values.items()} | names
    inner = moved_axes(body, solved)
    names |= {var: a.var for var, a in inner.items()}
    values = {var: substitute(e, names) for var, e in solution.values.items()} | names
    hits = [equal(substitute(i, values), cast(i.dtype, axis.var)) for i, axis in rest]
    inside = [substitute(c, values) for c in solution.conditions]
    sources = [substitute(e, values) for e in body.source]
    source_slopes = [_under([*inside, *hits], slope, e, values) for slope, e in zip(slopes, body.source, strict=True)]
    if inside:
        sources = [if_then_else(all_of(*inside), e, z) for e, z in zip(sources, body.combiner.identity, strict=True)]
    combiner = _with_slopes(body.combiner)
    axes, keep = tuple(inner.values()), substitute(body.condition, values)
    count = len(sources)
    spans = [axis.dom for axis in axes if axis.dom is not None]
    ends = tuple(end for span in spans for end in (span.min, span.extent)) if len(spans) == len(axes) else ()
    reductions = tuple(Reduce(combiner, (*sources, *source_slopes), axes, keep, k, (), ends) for k in range(2 * count))
    data = (*(indices if adjoint.tensor is None else at), *open_axes.values())
    own_axes, bodies = _fresh(data, reductions)
    slope_op = ComputeOp(f"{read.name}.slope", tuple(own_axes), bodies)
    slope = slope_op.outputs[count + body.value_index]
    picked = Load(slope, tuple(axis.var for axis in data))
    factor: Expr = picked
    if adjoint.tensor is not None:
        place = {var: e for var, e in values.items() if var in unknowns}
        head = Load(adjoint.tensor, (*(p.var for p in prefix), *(place[axis.var] for axis in op.axis)))
        factor = multiply(head, picked)
    back = {axis.var: var for var, axis in open_axes.items()}
    final = Solution({}, [substitute(c, back) for c in inside], solution.free)
    return _declared(read, indices, substitute(factor, back), n.TRUE, final, unknowns)


def _open_axes(solution: Solution, kind: AxisKind) -> dict[Var, IterVar]:
    """Axes for the unknowns that the equations leave open, with their ranges in terms of each other and of the rest."""
    made: dict[Var, IterVar] = {}
    for var, span in solution.free.items():
        names = {old: axis.var for old, axis in made.items()}
        values = {old: substitute(e, names) for old, e in solution.values.items()} | names
        made[var] = IterVar(var.name, moved(span, values), kind)
    return made


def _fresh(data: Sequence[IterVar], bodies: tuple[Expr, ...]) -> tuple[list[IterVar], tuple[Expr, ...]]:
    """Return fresh axes for an operation, and its bodies in terms of them."""
    made = [IterVar(axis.name, axis.dom, AxisKind.DATA) for axis in data]
    mapping = {axis.var: new.var for axis, new in zip(data, made, strict=True)}
    return made, tuple(substitute(body, mapping) for body in bodies)


def _under(conditions: list[Expr], slope: Part, e: Expr, values: dict[Any, Expr]) -> Expr:
    zero = const(0, e.dtype) if e.dtype.is_float else const(0, "float32")
    if slope is None:
        return zero
    made = substitute(slope, values)
    return if_then_else(all_of(*conditions), made, zero) if conditions else made


def _with_slopes(combiner: CommReducer) -> CommReducer:
    """The reducer of values with slopes: the reducer of the values, and its derivative along the slopes."""

    def twins(given: tuple[Var, ...]) -> tuple[Var, ...]:
        return tuple(Var(f"{v.name}.slope", v.dtype if v.dtype.is_float else "float32") for v in given)

    left, right = twins(combiner.lhs), twins(combiner.rhs)
    results = []
    for e, own in zip(combiner.result, left, strict=True):
        total: Part = None
        for var, slope in zip((*combiner.lhs, *combiner.rhs), (*left, *right), strict=True):
            part = derivative(e, var)
            total = plus(total, None if part is None else slope if _is_one(part) else multiply(part, slope))
        results.append(total if total is not None else const(0, own.dtype))
    return CommReducer(
        f"{combiner.name}.slopes",
        (*combiner.lhs, *left),
        (*combiner.rhs, *right),
        (*combiner.result, *results),
        (*combiner.identity, *(const(0, v.dtype) for v in left)),
    )


def _names(e: Expr) -> set[Var]:
    return {x for x in post_order(e) if isinstance(x, Var)}


def _is_one(e: Expr) -> bool:
    return isinstance(e, n.FloatImm) and e.value == 1


def _range(axis: IterVar) -> Range:
    return axis.dom if axis.dom is not None else Range(as_expr(1))
