"""Matching of declared intrinsics: whether the loops of a stage match the computation of an intrinsic, and on which
regions.

Both bodies are brought to the same variables. An axis of the stage is the beginning of its region plus the axis of the
intrinsic that runs over it. Then the two must be the same expression, up to the tensors that they load from. Each
tensor of the intrinsic stands for the region that the stage loads in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..arith.facts import Facts
from ..arith.simplify import prove_equal, simplify
from ..expr import nodes as n
from ..expr.operators import as_expr, cast, const, subtract
from ..expr.traverse import substitute, uses_any
from ..schedule.tensor_intrin import TensorIntrin, refuse
from ..tensor.axis import IterVar
from ..tensor.reduction import Reduce
from ..tensor.tensor import ComputeOp, Tensor
from .storage import Buffer

Sizes = dict[n.Var, n.Expr]
_COMMUTE = (n.Add, n.Mul, n.Min, n.Max, n.And, n.Or, n.EQ, n.NE)


@dataclass(frozen=True)
class Box:
    """The values of an axis of the stage within the tensorized loops: `extent` values from `min` on."""

    axis: IterVar
    min: n.Expr
    extent: int


@dataclass(frozen=True)
class BufferRegion:
    """A region of a buffer: it begins at `origin`, and runs over the dimensions `along`."""

    buffer: Buffer
    origin: tuple[n.Expr, ...]
    along: tuple[int, ...]


def assign(name: str, intrin: TensorIntrin, boxes: Sequence[Box], axes: Sequence[IterVar]) -> dict[IterVar, IterVar]:
    """The axis of the stage that each axis of the intrinsic runs over: the last ones, or the axes of more than one
    value."""
    wanted = [_extent(axis) for axis in axes]
    first = len(boxes) - len(axes)
    chosen = list(boxes[first:]) if first >= 0 else []
    if not _fit(chosen, wanted) or any(box.extent != 1 for box in boxes[: max(first, 0)]):
        chosen = [box for box in boxes if box.extent != 1]
    found = ", ".join(f"{box.axis.name}: {box.extent}" for box in boxes) or "none"
    expected = ", ".join(f"{axis.name}: {axis.dom.extent if axis.dom else ''}" for axis in axes) or "none"
    regions = f"the regions of the stage are ({found}), the regions of the intrinsic ({expected})"
    if len(chosen) != len(axes):
        refuse(
            f"stage {name!r} has {len(chosen)} axes of more than one value inside the tensorized loops, the intrinsic "
            f"{intrin.name!r} has {len(axes)}; {regions}",
            "tensorize a loop around exactly the axes that the intrinsic has",
        )
    for box, axis, extent in zip(chosen, axes, wanted, strict=False):
        if extent not in (None, box.extent):
            refuse(
                f"axis {box.axis.name!r} of stage {name!r} runs over {box.extent} values inside the tensorized loops, "
                f"axis {axis.name!r} of the intrinsic {intrin.name!r} over {extent}; {regions}",
                f"split so that the tensorized loops run over {extent} values of {box.axis.name!r}",
            )
    return {box.axis: axis for box, axis in zip(chosen, axes, strict=True)}


def _fit(boxes: Sequence[Box], wanted: Sequence[int | None]) -> bool:
    return len(boxes) == len(wanted) and all(e in (None, box.extent) for box, e in zip(boxes, wanted, strict=True))


def _extent(axis: IterVar) -> int | None:
    """The values of an axis of an intrinsic; None if each use gives their number."""
    size = axis.dom.extent if axis.dom is not None else None
    if isinstance(size, n.Var):
        return None
    if not isinstance(size, n.IntImm):
        refuse(f"axis {axis.name!r} of an intrinsic has the extent {size}", "declare it with a constant or a variable")
    return size.value


def sizes_of(stage: str, intrin: TensorIntrin, boxes: Sequence[Box], chosen: dict[IterVar, IterVar]) -> Sizes:
    """The values of the intrinsic's axis extents that are variables."""
    found: Sizes = {}
    for box in boxes:
        axis = chosen.get(box.axis)
        size = axis.dom.extent if axis is not None and axis.dom is not None else None
        if isinstance(size, n.Var):
            value = found.setdefault(size, const(box.extent, size.dtype))
            if value != const(box.extent, size.dtype):
                refuse(
                    f"axis {box.axis.name!r} of stage {stage!r} runs over {box.extent} values, but {size.name!r} of "
                    f"the intrinsic {intrin.name!r} is {value} along another axis",
                    f"split so that the tensorized loops run over {value} values of {box.axis.name!r}",
                )
    return found


