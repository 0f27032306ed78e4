"""The loop nest of one stage: its leaf loops around a guarded store.

A reduction first stores its identity, in loops of its own from the outermost reduction loop inwards. The passes of
`passes/pass_list.py` take the nest from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Protocol

from ..arith.simplify import prove, simplify
from ..bounds.guards import domain_guards, relation_guards
from ..bounds.infer import Bounds, StageBounds, bounds_of_first_values
from ..bounds.nest import Loop, index_values
from ..core.errors import UserError
from ..core.hardware import LoopKind
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import all_of, cast, const, if_then_else, is_const, likely, subtract
from ..expr.traverse import loads, post_order, rewrite_from, substitute, uses_any, variables
from ..schedule.guarded_reads import guarded_axes
from ..schedule.schedule import At, Schedule
from ..tensor.axis import AxisKind, IterVar
from ..tensor.extern import ExternOp
from ..tensor.reduction import Reduce
from ..tensor.tensor import Tensor
from .nodes import Buffer, For, If, Let, Stmt, Store, seq
from .prefetching import ahead, asked_ahead, check_there, prefetched, read_within, region_read
from .rolling import Rolling


class NestContext(Protocol):
    """The properties of the whole function that a stage's nest needs."""

    @property
    def schedule(self) -> Schedule: ...
    @property
    def bounds(self) -> Bounds: ...
    @property
    def buffers(self) -> Mapping[tuple[int, int], Buffer]: ...
    @property
    def whole(self) -> Set[Buffer]: ...
    @property
    def sizes(self) -> Set[Var]: ...
    @property
    def attached(self) -> Mapping[tuple[int, IterVar], Sequence[StageBounds]]: ...

    @property
    def rolling(self) -> Mapping[int, Rolling]: ...

    def buffer(self, tensor: Tensor) -> Buffer: ...

    def producers(self, stage_id: int, axis: IterVar, bound: frozenset[Var], body: Stmt) -> Stmt: ...

    def around_loop(self, stage_id: int, axis: IterVar, loop: Stmt) -> Stmt: ...


def one_loop(found: StageBounds, loop: Loop, var: Var, body: Stmt, bound: frozenset[Var]) -> Stmt:
    """`body` in one loop of a stage, without the loop if it runs once, or if its hardware index is `bound` already."""
    extent = found.ranges[loop.axis].extent
    annotation = found.stage.annotation(loop.axis)
    if loop.thread is not None:
        if loop.var in bound:
            return body
        return For(var, const(0, var.dtype), extent, LoopKind.THREAD, loop.tag, annotation.pragmas, body)
    if is_const(extent, 1) and not annotation.pragmas:
        return body
    return For(var, const(0, var.dtype), extent, annotation.kind, None, annotation.pragmas, body)


MOST_LOOPS = 64
"""The most nested loops with more than one iteration. With two iterations each, such a nest would never end, and
compile time grows faster than the square of the depth.
"""


