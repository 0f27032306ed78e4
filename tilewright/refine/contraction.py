"""The innermost loops of a stage in contraction form: which of its axes are rows, columns and terms of a product.

D[rows, columns] = sum over depth of a[rows, depth] * b[depth, columns]. Each operand is a load, perhaps converted. The
role of an axis follows from its operands: rows in `a` and D, columns in `b` and D, depth in both operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..arith.affine import Affine
from ..arith.simplify import simplify
from ..bounds.infer import Bounds, StageBounds
from ..bounds.nest import index_values
from ..bounds.stage_bounds import StageContraction
from ..core.atoms import Atom
from ..core.hardware import MemoryScope
from ..core.target import Target
from ..expr.nodes import TRUE, Cast, Expr, IntImm, Load, Mul, Var
from ..expr.operators import cast, const, subtract
from ..expr.traverse import substitute, uses_any
from ..schedule.legality import names
from ..schedule.schedule import At, Schedule, Stage
from ..schedule.tensor_intrin import refuse
from ..tensor.axis import AxisKind, IterVar
from ..tensor.reduction import Reduce, adds
from ..tensor.tensor import Tensor

NO_DIGITS: Mapping[Var, Expr] = {}


def extent(found: StageBounds, axis: IterVar) -> int:
    """The constant extent of a loop inside a tensorized one."""
    value = found.ranges[axis].extent
    if not isinstance(value, IntImm):
        refuse(
            f"axis {axis.name!r} of stage {found.stage.name!r} has the extent `{value}`, which is not constant",
            "split the axis by a constant factor outside of the tensorized loops",
        )
    return value.value


def check_hardware(target: Target, found: StageBounds, atom: Atom) -> None:
    """Check that the GPU has the instruction: other code would be far from the schedule's intent."""
    if target.kind == atom.target == "cuda" and not atom.runs_on(target.hardware):
        refuse(
            f"{target.hardware.name} lacks the matrix instruction {atom.instruction} of stage {found.stage.name!r}",
            "build for a newer GPU, or leave tensorize out",
        )


def contraction(schedule: Schedule, bounds: Bounds, found: StageBounds) -> StageContraction:
    """Return the contraction that a tensorized stage computes; UserError if the atom does not compute its loops."""
    stage = found.stage
    assert stage.tensorized is not None
    axis, atom = stage.tensorized
    inner = _inner_loops(schedule, found, axis, atom)
    a, b = _operands(found, atom)
    for operand in () if atom.by_thread else (a, b):
        _check_staged(schedule, bounds, operand, stage)
    roots = {root.var: cast(root.var.dtype, found.values[root]) for root in stage.roots}
    in_a, in_b = ({x for x in inner if _depends(operand, roots, x, found)} for operand in (a, b))
    data = [x for x in inner if x.kind is not AxisKind.REDUCE]
    depth = [x for x in inner if x.kind is AxisKind.REDUCE]
    for x in (*data, *depth):
        _check_role(x, stage, x in in_a, x in in_b, (a, b))
    rows, columns = [x for x in data if x in in_a], [x for x in data if x in in_b]
    ordered = not columns if atom.by_thread and len(rows) + len(columns) < 2 else False
    if ordered or (rows and columns and _order(found, rows[-1]) > _order(found, columns[-1])):
        a, b, rows, columns = b, a, columns, rows  # columns are the dimension in which neighbours are stored
    for role, axes, step in (("rows", rows, atom.m), ("columns", columns, atom.n), ("terms", depth, atom.k)):
        size = prod(extent(found, x) for x in axes)
        if size % step or not (axes or atom.by_thread):
            refuse(
                f"the tensorized loops of stage {stage.name!r} have {size} {role} ({names(axes)}), but "
                f"{atom.name} computes multiples of {step}",
                f"split so that the loops inside {axis.name!r} that count {role} have a multiple of {step} iterations",
            )
    return StageContraction(atom, stage, found.ranges, tuple(rows), tuple(columns), tuple(depth), a, b)


def _inner_loops(schedule: Schedule, found: StageBounds, axis: IterVar, atom: Atom) -> list[IterVar]:
    """The tensorized loops of more than one iteration."""
    stage = found.stage
    if axis not in stage.leaves:
        refuse(
            f"axis {axis.name!r} of stage {stage.name!r}, which was tensorized, is no longer a loop",
            f"call tensorize last, on one of the loops {names(stage.leaves)}",
        )
    inner = stage.leaves[stage.leaves.index(axis) :]
    for x in inner:
        bound = stage.annotation(x).thread
        if bound is not None:
            owner = "one thread executes" if atom.by_thread else "all lanes of a warp execute"
            refuse(
                f"axis {x.name!r} of stage {stage.name!r}, inside the tensorized {axis.name!r}, is bound to "
                f"{bound.thread_tag}, but {owner} {atom.name}",
                f"leave {x.name!r} unbound, or reorder it outside of {axis.name!r}"
                + ("" if atom.by_thread else "; bind warps to threadIdx.y and z"),
            )
    for other in schedule.in_order():
        place = other.placement
        if isinstance(place, At) and place.stage == stage.id and place.axis in inner:
            refuse(
                f"stage {other.name!r} is computed at {place.axis.name!r}, inside the tensorized {axis.name!r} of "
                f"stage {stage.name!r}",
                f"compute {other.name!r} at a loop outside of {axis.name!r}",
            )
    return [x for x in inner if extent(found, x) != 1]