@dataclass
class Matcher:
    """Compares the body of a stage with that of an intrinsic.

    `read` gives the buffer and the indices at which a stage reads an element of a tensor.
    """

    name: str
    intrin: TensorIntrin
    read: Callable[[Tensor, tuple[n.Expr, ...]], n.Expr]
    facts: Facts
    free: tuple[n.Var, ...] = ()
    """The axes of the intrinsic."""
    places: dict[Tensor, BufferRegion] = field(default_factory=dict)
    """The place of each tensor of the intrinsic."""
    scalars: dict[n.Var, n.Expr] = field(default_factory=dict)
    """The values of the intrinsic's scalar parameters."""

    def match(self, body: Sequence[n.Expr], values: dict[n.Var, n.Expr], sizes: Sizes) -> None:
        """Match all values of an element; `values`: the axes of the stage, in terms of the intrinsic's axes."""
        op = self.intrin.op
        assert isinstance(op, ComputeOp)
        for ours, theirs in zip(body, (substitute(e, sizes) for e in op.body), strict=True):
            if isinstance(ours, Reduce) != isinstance(theirs, Reduce):
                self._differ(ours, theirs, "one of them is a reduction")
            if isinstance(ours, Reduce) and isinstance(theirs, Reduce):
                self._reduction(ours, theirs, values)
            else:
                self._same(substitute(ours, values), theirs, ours, theirs)

    def _reduction(self, ours: Reduce, theirs: Reduce, values: dict[n.Var, n.Expr]) -> None:
        mine, other = ours.combiner, theirs.combiner
        renamed = dict(zip((*mine.lhs, *mine.rhs), (*other.lhs, *other.rhs), strict=False))
        alike = len(mine.lhs) == len(other.lhs) and all(
            substitute(a, renamed) is b and c is d
            for a, b, c, d in zip(mine.result, other.result, mine.identity, other.identity, strict=True)
        )
        if not alike or ours.init or theirs.init:
            self._differ(ours, theirs, "they reduce in different ways, or from different first values")
        self._same(substitute(ours.condition, values), theirs.condition, ours, theirs)
        for a, b in zip(ours.source, theirs.source, strict=True):
            self._same(substitute(a, values), b, ours, theirs)

    def _same(self, ours: n.Expr, theirs: n.Expr, all_ours: n.Expr, all_theirs: n.Expr) -> None:
        if not self._equal(ours, theirs):
            self._differ(all_ours, all_theirs)

    def _differ(self, ours: n.Expr, theirs: n.Expr, why: str = "") -> NoReturn:
        refuse(
            f"stage {self.name!r} computes `{_shown(ours)}`, but the intrinsic {self.intrin.name!r} computes "
            f"`{_shown(theirs)}`" + (f": {why}" if why else ""),
            "declare the intrinsic by the same expression, with the axes in the same order, and inputs and outputs of "
            "the same types",
        )

    def _equal(self, ours: Any, theirs: Any) -> bool:
        """Whether two expressions are equal except for loads; a choice that evaluates one branch equals one of both."""
        if isinstance(ours, n.Call) and ours.name == "likely":
            ours = ours.args[0]
        if isinstance(theirs, n.Load) and isinstance(theirs.source, Tensor):
            return isinstance(ours, n.Load) and self._loads_alike(ours, theirs)
        if ours is theirs and not _loads(theirs):  # each load of an intrinsic has a place
            return True
        if ours.dtype != theirs.dtype:
            return False
        if theirs in self.intrin.scalar_params:
            return self._stands_for(theirs, ours)
        given = not _loads(theirs) and not uses_any(theirs, self.intrin.scalar_params)
        if ours.dtype.is_int and not _loads(ours) and given:
            return prove_equal(simplify(ours, self.facts), simplify(theirs, self.facts))
        chosen = isinstance(ours, n.IfThenElse) and isinstance(theirs, n.Select)
        if (type(ours) is not type(theirs) and not chosen) or getattr(ours, "name", None) != getattr(
            theirs, "name", None
        ):
            return False
        mine, other = ours.children(), theirs.children()
        if len(mine) != len(other) or not mine:
            return False
        places, scalars = dict(self.places), dict(self.scalars)
        if all(map(self._equal, mine, other)):
            return True
        self.places, self.scalars = places, scalars
        return isinstance(ours, _COMMUTE) and all(map(self._equal, reversed(mine), other))

    def _stands_for(self, scalar: n.Var, value: n.Expr) -> bool:
        """Whether a scalar of the intrinsic can be the value, which must be the same for all its elements."""
        known = self.scalars.setdefault(scalar, value)
        return known is value and not uses_any(value, self.free) and not _loads(value)

    def _loads_alike(self, ours: n.Load, theirs: n.Load) -> bool:
        source: Any = ours.source
        tensor: Any = theirs.source
        if not isinstance(source, Tensor) or source.dtype != tensor.dtype:
            return False
        held = self.read(source, ours.indices)
        if not isinstance(held, n.Load) or not isinstance(held.source, Buffer):
            return False
        place = self._place(held.source, held.indices, theirs.indices)
        if place is None:
            return False
        known = self.places.setdefault(tensor, place)
        return (
            known.buffer is place.buffer
            and known.along == place.along
            and all(
                prove_equal(simplify(a, self.facts), simplify(b, self.facts))
                for a, b in zip(known.origin, place.origin, strict=True)
            )
        )

    def _place(self, buffer: Buffer, ours: tuple[n.Expr, ...], theirs: tuple[n.Expr, ...]) -> BufferRegion | None:
        """The region of a tensor of the intrinsic; None if its elements do not lie along dimensions."""
        zero = {var: const(0, var.dtype) for var in self.free}
        steps = [simplify(subtract(index, substitute(index, zero)), self.facts) for index in ours]
        moving = tuple(d for d, step in enumerate(steps) if uses_any(step, self.free))
        last = tuple(range(len(ours) - len(theirs), len(ours)))
        along = last if set(moving) <= set(last) and last[:1] >= (0,) else moving
        if len(along) != len(theirs) or any(d < 0 for d in along):
            return None
        origin = [substitute(index, zero) for index in ours]
        for d, index in zip(along, theirs, strict=True):
            origin[d] = subtract(origin[d], substitute(index, zero))
            if not prove_equal(simplify(subtract(ours[d], origin[d]), self.facts), simplify(index, self.facts)):
                return None
        return BufferRegion(buffer, tuple(simplify(e, self.facts) for e in origin), along)


def _loads(e: n.Expr) -> bool:
    return isinstance(e, n.Load) or any(map(_loads, e.children()))


def _shown(e: n.Expr) -> str:
    return str(e.source[0] if isinstance(e, Reduce) and len(e.source) == 1 else e)


def axis_terms(boxes: Sequence[Box], chosen: dict[IterVar, IterVar]) -> dict[n.Var, n.Expr]:
    """The axes of the stage in terms of the intrinsic's axes."""
    terms: dict[n.Var, n.Expr] = {}
    for box in boxes:
        start = cast(box.axis.var.dtype, box.min)
        axis = chosen.get(box.axis)
        terms[box.axis.var] = start if axis is None else start + cast(box.axis.var.dtype, as_expr(axis.var))
    return terms
