"""The loop nest of a cross-thread reduction: reduction loops that are bound to the threads of a block.

    thread i, thread k:                     # threadIdx.y, threadIdx.x
        partial = identity
        for ko:                             # the reduction loops that are not bound
            partial = combine(partial, source)
        total = all_reduce(partial, over k)
        if k == 0:
            result[i] = total

All threads take part in the exchange, so guards stand around their loads and stores, not around it.
"""

from __future__ import annotations

from functools import cached_property

from ..arith.simplify import prove
from ..bounds.nest import Loop
from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope
from ..expr.nodes import Expr, Load, Var
from ..expr.operators import all_of, const, equal, if_then_else, is_const
from ..expr.traverse import variables
from ..tensor.axis import AxisKind
from ..tensor.partial_results import check_parts
from .nodes import Allocate, AllReduce, Buffer, If, Stmt, Store, seq
from .stage_nest import StageNest

_ONLY: tuple[Expr, ...] = (const(0, "int32"),)


class ThreadReductionNest(StageNest):
    """Builds the loops of a stage with parts that the threads of a block combine."""

    def statement(self) -> Stmt:
        self._check_order()
        self._check_one_result()
        check_parts(self._reduction(), self.stage.name, "bind")
        return self._around(0, self.bound)

    @cached_property
    def _serial_from(self) -> int:
        """The place of the first reduction loop that each thread runs alone."""
        serial = (i for i, loop in enumerate(self.loops) if loop.axis.kind is AxisKind.REDUCE and loop.thread is None)
        return next(serial, len(self.loops))

    @property
    def _serial(self) -> bool:
        """Whether each thread has several values to combine alone."""
        return self._serial_from < len(self.loops)

    def _check_order(self) -> None:
        """Data loops stand outside of the exchange."""
        for loop in self.loops:
            if loop.axis in self.stage.mixed:
                raise UserError(
                    f"the threads of stage {self.stage.name!r} combine results, but its loop {loop.axis.name!r} is "
                    "fused from data axes and reduction axes",
                    primitive="bind",
                    fix="fuse data axes with data axes, and reduction axes with reduction axes",
                )
        for loop in self.loops[self._serial_from :]:
            if loop.axis.kind is not AxisKind.REDUCE and loop.thread is None and not self._is_single(loop):
                inner = self.loops[self._serial_from].axis.name
                raise UserError(
                    f"the threads of stage {self.stage.name!r} combine results, but its data loop {loop.axis.name!r} "
                    f"is inside the reduction loop {inner!r}",
                    primitive="bind",
                    fix=f"put the data loop outside: s[{self.stage.name}].reorder({loop.axis.name}, {inner})",
                )
        for loop in self.loops:
            if self.stage.annotation(loop.axis).kind is LoopKind.VECTORIZED:
                raise UserError(
                    f"the threads of stage {self.stage.name!r} combine results one by one, but its loop "
                    f"{loop.axis.name!r} is vectorized",
                    primitive="vectorize",
                    fix=f"unroll {loop.axis.name!r} instead, or vectorize a stage that is computed inside",
                )

    def _check_one_result(self) -> None:
        """Check that the threads that combine their parts do so for the same elements."""
        needs = variables(*(part.min for part in self.found.region))
        for loop in self.loops:
            if loop.thread is None or loop.axis.kind is not AxisKind.REDUCE:
                continue
            around = next((o for o in self.found.outer if o.tag is loop.tag and o.var in needs), None)
            if around is not None:
                raise UserError(
                    f"threads along {loop.thread.thread_tag} share the reduction loop {loop.axis.name!r} of stage "
                    f"{self.stage.name!r}, but each needs another result: {self.stage.name!r} is computed inside "
                    f"{around.axis.name!r}, bound to {loop.thread.thread_tag} too",
                    primitive="bind",
                    fix=f"bind {loop.axis.name!r} to another thread index, or compute {self.stage.name!r} outside of "
                    f"{around.axis.name!r}",
                )

    def _is_single(self, loop: Loop) -> bool:
        return is_const(self.found.ranges[loop.axis].extent, 1)

    def _around(self, depth: int, bound: frozenset[Var]) -> Stmt:
        """The loops outside of the exchange: the loops before the serial reduction, and all threads."""
        if depth == self._serial_from:
            return self._threads([loop for loop in self.loops[depth:] if loop.thread is not None], bound)
        loop = self.loops[depth]
        inner = bound | {loop.var} if loop.thread is not None else bound
        body = self.builder.producers(self.stage.id, loop.axis, inner, self._around(depth + 1, inner))
        made = self.builder.around_loop(self.stage.id, loop.axis, self._loop(loop, loop.var, body, bound))
        return self._with_ends(depth, made)

    def _threads(self, loops: list[Loop], bound: frozenset[Var]) -> Stmt:
        """Threads that the schedule binds inside the serial reduction; stages computed at them stay there."""
        if not loops:
            return self._exchange(bound)
        return self._loop(loops[0], loops[0].var, self._threads(loops[1:], bound | {loops[0].var}), bound)

    def _exchange(self, bound: frozenset[Var]) -> Stmt:
        reduce = self._reduction()
        threads = tuple(
            loop.var for loop in self.loops if loop.thread is not None and loop.axis.kind is AxisKind.REDUCE
        )
        before, parts = self._parts(bound)
        results = self._local("total")
        every = range(len(results))
        exchange = [Store(results[k], _ONLY, AllReduce(reduce.combiner, parts, threads, k)) for k in every]
        values: list[Expr] = [Load(results[k], _ONLY) for k in every]
        if reduce.init:
            values = list(reduce.combiner.combine([self._concrete(e) for e in reduce.init], values))
        stores = seq(*(Store(*super(ThreadReductionNest, self)._place(k), value) for k, value in enumerate(values)))
        first = () if self.found.scope is MemoryScope.LOCAL else tuple(equal(v, const(0, v.dtype)) for v in threads)
        stores = self._predicated(stores)
        for condition in reversed(first if self.stage.store_predicate is None else ()):
            stores = If(condition, stores, None)
        body = seq(before, *exchange, self._guarded(stores, self.data_guards))
        for buffer in reversed((*(self._partials if self._serial else ()), *results)):
            body = Allocate(buffer, body)
        return body

    def _parts(self, bound: frozenset[Var]) -> tuple[Stmt, tuple[Expr, ...]]:
        """The contribution of each thread to the exchange, and the statements that compute it."""
        reduce = self._reduction()
        if not self._serial:
            sources = [self._concrete(e) for e in reduce.source]
            condition = self._concrete(reduce.condition)
            guards = self.guards if prove(condition, self.found.facts) else (*self.guards, condition)
            if not guards:
                return seq(), tuple(sources)
            inside = all_of(*guards)
            return seq(), tuple(
                if_then_else(inside, e, z) for e, z in zip(sources, reduce.combiner.identity, strict=True)
            )
        start = seq(*(Store(b, _ONLY, z) for b, z in zip(self._partials, reduce.combiner.identity, strict=True)))
        update = self._with_ends(self._serial_from, self._update(self._serial_from, bound))
        return seq(start, update), tuple(Load(b, _ONLY) for b in self._partials)

    def _kept(self) -> Stmt:
        """Build a partial result, which each thread keeps, no matter which thread stores the result."""
        return self._store()

    def _place(self, k: int) -> tuple[Buffer, tuple[Expr, ...]]:
        return self._partials[k], _ONLY

    @cached_property
    def _partials(self) -> tuple[Buffer, ...]:
        return self._local("partial")

    def _local(self, what: str) -> tuple[Buffer, ...]:
        outputs = self.stage.op.outputs
        return tuple(
            Buffer(f"{t.name}.{what}", t.dtype, (const(1, "int32"),), MemoryScope.LOCAL, note=self.stage.name)
            for t in outputs
        )
