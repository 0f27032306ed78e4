"""From a schedule and its bounds to a loop nest, built once, with every producer in its place.

The nest of a stage is its leaf loops around a guarded store; a reduction first stores its identity, in loops
of its own from the outermost reduction loop inwards. A stage computed at a loop stands at the head of that
loop's body. Buffers are multi-dimensional and as large as the region that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arith.simplify import prove, simplify
from ..bounds.infer import Bounds, StageBounds
from ..bounds.nest import Loop, axis_values, is_one, own_loops
from ..core.errors import UserError
from ..core.hardware import LoopKind, MemoryScope
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import cast, const, greater_equal, less, likely, subtract
from ..expr.traverse import post_order, substitute, variables
from ..schedule.relations import Split
from ..schedule.value import At, Schedule
from ..tensor.axis import AxisKind, IterVar
from ..tensor.reduction import Reduce
from ..tensor.tensor import Tensor
from .declare import bound_tensors
from .layout import Layout
from .nodes import Allocate, Buffer, For, Function, If, Let, Stmt, Store, seq


def build_function(
    schedule: Schedule,
    bounds: Bounds,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Function:
    """The loop nest of a whole schedule.

    `args`: the caller's tensors (inputs, outputs, and intermediate results to keep), buffers and size
    variables, in the order of the entry point's parameters. `binds` says how the memory of some of them lies.
    Raises UserError for a tensor of another schedule, one that is given twice, and an input or output that is
    missing.
    """
    return _Builder(schedule, bounds, args, name, bound_tensors(binds)).function()


class _Builder:
    def __init__(
        self, schedule: Schedule, bounds: Bounds, args: Sequence[Any], name: str, binds: dict[Tensor, Buffer]
    ) -> None:
        self.schedule = schedule
        self.bounds = bounds
        self.name = name
        self.buffers: dict[tuple[int, int], Buffer] = {}
        self.kept: set[Buffer] = set()
        self.binds = binds
        self.tensors = {buffer: tensor for tensor, buffer in binds.items()}
        self.params = tuple(self._param(arg, i) for i, arg in enumerate(args))
        twice = next((p for i, p in enumerate(self.params) if any(p is other for other in self.params[:i])), None)
        if twice is not None:
            raise UserError(f"argument {twice.name!r} is given twice", primitive="lower", fix="name each argument once")
        shapes = (variables(*p.shape) for p in self.params if isinstance(p, Buffer))
        self.sizes = {p for p in self.params if isinstance(p, Var)}.union(*shapes)
        self.attached: dict[tuple[int, IterVar], list[StageBounds]] = {}
        for found in reversed(list(bounds.values())):
            placement = found.stage.placement
            if isinstance(placement, At):
                self.attached.setdefault((placement.stage, placement.axis), []).append(found)

    def function(self) -> Function:
        """The entry point: the stages at the root, producers first, within their allocations."""
        for stage_id, found in self.bounds.items():
            for k, tensor in enumerate(found.stage.op.outputs):
                if (stage_id, k) in self.buffers:
                    self._check_kept(tensor, found)
                    continue
                if found.stage.is_output:
                    raise self._missing(tensor, "is an output")
                shape = tuple(part.extent for part in found.region)
                stage = found.stage
                aligns = tuple((d, *stage.aligns[a]) for d, a in enumerate(stage.op.axis) if a in stage.aligns)
                layout, doubled = Layout(aligns), stage.double_buffered
                buffer = Buffer(
                    tensor.name, tensor.dtype, shape, found.scope, note=stage.name, layout=layout, doubled=doubled
                )
                self.buffers[stage_id, k] = buffer
        roots = [f for f in reversed(list(self.bounds.values())) if not isinstance(f.stage.placement, At)]
        body = seq(*(self.stage(found, frozenset()) for found in roots))
        for found in reversed(roots):
            body = self._allocated(found, body)
        return Function(self.name, self.params, body)

    def _param(self, arg: Any, position: int) -> Buffer | Var:
        if isinstance(arg, Var):
            return arg
        if isinstance(arg, Buffer):
            if arg not in self.tensors:
                return arg
            arg = self.tensors[arg]
        if not isinstance(arg, Tensor):
            raise UserError(
                f"argument {position} is {arg!r}, which is no tensor",
                primitive="lower",
                fix="give tensors: lower(s, [A, W, B])",
            )
        stage_id = self.schedule.stage_of.get(arg.op)
        if stage_id is None:
            raise UserError(
                f"argument {position}, tensor {arg.name!r}, is not part of the schedule",
                primitive="lower",
                fix="give the tensors that the schedule was created from",
            )
        key = (stage_id, arg.value_index)
        if key in self.buffers:
            raise UserError(f"tensor {arg.name!r} is given twice", primitive="lower", fix="name each argument once")
        buffer = self.binds.get(arg) or Buffer(arg.name, arg.dtype, arg.shape, note=arg.name)
        self.buffers[key] = buffer
        self.kept.add(buffer)
        return buffer

    def _check_kept(self, tensor: Tensor, found: StageBounds) -> None:
        if found.scope is not MemoryScope.GLOBAL:
            where = found.outer[-1].axis.name if found.outer else ""
            raise UserError(
                f"tensor {tensor.name!r} is an argument, which is global memory, but its stage is kept in "
                f"{found.scope.value} memory" + (f" (it is computed inside the loop {where!r})" if where else ""),
                primitive="lower",
                fix=f"leave {tensor.name!r} out of the arguments, or compute it in global memory, before the kernel",
            )

    def _missing(self, tensor: Tensor, role: str) -> UserError:
        given = ", ".join(p.name for p in self.params) or "none"
        return UserError(
            f"tensor {tensor.name!r} {role}, but is not among the arguments ({given})",
            primitive="lower",
            fix=f"add {tensor.name!r} to the arguments",
        )

    def buffer(self, tensor: Tensor) -> Buffer:
        """The storage of a tensor; an input must be an argument."""
        found = self.buffers.get((self.schedule.stage_of[tensor.op], tensor.value_index))
        if found is None:
            raise self._missing(tensor, "is read")
        return found

    def _allocated(self, found: StageBounds, body: Stmt) -> Stmt:
        for k in reversed(range(len(found.stage.op.outputs))):
            buffer = self.buffers[found.stage.id, k]
            body = body if buffer in self.kept else Allocate(buffer, body)
        return body

    def stage(self, found: StageBounds, bound: frozenset[Var]) -> Stmt:
        """The loop nest of one stage, inside loops that have bound the thread variables `bound`."""
        return _StageNest(self, found, bound).statement()

    def producers(self, stage_id: int, axis: IterVar, bound: frozenset[Var], body: Stmt) -> Stmt:
        """`body` behind the stages that are computed at the loop `axis`, within their allocations."""
        inside = self.attached.get((stage_id, axis), [])
        body = seq(*(self.stage(found, bound) for found in inside), body)
        for found in reversed(inside):
            body = self._allocated(found, body)
        return body


class _StageNest:
    """Builds the loops of one stage."""

    def __init__(self, builder: _Builder, found: StageBounds, bound: frozenset[Var]) -> None:
        self.builder = builder
        self.found = found
        self.stage = found.stage
        self.bound = bound
        self.loops = own_loops(found.stage)
        self._check_variables()
        self.values = axis_values(found.stage, found.ranges)
        first = [i for i, loop in enumerate(self.loops) if loop.axis.kind is AxisKind.REDUCE]
        is_reduction = isinstance(found.body[0], Reduce)
        self.reduce_from = first[0] if first else len(self.loops) if is_reduction else None
        data_guards = self._split_guards(AxisKind.DATA)
        reduce_guards = self._split_guards(AxisKind.REDUCE)
        domain_guards = self._domain_guards((*data_guards, *reduce_guards))
        self.guards = (*data_guards, *reduce_guards, *domain_guards)
        # What is allocated here is as large as the region; the caller's buffer is as large as the tensor, and so is
        # what the first values are read from.
        keeps = any(builder.buffers[self.stage.id, k] in builder.kept for k in range(found.stage.op.num_outputs))
        self.started_from = self._initial_reads() if is_reduction else set()
        self.initial_guards = (*data_guards, *domain_guards) if keeps or self.started_from else data_guards

    def _check_variables(self) -> None:
        """What a body uses is an axis of its stage, a loop around it, or known from the arguments."""
        known = {axis.var for axis in self.stage.roots} | {loop.var for loop in (*self.found.outer, *self.loops)}
        extents = (self.found.ranges[loop.axis].extent for loop in self.loops)
        for var in variables(*self.found.body, *(extent for extent in extents if not isinstance(extent, IntImm))):
            if var not in known and var not in self.builder.sizes:
                raise UserError(
                    f"stage {self.stage.name!r} uses {var.name!r}, which is no axis of its own and no argument",
                    primitive="lower",
                    fix=f"reduce over an axis with te.sum(..., axis={var.name}); add a variable to the arguments",
                )

    def statement(self) -> Stmt:
        return self._nest(0, self.bound)

    def _nest(self, depth: int, bound: frozenset[Var]) -> Stmt:
        if depth == self.reduce_from:
            return seq(self._initial(depth, bound), self._update(depth, bound))
        return self._update(depth, bound)

    def _update(self, depth: int, bound: frozenset[Var]) -> Stmt:
        if depth == len(self.loops):
            return self._guarded(self._store(), self.guards)
        loop = self.loops[depth]
        inner = bound | {loop.var} if loop.thread is not None else bound
        body = self._update(depth + 1, inner) if depth + 1 != self.reduce_from else self._nest(depth + 1, inner)
        body = self.builder.producers(self.stage.id, loop.axis, inner, body)
        return self._loop(loop, loop.var, body, bound)

    def _initial(self, depth: int, bound: frozenset[Var]) -> Stmt:
        """First values, stored over the data loops inside of the outermost reduction loop; their variables are new."""
        reduce = self._reduction()
        data = [loop for loop in self.loops[depth:] if loop.axis.kind is not AxisKind.REDUCE]
        fresh = {loop.var: Var(f"{loop.var.name}.init", loop.var.dtype) for loop in data if loop.thread is None}
        start = [self._concrete(e) for e in reduce.init] or reduce.combiner.identity
        self._check_producers_of_first_values(self.loops[depth:])
        body = self._guarded(seq(*(self._store_to(k, value) for k, value in enumerate(start))), self.initial_guards)
        inner = bound
        nests: list[tuple[Loop, frozenset[Var]]] = []
        for loop in data:
            nests.append((loop, inner))
            inner = inner | {loop.var} if loop.thread is not None else inner
        for loop, outer in reversed(nests):
            body = self._loop(loop, fresh.get(loop.var, loop.var), body, outer)
        made: Stmt = substitute(body, fresh)
        return made

    def _initial_reads(self) -> set[Tensor]:
        """The tensors that the first values of a reduction are read from."""
        loads = (e for e in post_order(*self._reduction().init) if isinstance(e, Load))
        return {load.source for load in loads if isinstance(load.source, Tensor)}

    def _check_producers_of_first_values(self, inside: Sequence[Loop]) -> None:
        """What first values are read from is computed before them, so outside of the reduction."""
        for loop in inside:
            for found in self.builder.attached.get((self.stage.id, loop.axis), []):
                if self.started_from & set(found.stage.op.outputs):
                    raise UserError(
                        f"the reduction of {self.stage.name!r} starts at values of {found.stage.name!r}, which is "
                        f"computed inside of it, at {loop.axis.name!r}",
                        primitive="compute_at",
                        fix=f"compute {found.stage.name!r} at a loop outside of the reduction, or at the root",
                    )

    def _loop(self, loop: Loop, var: Var, body: Stmt, bound: frozenset[Var]) -> Stmt:
        extent = self.found.ranges[loop.axis].extent
        note = self.stage.note(loop.axis)
        if loop.thread is not None:
            if loop.var in bound:
                return body
            return For(var, const(0, var.dtype), extent, LoopKind.THREAD, loop.tag, note.pragmas, body)
        if is_one(extent) and not note.pragmas:
            return body
        return For(var, const(0, var.dtype), extent, note.kind, None, note.pragmas, body)

    def _reduction(self) -> Reduce:
        body = self.found.body[0]
        if not isinstance(body, Reduce):
            raise TypeError(f"{self.stage.name} is no reduction")
        return body

    def _store(self) -> Stmt:
        if self.reduce_from is None:
            return seq(*(self._store_to(k, self._concrete(e)) for k, e in enumerate(self.found.body)))
        reduce = self._reduction()
        old = tuple(Load(self._buffer(k), self._indices(k)) for k in range(len(reduce.source)))
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
        return Store(self._buffer(k), self._indices(k), value)

    def _buffer(self, k: int) -> Buffer:
        return self.builder.buffers[self.stage.id, k]

    def _indices(self, k: int) -> tuple[Expr, ...]:
        whole = self._buffer(k) in self.builder.kept
        axes = zip(self.stage.op.axis, self.found.region, strict=True)
        return tuple(self.values[a] if whole else subtract(self.values[a], part.min) for a, part in axes)

    def _concrete(self, e: Expr) -> Expr:
        """A body expression over loop variables and buffers."""
        roots = {axis.var: cast(axis.var.dtype, self.values[axis]) for axis in self.stage.roots}
        memo: dict[Any, Any] = dict(roots)

        def visit(x: Any) -> Any:
            done = memo.get(x)
            if done is None:
                done = x.map_children(visit)
                if isinstance(done, Load) and isinstance(done.source, Tensor):
                    done = self._read(done.source, done.indices)
                memo[x] = done
            return done

        made: Expr = visit(e)
        return made

    def _read(self, tensor: Tensor, indices: tuple[Expr, ...]) -> Expr:
        buffer = self.builder.buffer(tensor)
        producer = self.builder.bounds.get(self.builder.schedule.stage_of[tensor.op])
        if producer is None or buffer in self.builder.kept:
            return Load(buffer, indices)
        shifted = zip(indices, producer.region, strict=True)
        return Load(buffer, tuple(subtract(i, part.min) for i, part in shifted))

    def _split_guards(self, kind: AxisKind) -> tuple[Expr, ...]:
        """Conditions that keep uneven splits of axes of one kind inside what they split, outermost first."""
        guards = []
        for relation in self.stage.relations:
            if not isinstance(relation, Split) or relation.parent.kind is not kind:
                continue
            guard = relation.guard(self.values, self.found.ranges)
            if guard is not None and not prove(guard, self.found.facts):
                guards.append(simplify(guard, self.found.facts))
        return tuple(dict.fromkeys(guards))

    def _domain_guards(self, known: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Conditions that keep a region that was widened inside the tensor, beyond what `known` ones imply."""
        guards = []
        facts = self.found.facts
        for guard in known:
            facts = facts.assume(guard)
        for axis in self.stage.roots:
            dom, part = axis.dom, self.found.ranges[axis]
            if dom is None or (dom.min is part.min and dom.extent is part.extent):
                continue
            offset = subtract(self.values[axis], dom.min)
            for guard in (greater_equal(offset, 0), less(offset, dom.extent)):
                if not prove(guard, facts):
                    guards.append(simplify(guard, self.found.facts))
        return tuple(dict.fromkeys(guards))

    def _guarded(self, body: Stmt, guards: tuple[Expr, ...]) -> Stmt:
        for guard in reversed(guards):
            body = If(likely(guard), body, None)
        return body
