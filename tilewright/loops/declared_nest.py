"""The loop nest of a stage with innermost loops that a user's intrinsic computes."""

from __future__ import annotations

from math import prod
from typing import Any

from ..arith.interval import interval
from ..arith.simplify import prove_equal, simplify
from ..bounds.infer import StageBounds
from ..expr import nodes as n
from ..expr.operators import add, all_of, const, equal, floormod, subtract
from ..expr.traverse import rewrite, substitute, uses_any
from ..schedule.legality import names
from ..schedule.tensor_intrin import refuse
from ..tensor.axis import AxisKind, IterVar
from .match_declared import Box, BufferRegion, Matcher, assign, axis_terms, sizes_of
from .nodes import Buffer, If, Stmt, Store
from .stage_nest import NestContext, StageNest


class DeclaredNest(StageNest):
    """Puts the statements of an intrinsic in place of the tensorized loops.

    If the whole reduction is inside, the body is used. Otherwise, the reset replaces the store of first values, and the
    update runs in the loops of the reduction. Without a reset, the body computes the first iteration.
    """

    def __init__(self, builder: NestContext, found: StageBounds, bound: frozenset[n.Var]) -> None:
        super().__init__(builder, found, bound)
        assert found.stage.declared is not None
        axis, self.intrin = found.stage.declared
        self.start = self.end = self._check_loops(axis)
        inner = {loop.var for loop in self.loops[self.start :]}
        self.zero = {var: const(0, var.dtype) for var in inner}
        self._check_guards(inner)
        self.boxes = tuple(self._box(root, inner) for root in self.stage.roots)
        self.chosen = self._chosen()
        self.places = self._matched()
        self.bound_values = self._bound_values()
        if self.reduce_from is not None and self.reduce_from >= self.start:
            self.reduce_from = None

    # The requirements on the loops

    def _check_loops(self, axis: IterVar) -> int:
        stage, intrin = self.stage, self.intrin
        if axis not in stage.leaves:
            refuse(
                f"axis {axis.name!r} of stage {stage.name!r}, which was tensorized, is no longer a loop",
                f"call tensorize last, on one of the loops {names(stage.leaves)}",
            )
        start = stage.leaves.index(axis)
        for loop in self.loops[start:]:
            if loop.thread is not None:
                refuse(
                    f"axis {loop.axis.name!r} of stage {stage.name!r}, inside the tensorized {axis.name!r}, is bound "
                    f"to a thread index, and the intrinsic {intrin.name!r} runs in one thread",
                    f"reorder {loop.axis.name!r} outside of {axis.name!r}",
                )
            inside = self.builder.attached.get((stage.id, loop.axis), ())
            if inside:
                refuse(
                    f"stage {inside[0].stage.name!r} is computed at {loop.axis.name!r}, inside the tensorized "
                    f"{axis.name!r} of stage {stage.name!r}",
                    f"compute {inside[0].stage.name!r} at a loop outside of {axis.name!r}",
                )
            if not isinstance(self.found.ranges[loop.axis].extent, n.IntImm):
                refuse(
                    f"axis {loop.axis.name!r} of stage {stage.name!r} has the extent "
                    f"`{self.found.ranges[loop.axis].extent}`, which is not constant",
                    "split the axis by a constant factor outside of the tensorized loops",
                )
        if stage.store_predicate is not None:
            refuse(
                f"stage {stage.name!r} is stored under a condition, and the intrinsic {intrin.name!r} stores all",
                "leave set_store_predicate out",
            )
        return start

    def _check_guards(self, inner: set[n.Var]) -> None:
        for guard in self.guards:
            if uses_any(guard, inner):
                refuse(
                    f"the tensorized loops of stage {self.stage.name!r} exceed the range of their axes: elements "
                    f"need the guard `{guard}`",
                    "split by factors that divide the axes, or pad the tensors",
                )

    def _box(self, root: IterVar, inner: set[n.Var]) -> Box:
        """The range of an axis inside, from its value at the beginning of the inner loops."""
        facts = self.found.facts
        value = self.values[root]
        start = simplify(substitute(value, self.zero), facts)
        step = interval(simplify(subtract(value, start), facts), facts)
        if not uses_any(value, inner):
            return Box(root, start, 1)
        most = step.hi + 1 if step.lo == 0 else 0
        return Box(root, start, int(most) if most < 1 << 31 else 0)

    def _chosen(self) -> dict[IterVar, IterVar]:
        """The axis of the intrinsic that runs over each axis of the stage; checks that the loops run over a box of
        these axes.
        """
        op, chosen = self.intrin.op, {}
        for kind, axes in ((AxisKind.DATA, op.axis), (AxisKind.REDUCE, op.reduce_axis)):
            boxes = [box for box in self.boxes if (box.axis.kind is AxisKind.REDUCE) == (kind is AxisKind.REDUCE)]
            loops = [
                x for x in self.loops[self.start :] if (x.axis.kind is AxisKind.REDUCE) == (kind is AxisKind.REDUCE)
            ]
            ran = prod(int(self.found.ranges[loop.axis].extent) for loop in loops)
            if ran != prod(box.extent for box in boxes):
                refuse(
                    f"the tensorized loops {names([x.axis for x in loops])} of stage {self.stage.name!r} do not run "
                    f"over a box of its axes {names([box.axis for box in boxes])}",
                    "tensorize loops that split whole axes: every loop of a fused axis inside, or outside",
                )
            chosen.update(assign(self.stage.name, self.intrin, boxes, axes))
        return chosen

    # The places of the intrinsic's buffers

    def _matched(self) -> dict[Buffer, BufferRegion]:
        op = self.intrin.op
        free = tuple(axis.var for axis in (*op.axis, *op.reduce_axis))
        facts = self.found.facts
        sizes = sizes_of(self.stage.name, self.intrin, self.boxes, self.chosen)
        for axis in (*op.axis, *op.reduce_axis):
            assert axis.dom is not None
            facts = facts.bind(axis.var, axis.dom.min, substitute(axis.dom.extent, sizes))
        matcher = Matcher(self.stage.name, self.intrin, self._read, facts, free)
        matcher.match(self.found.body, axis_terms(self.boxes, self.chosen), sizes)
        self.given = matcher.scalars | sizes
        count = len(op.input_tensors)
        places: dict[Buffer, BufferRegion] = {}
        for tensor, buffer in zip(op.input_tensors, self.intrin.buffers[:count], strict=True):
            places[buffer] = matcher.places[tensor]
        order = {axis: d for d, axis in enumerate(self.stage.op.axis)}
        theirs = {intrinsic: axis for axis, intrinsic in self.chosen.items()}
        along = tuple(order[theirs[axis]] for axis in op.axis)
        for k, buffer in enumerate(self.intrin.buffers[count:]):
            held, indices = self._place(k)
            origin = tuple(simplify(substitute(e, self.zero), self.found.facts) for e in indices)
            places[buffer] = BufferRegion(held, origin, along)
        return places

    def _bound_values(self) -> dict[n.Var, n.Expr]:
        """The strides and offsets that the buffers of the intrinsic leave open."""
        values: dict[n.Var, n.Expr] = dict(self.given)
        for buffer, place in self.places.items():
            held = place.buffer
            if buffer.dtype != held.dtype:
                refuse(
                    f"buffer {buffer.name!r} of the intrinsic {self.intrin.name!r} has elements of {buffer.dtype}, but "
                    f"represents a region of {held.name!r}, of {held.dtype}",
                    f'declare it with dtype="{held.dtype}"',
                )
            own, theirs = buffer.strides, held.strides
            for dimension, d in enumerate(place.along):
                size = substitute(buffer.shape[dimension], values)
                if not (isinstance(size, n.IntImm) and size.value == 1):
                    self._bind(values, own[dimension], theirs[d], buffer, place, f"stride {dimension}")
            offset = simplify(held.layout.offset(held.shape, place.origin), self.found.facts)
            self._bind(values, buffer.elem_offset, offset, buffer, place, "elem_offset")
        return values

    def _bind(
        self,
        values: dict[n.Var, n.Expr],
        declared: n.Expr,
        actual: n.Expr,
        buffer: Buffer,
        place: BufferRegion,
        what: str,
    ) -> None:
        if isinstance(declared, n.Var) and declared not in values:
            step = declared.known.multiple_of
            if step > 1 and not prove_equal(simplify(floormod(actual, step), self.found.facts), const(0, actual.dtype)):
                self._mismatch(buffer, place, what, f"a multiple of {step}", actual)
            values[declared] = actual
            return
        expected = substitute(declared, values)
        if not prove_equal(simplify(expected, self.found.facts), simplify(actual, self.found.facts)):
            self._mismatch(buffer, place, what, f"`{expected}`", actual)

    def _mismatch(self, buffer: Buffer, place: BufferRegion, what: str, expected: str, actual: n.Expr) -> None:
        region = ", ".join(str(e) for e in place.origin)
        refuse(
            f"buffer {buffer.name!r} of the intrinsic {self.intrin.name!r} has {what} = {expected}, but the region "
            f"that it represents, of {place.buffer.name!r} from [{region}] on, has `{actual}`",
            "declare the buffer with offset_factor=1"
            if what == "elem_offset"
            else 'declare the buffer with a variable in that place: strides=[te.var("s"), 1]',
        )

    # Statements

    def _nest(self, depth: int, bound: frozenset[n.Var]) -> Stmt:
        if depth == self.reduce_from and self.intrin.reset is None:
            return self._with_ends(depth, self._update(depth, bound))
        return super()._nest(depth, bound)

    def _update(self, depth: int, bound: frozenset[n.Var]) -> Stmt:
        if depth != self.start:
            return super()._update(depth, bound)
        intrin = self.intrin
        if self.reduce_from is None:
            made = self._statement(intrin.body, "a body, which computes a whole reduction")
        else:
            made = self._statement(intrin.update, "an update, which adds to the results of earlier iterations")
            if intrin.reset is None:
                outside = [x.var for x in self.loops[: self.start] if x.axis.kind is AxisKind.REDUCE]
                first = all_of(*(equal(var, const(0, var.dtype)) for var in outside))
                made = If(first, self._statement(intrin.body, "a reset, or a body for the first iteration"), made)
        return self._guarded(made, self.guards)

    def _first_stores(self) -> Stmt:
        return self._statement(self.intrin.reset, "a reset")

    def _statement(self, stmt: Any, role: str) -> Stmt:
        """A statement of the intrinsic on the regions that its buffers stand for."""
        if stmt is None:
            refuse(
                f"the reduction of stage {self.stage.name!r} goes on outside of the tensorized loops"
                if self.reduce_from is not None
                else f"the whole of stage {self.stage.name!r} is inside the tensorized loops",
                f"the intrinsic {self.intrin.name!r} needs {role}: return (body, reset, update) from its fcompute",
            )
        made: Stmt = rewrite(substitute(stmt, self.bound_values), self._on_regions)
        return made

    def _on_regions(self, node: Any) -> Any:
        if isinstance(node, n.Load) and node.source in self.places:
            return n.Load(*self._at(self.places[node.source], node.indices))
        if isinstance(node, Store) and node.buffer in self.places:
            return Store(*self._at(self.places[node.buffer], node.indices), node.value)
        return node

    def _at(self, place: BufferRegion, indices: tuple[n.Expr, ...]) -> tuple[Buffer, tuple[n.Expr, ...]]:
        full = list(place.origin)
        for d, index in zip(place.along, indices, strict=True):
            full[d] = _plus(full[d], index)
        return place.buffer, tuple(full)


def _plus(origin: n.Expr, index: n.Expr) -> n.Expr:
    if isinstance(index, n.Ramp):
        return n.Ramp(add(origin, index.base), index.stride, index.lanes)
    return add(origin, index)