class StageNest:
    """Builds the loops of one stage."""

    def __init__(self, builder: NestContext, found: StageBounds, bound: frozenset[Var]) -> None:
        self.builder = builder
        self.found = found
        self.stage = found.stage
        self.bound = bound
        self.loops = found.stage.loops
        self.end: int | None = None
        """The first of the loops that are not built because something replaces them."""
        self._check_variables()
        self._check_depth()
        self.values = found.values
        self.has_guarded_reads = bool(guarded_axes(found.stage, found.ranges))
        first = [i for i, loop in enumerate(self.loops) if loop.axis.kind is AxisKind.REDUCE]
        is_reduction = isinstance(found.body[0], Reduce)
        self.reduce_from = first[0] if first else len(self.loops) if is_reduction else None
        of_data = relation_guards(found, AxisKind.DATA)
        of_reduction = relation_guards(found, AxisKind.REDUCE)
        of_domain = domain_guards(found, (*of_data, *of_reduction))
        self.guards = tuple(guard.condition for guard in (*of_data, *of_reduction, *of_domain))
        self.data_guards = tuple(guard.condition for guard in (*of_data, *of_domain))
        # Buffers allocated here have the size of the region. The caller's buffer has the size of the tensor, as does
        # the source of the first values.
        keeps = any(builder.buffers[self.stage.id, k] in builder.whole for k in range(found.stage.op.num_outputs))
        self.started_from = self._initial_reads() if is_reduction else set()
        within = keeps or self.started_from
        self.initial_guards = self.data_guards if within else tuple(guard.condition for guard in of_data)
        if self.stage.mixed:
            terms = {loop.var for loop in self.loops if not self._has_data(loop)}
            guards = self.guards if within else tuple(guard.condition for guard in (*of_data, *of_reduction))
            self.initial_guards = tuple(guard for guard in guards if not uses_any(guard, terms))

    def _has_data(self, loop: Loop) -> bool:
        """Whether the iterations of a loop compute different elements."""
        return loop.axis.kind is not AxisKind.REDUCE or loop.axis in self.stage.mixed

    def _check_variables(self) -> None:
        """Check that the variables of a body are axes of its stage, outer loops, or known from the arguments."""
        known = {axis.var for axis in self.stage.roots} | {loop.var for loop in (*self.found.outer, *self.loops)}
        ends = (self.builder.bounds[i].ends for i in {self.stage.id, *(loop.stage for loop in self.found.outer)})
        known |= {end.var for each in ends for end in each}
        extents = (self.found.ranges[loop.axis].extent for loop in self.loops)
        for var in variables(*self.found.body, *(extent for extent in extents if not isinstance(extent, IntImm))):
            if var not in known and var not in self.builder.sizes:
                raise UserError(
                    f"stage {self.stage.name!r} uses {var.name!r}, which is neither one of its axes nor an argument",
                    primitive="lower",
                    fix=f"reduce over an axis with te.sum(..., axis={var.name}); add a variable to the arguments",
                )
        for depth, loop in enumerate(self.loops):
            extent = self.found.ranges[loop.axis].extent
            if isinstance(extent, IntImm):
                continue
            later = next((x for x in self.loops[depth + 1 :] if x.var in variables(extent)), None)
            if later is not None:
                raise self._depends_on_later(loop.axis.name, later.axis.name)

    def _check_depth(self) -> None:
        around = (*self.found.outer, *self.loops)
        if len(around) <= MOST_LOOPS:
            return
        extents = [self.found.ranges[loop.axis].extent for loop in around if loop.axis in self.found.ranges]
        count = sum(not (isinstance(extent, IntImm) and extent.value == 1) for extent in extents)
        if count > MOST_LOOPS:
            raise UserError(
                f"stage {self.stage.name!r} is computed inside {count} loops that run more than once; "
                f"at most {MOST_LOOPS}",
                primitive="lower",
                fix=f"fuse axes: s[{self.stage.name}].fuse(...), or declare fewer dimensions",
            )

    def statement(self) -> Stmt:
        return self._nest(0, self.bound)

    def _nest(self, depth: int, bound: frozenset[Var]) -> Stmt:
        made = self._update(depth, bound)
        if depth == self.reduce_from:
            made = seq(self._initial(depth, bound), made)
        return self._with_ends(depth, made)

    def _with_ends(self, depth: int, body: Stmt) -> Stmt:
        """Return `body` inside a `Let` for each end that belongs to the loop at that depth. An end is 0 if a guard
        fails.
        """
        inner = {loop.var: loop.axis.name for loop in self.loops[depth:]}
        read = loads(*(end.value for end in self.found.ends if end.depth == depth))
        self._check_computed_before(depth, {load.source for load in read}, "has a range that is read from")
        for end in reversed([end for end in self.found.ends if end.depth == depth]):
            value = self._concrete(end.value)
            lost = next((inner[var] for var in variables(value) if var in inner), None)
            if lost is not None:
                raise self._depends_on_later(self.loops[depth].axis.name, lost)
            around = [guard for guard in self.guards if not uses_any(guard, inner)]
            if around:
                value = if_then_else(all_of(*map(likely, around)), value, const(0, value.dtype))
            body = Let(end.var, value, body)
        return body

    def _depends_on_later(self, axis: str, later: str) -> UserError:
        return UserError(
            f"the range of {axis!r} of stage {self.stage.name!r} depends on {later!r}, a loop inside of it",
            primitive="reorder",
            fix=f"keep {axis!r} inside of {later!r}",
        )

    def _update(self, depth: int, bound: frozenset[Var]) -> Stmt:
        if depth == len(self.loops):
            return self._guarded(self._kept(), self.guards)
        loop = self.loops[depth]
        inner = bound | {loop.var} if loop.thread is not None else bound
        body = self._nest(depth + 1, inner)
        body = self.builder.producers(self.stage.id, loop.axis, inner, body)
        if self.stage.prefetches:
            body = seq(*self._prefetches(depth, body), body)
        return self.builder.around_loop(self.stage.id, loop.axis, self._loop(loop, loop.var, body, bound))

    def _prefetches(self, depth: int, body: Stmt) -> Iterator[Stmt]:
        """The prefetches that an iteration of the loop at that depth makes before `body`."""
        loop, stage = self.loops[depth], self.stage
        for tensor, offset, extent in asked_ahead(self.found, loop.axis):
            check_there(self.builder.bounds, self.builder.schedule, stage, tensor, self.loops[depth:])
            same = self.builder.schedule.same
            every = (e for e in post_order(*self.found.body) if isinstance(e, Load))
            loads = [(e.source, e) for e in every if isinstance(e.source, Tensor) and same(e.source, tensor)]
            if not loads:
                yield ahead(read_within(body, self.builder.buffer(tensor), self.found, loop), loop.var, extent, offset)
                continue
            values = {a.var: cast(a.var.dtype, self.values[a]) for a in stage.roots}
            below = self.loops[depth + 1 :]
            inner = {each.var: (const(0, each.var.dtype), self.found.ranges[each.axis].extent) for each in below}
            (source, _), *_ = loads
            region = region_read([load for _, load in loads], source.shape, values, inner, self.found.facts)
            stmt = prefetched(partial(self._read, source), tensor.name, region, tensor.dtype)
            yield ahead(stmt, loop.var, extent, offset)

    def _initial(self, depth: int, bound: frozenset[Var]) -> Stmt:
        """First values, stored over the data loops inside of the outermost reduction loop; their variables are new."""
        found = bounds_of_first_values(self.found)
        if found is not self.found:
            return StageNest(self.builder, found, self.bound)._initial(depth, bound)
        data = [loop for loop in self.loops[depth : self.end] if self._has_data(loop)]
        fresh = {loop.var: Var(f"{loop.var.name}.init", loop.var.dtype) for loop in data if loop.thread is None}
        self._check_computed_before(depth, self.started_from, "starts at values of")
        body = self._guarded(self._first_stores(), self.initial_guards)
        inner = bound
        nests: list[tuple[Loop, frozenset[Var]]] = []
        for loop in data:
            nests.append((loop, inner))
            inner = inner | {loop.var} if loop.thread is not None else inner
        for loop, outer in reversed(nests):
            body = self._loop(loop, fresh.get(loop.var, loop.var), body, outer)
        made: Stmt = substitute(body, fresh)
        return made

    def _first_stores(self) -> Stmt:
        reduce = self._reduction()
        start = [self._concrete(e) for e in reduce.init] or reduce.combiner.identity
        return self._predicated(seq(*(self._store_to(k, value) for k, value in enumerate(start))))

    def _initial_reads(self) -> set[Tensor]:
        """The tensors that the first values of a reduction are read from."""
        loads = (e for e in post_order(*self._reduction().init) if isinstance(e, Load))
        return {load.source for load in loads if isinstance(load.source, Tensor)}

    def _check_computed_before(self, depth: int, read: Set[Any], how: str) -> None:
        """Tensors that are read before a loop, for first values or for ranges, are not computed inside of it."""
        sources = {self.builder.schedule.stage_of[tensor.op] for tensor in read}
        for loop in self.loops[depth:] if sources else ():
            for found in self.builder.attached.get((self.stage.id, loop.axis), []):
                if found.stage.id in sources:
                    raise UserError(
                        f"the reduction of {self.stage.name!r} {how} {found.stage.name!r}, which is computed inside of "
                        f"it, at {loop.axis.name!r}",
                        primitive="compute_at",
                        fix=f"compute {found.stage.name!r} at a loop outside of the reduction, or at the root",
                    )

    def _loop(self, loop: Loop, var: Var, body: Stmt, bound: frozenset[Var]) -> Stmt:
        return one_loop(self.found, loop, var, body, bound)

    def _reduction(self) -> Reduce:
        body = self.found.body[0]
        if not isinstance(body, Reduce):
            raise TypeError(f"{self.stage.name} is not a reduction")
        combiner = body.combiner.where(self._root_values())
        if combiner is body.combiner:
            return body
        made: Reduce = Reduce(combiner, body.source, body.axes, body.condition, body.value_index, body.init, body.ends)
        return made

    def _kept(self) -> Stmt:
        """The stores of an iteration, at the place that the schedule wants."""
        return self._predicated(self._store())

    def _store(self) -> Stmt:
        if self.reduce_from is None:
            return seq(*(self._store_to(k, self._concrete(e)) for k, e in enumerate(self.found.body)))
        reduce = self._reduction()
        old = tuple(Load(*self._place(k)) for k in range(len(reduce.source)))
        new = reduce.combiner.combine(old, [self._concrete(e) for e in reduce.source])
        store = self._store_all(list(new))
        condition = self._concrete(reduce.condition)
        return store if prove(condition, self.found.facts) else If(condition, store, None)

    def _store_all(self, values: list[Expr]) -> Stmt:
        """Stores of all results of a reduction; several values are all computed before the first is stored."""
        if len(values) == 1:
            return self._store_to(0, values[0])
        names = [Var(f"{self.stage.name}.v{k}.new", v.dtype) for k, v in enumerate(values)]
        body = seq(*(self._store_to(k, name) for k, name in enumerate(names)))
        for name, value in reversed(list(zip(names, values, strict=True))):
            body = Let(name, value, body)
        return body

    def _store_to(self, k: int, value: Expr) -> Stmt:
        return Store(*self._place(k), value)

    def _place(self, k: int) -> tuple[Buffer, tuple[Expr, ...]]:
        """The element of the `k`-th result that an iteration computes."""
        buffer = self.builder.buffers[self.stage.id, k]
        axes = zip(self.stage.op.axis, self.found.region, strict=True)
        if buffer in self.builder.whole:
            return buffer, tuple(self.values[a] for a, _ in axes)
        places = [subtract(self.values[a], part.min) for a, part in axes]
        return buffer, self._rolled(self.stage.id, places, [self.values[a] for a in self.stage.op.axis])

    def _rolled(self, stage_id: int, places: Sequence[Expr], indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Positions within a region; along a rolling dimension, the position in the ring."""
        ring = self.builder.rolling.get(stage_id)
        return tuple(
            ring.place(i) if ring and d == ring.dimension else p
            for d, (p, i) in enumerate(zip(places, indices, strict=True))
        )

    def _root_values(self) -> dict[Var, Expr]:
        """The axes of the operation in terms of the loops, unsimplified."""
        return {axis.var: cast(axis.var.dtype, self.values[axis]) for axis in self.stage.roots}

    def _concrete(self, e: Expr) -> Expr:
        """A body expression over loop variables and buffers."""

        def rule(before: Any, x: Any) -> Any:
            if isinstance(x, Load) and isinstance(x.source, Tensor):
                return self._read(x.source, self._guarded_indices(before, x.indices))
            return x

        made: Expr = rewrite_from(e, rule, dict(self._root_values()))
        return made

    def _guarded_indices(self, read: Load, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """The indices of a read, which are `indices` over the loops, simplified under the guards."""
        if not self.has_guarded_reads:
            return indices
        value_of = index_values(self.stage, self.found.ranges, self.found.facts)
        return tuple(i if any(loads(e)) else value_of(e) for e, i in zip(read.indices, indices, strict=True))

    def _read(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        buffer = self.builder.buffer(tensor)
        producer = self.builder.bounds.get(self.builder.schedule.stage_of[tensor.op])
        if producer is None or buffer in self.builder.whole or isinstance(producer.stage.op, ExternOp):
            return Load(buffer, indices)
        places = [
            const(0, i.dtype) if is_const(part.extent, 1) else subtract(i, part.min)
            for i, part in zip(indices, producer.region, strict=True)
        ]
        return Load(buffer, self._rolled(producer.stage.id, places, indices))

    def _predicated(self, body: Stmt) -> Stmt:
        """Stores under the schedule's own condition, and only of rows that are not kept from before."""
        ring = self.builder.rolling.get(self.stage.id)
        if ring is not None:
            axis, first = self.stage.op.axis[ring.dimension], self.found.region[ring.dimension].min
            body = If(simplify(ring.is_new(self.values[axis], first), self.found.facts), body, None)
        condition = self.stage.store_predicate
        if condition is None:
            return body
        values = {a.var: cast(a.var.dtype, value) for a, value in self.values.items() if a.kind is AxisKind.DATA}
        own = {loop.var for loop in self.loops if loop.thread is not None or loop.axis.kind is AxisKind.DATA}
        known = own | {loop.var for loop in self.found.outer} | values.keys() | self.builder.sizes
        known |= self._threads_inside()
        lost = next((var.name for var in variables(condition) if var not in known), None)
        if lost is not None:
            raise UserError(
                f"the condition `{condition}` for storing stage {self.stage.name!r} uses {lost!r}, which has no "
                "value there",
                primitive="set_store_predicate",
                fix="use thread indices, data axes of the stage, and loops around it",
            )
        return If(substitute(condition, values), body, None)

    def _threads_inside(self) -> set[Var]:
        """The thread indices of stages computed inside this stage: they have values in the whole kernel."""
        schedule, inside = self.builder.schedule, {self.stage.id}
        for stage in reversed(schedule.in_order()):
            if isinstance(stage.placement, At) and stage.placement.stage in inside:
                inside.add(stage.id)
        threads = (one.thread for i in inside for one in schedule.stages[i].annotations.values())
        return {thread.var for thread in threads if thread is not None}

    def _guarded(self, body: Stmt, guards: tuple[Expr, ...]) -> Stmt:
        for guard in reversed(guards):
            body = If(likely(guard), body, None)
        return body