def _operands(found: StageBounds, atom: Atom) -> tuple[Load, Load]:
    """Return the two loads of the product that the stage sums up."""
    stage, body = found.stage, found.body[0]
    kinds = f"{atom.operands} each" if not atom.second else " and ".join(atom.types)
    wanted = f"te.sum of a product of two loads, of {kinds}, in {atom.accumulator}"
    if not isinstance(body, Reduce) or len(body.source) != 1:
        refuse(f"stage {stage.name!r} does not compute one sum", f"declare {wanted}")
    combiner, product = body.combiner, body.source[0]
    if not adds(combiner) or body.condition is not TRUE or stage.store_predicate is not None:
        refuse(f"stage {stage.name!r} reduces by {combiner.name} or under a condition", f"declare {wanted}")
    while isinstance(product, Cast):
        product = product.value
    factors = (product.a, product.b) if isinstance(product, Mul) else ()
    loads = [factor.value if isinstance(factor, Cast) else factor for factor in factors]
    a, b = (x if isinstance(x, Load) else None for x in loads) if loads else (None, None)
    if a is None or b is None or a is b:
        shown = str(product) if len(str(product)) <= 80 else "something else"
        refuse(
            f"the terms of stage {stage.name!r} are `{shown}`, but {atom.name} sums products of two loads",
            "stage the computed operand: s.cache_read(T, 'shared', [D]) makes a load of an inlined T",
        )
    types = (str(a.dtype), str(b.dtype), str(stage.op.outputs[0].dtype))
    if sorted(types[:2]) != sorted(atom.types) or types[2] != atom.accumulator:
        refuse(
            f"stage {stage.name!r} multiplies {types[0]} by {types[1]} and sums in {types[2]}, but {atom.name} takes "
            f"{' and '.join(dict.fromkeys(atom.types))} and sums in {atom.accumulator}",
            f"declare {wanted}, or take the atom of these types",
        )
    return a, b


def _check_staged(schedule: Schedule, bounds: Bounds, operand: Load, stage: Stage) -> None:
    """Check that an operand lies in shared memory, which all lanes of the warp read."""
    assert isinstance(operand.source, Tensor)
    held = bounds.get(schedule.stage_of[operand.source.op])
    if held is None or held.scope is not MemoryScope.SHARED:
        name = operand.source.name
        where = "global" if held is None else held.scope.value
        refuse(
            f"the operand {name!r} of stage {stage.name!r} is in {where} memory, but the lanes of a warp read "
            "tiles in shared memory",
            f"s.cache_read({name}, 'shared', [{stage.name}]), computed at a loop of {stage.name!r} outside of the "
            "tensorized ones",
        )


def local_indices(
    operand: Load, found: StageBounds, held: StageBounds | None, digits: Mapping[Var, Expr] = NO_DIGITS
) -> list[Affine]:
    """The indices of an operand within the stored part of it, as forms of the loops of its reader.

    An argument of the kernel is not held, but there as a whole. `digits` stand for loops of the reader.
    """
    value_of = index_values(found.stage, found.ranges, found.facts)
    assert isinstance(operand.source, Tensor)
    mins = [const(0, i.dtype) for i in operand.indices] if held is None else [part.min for part in held.region]
    return [
        Affine.of(simplify(substitute(subtract(value_of(index), low), digits), found.facts))
        for index, low in zip(operand.indices, mins, strict=True)
    ]


def _depends(operand: Load, roots: dict[Var, Expr], axis: IterVar, found: StageBounds) -> bool:
    indices = [simplify(substitute(index, roots), found.facts) for index in operand.indices]
    return any(uses_any(index, (axis.var,)) for index in indices)


def _order(found: StageBounds, axis: IterVar) -> int:
    """The last dimension of the result that a loop runs over."""
    places = [i for i, root in enumerate(found.stage.op.axis) if uses_any(found.values[root], (axis.var,))]
    return max(places, default=-1)


def _check_role(axis: IterVar, stage: Stage, in_a: bool, in_b: bool, operands: tuple[Load, Load]) -> None:
    shown = " and ".join(repr(load.source.name) for load in operands)
    name = f"axis {axis.name!r} of stage {stage.name!r}"
    if axis.kind is AxisKind.REDUCE and not (in_a and in_b):
        refuse(f"{name} is summed over, but does not index both {shown}", "reorder it outside of the tensorized loops")
    if axis.kind is not AxisKind.REDUCE and in_a and in_b:
        refuse(
            f"{name} indexes both {shown}: every iteration is a separate product",
            "reorder it outside of the tensorized loops",
        )
    if axis.kind is not AxisKind.REDUCE and not (in_a or in_b):
        refuse(f"{name} indexes neither {shown}", "reorder it outside of the tensorized loops")
