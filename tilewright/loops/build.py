"""Build the loop nest of a schedule and its bounds, once, with every producer in its place.

The nest of a stage is its leaf loops around a guarded store. A reduction first stores its identity, in loops of its own
from the outermost reduction loop inwards. A stage computed at a loop stands at the head of that loop's body. Buffers
are multi-dimensional and as large as the region that is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..bounds.infer import Bounds, StageBounds
from ..bounds.nest import Loop, is_thread_reduction
from ..bounds.reads import check_reads
from ..core.errors import UserError
from ..core.hardware import MemoryScope
from ..core.text import brief
from ..expr.nodes import Load, Var
from ..expr.traverse import variables
from ..schedule.primitives.annotate import IMPORTS
from ..schedule.schedule import At, Schedule
from ..tensor.axis import IterVar
from ..tensor.extern import ExternOp
from ..tensor.scan import ScanOp
from ..tensor.script import ScriptOp
from ..tensor.tensor import Operation, PlaceholderOp, Tensor, topological
from .broadcast_buffers import BroadcastBuffer, broadcast_checks, broadcast_reads
from .buffers import with_buffers
from .declare import bound_tensors
from .declared_nest import DeclaredNest
from .joined_kernels import join_kernels
from .layout import StorageLayout
from .nodes import NOTHING, Allocate, Assertion, BoundChecks, Buffer, Function, Stmt, seq
from .prefetching import ahead, asked_ahead, check_there, read_within
from .rolling import rolling_of
from .script_nest import ScriptNest, renumbered
from .stage_nest import StageNest, one_loop
from .swizzled_lines import swizzled_line
from .tensorized_nest import TensorizedNest
from .thread_extents import unify_thread_extents
from .thread_reduction import ThreadReductionNest


def build_function(
    schedule: Schedule,
    bounds: Bounds,
    args: Sequence[Any],
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    keep_outputs: bool = True,
) -> Function:
    """The loop nest of a whole schedule.

    `args`: the caller's tensors (inputs, outputs, and intermediate results to keep), buffers and size variables, in the
    order of the entry point's parameters. `binds` has the memory layout of some tensors. Outputs missing from `args`
    are refused; without `keep_outputs`, the function allocates them itself, so that the program can be inspected.
    Raises UserError for a tensor of another schedule, one that is given twice, and an input or output that is missing.
    """
    return _Builder(schedule, bounds, args, name, bound_tensors(binds)).function(keep_outputs)


class _Builder:
    def __init__(
        self, schedule: Schedule, bounds: Bounds, args: Sequence[Any], name: str, binds: dict[Tensor, Buffer]
    ) -> None:
        self.schedule = schedule
        self.bounds = bounds
        self.name = name
        self.buffers: dict[tuple[int, int], Buffer] = {}
        self.kept: set[Buffer] = set()  # the caller's
        self.whole: set[Buffer] = set()  # buffers with room for the whole tensor
        self.shared: set[int] = set()  # stages with results in the memory of another stage
        self.binds = binds
        self.assertions: list[Assertion] = []
        self.tensors = {buffer: tensor for tensor, buffer in binds.items()}
        self.params = tuple(self._param(arg, i) for i, arg in enumerate(args))
        times = Counter(map(id, self.params))
        twice = next((p for p in self.params if times[id(p)] > 1), None)
        if twice is not None:
            raise UserError(f"argument {twice.name!r} is given twice", primitive="lower", fix="name each argument once")
        shapes = (variables(*p.shape) for p in self.params if isinstance(p, Buffer))
        self.sizes = {p for p in self.params if isinstance(p, Var)}.union(*shapes)
        self.rolling = {i: ring for i, found in bounds.items() if (ring := rolling_of(found, bounds)) is not None}
        self.attached: dict[tuple[int, IterVar], list[StageBounds]] = {}
        for found in reversed(list(bounds.values())):
            placement = found.stage.placement
            if isinstance(placement, At):
                self.attached.setdefault((placement.stage, placement.axis), []).append(found)

    def function(self, keep_outputs: bool) -> Function:
        """The entry point: the stages at the root, producers first, within their allocations."""
        for stage_id, found in self.bounds.items():
            for k, tensor in enumerate(found.stage.op.outputs):
                if stage_id in self.shared:
                    continue
                if (stage_id, k) in self.buffers:
                    self._check_kept(tensor, found)
                    continue
                if found.stage.is_output and keep_outputs and not self.schedule.readers(stage_id):
                    raise self._missing(tensor, "is an output")
                stage = found.stage
                is_whole = isinstance(stage.op, (ExternOp, ScanOp))
                shape = tensor.shape if is_whole else tuple(p.extent for p in found.region)
                aligns = tuple((d, *stage.aligns[a]) for d, a in enumerate(stage.op.axis) if a in stage.aligns)
                layout = StorageLayout(aligns, fragment=found.fragment, swizzle=swizzled_line(found, k))
                buffer = Buffer(
                    tensor.name,
                    tensor.dtype,
                    shape,
                    found.scope,
                    found.align,
                    note=stage.name,
                    layout=layout,
                    stages=stage.stages,
                )
                self.buffers[stage_id, k] = buffer
            if isinstance(found.stage.op, ScanOp):
                self._share(found.stage.id, found.stage.op)
        roots = [f for f in reversed(list(self.bounds.values())) if not isinstance(f.stage.placement, At)]
        body = seq(*(self.stage(found, frozenset()) for found in roots))
        for found in reversed(roots):
            body = self._allocated(found, body)
        outputs = [self.schedule.stages[i].origin for i in self.schedule.outputs]
        checks = BoundChecks(tuple(self.assertions)) if self.assertions else None
        body = unify_thread_extents(join_kernels(body))
        reads = check_reads(outputs)
        names = [tensor.name for stage in self.schedule.in_order() for tensor in stage.op.outputs]
        bound = {t.name: b for b, t in self.tensors.items() if isinstance(b, BroadcastBuffer)}
        broadcast = {name: buffer for name, buffer in bound.items() if names.count(name) == 1}
        if bound:
            self._check_not_cached(bound, outputs)
            body, reads = broadcast_reads(body), broadcast_checks(reads, broadcast)
        return Function(self.name, self.params, body, reads, checks, imports=self._imports())

    def _check_not_cached(self, bound: Mapping[str, BroadcastBuffer], outputs: Sequence[Operation]) -> None:
        """Refuse copies of tensors that broadcast: a copy has the extents that the tensor is declared with."""
        declared = set(topological(outputs))
        for stage in self.schedule.in_order():
            copies = len(stage.op.body) == 1 and isinstance(stage.op.body[0], Load) and stage.origin not in declared
            read = next((t.name for t in stage.op.input_tensors if t.name in bound), None)
            if copies and read is not None:
                raise UserError(
                    f"stage {stage.name!r} copies {read!r}, and its buffer has the type 'auto_broadcast'",
                    primitive="lower",
                    fix="leave out cache_read of tensors that broadcast",
                )

    def _imports(self) -> tuple[tuple[str, str], ...]:
        """The code that pragmas of the schedule's loops name, each once."""
        annotations = (one for stage in self.schedule.in_order() for one in stage.annotations.values())
        found = ((key, text) for one in annotations for key, text in one.pragmas if key in IMPORTS)
        return tuple(dict.fromkeys(found))

    def _param(self, arg: Any, position: int) -> Buffer | Var:
        if isinstance(arg, Var):
            return arg
        if isinstance(arg, Buffer):
            if arg not in self.tensors:
                return arg
            arg = self.tensors[arg]
        if not isinstance(arg, Tensor):
            raise UserError(
                f"argument {position} is {brief(arg)}, which is not a tensor",
                primitive="lower",
                fix="give tensors: lower(s, [A, W, B])",
            )
        stage_id = self.schedule.stage_of.get(arg.op)
        if stage_id is None and isinstance(arg.op, PlaceholderOp):
            return self.binds.get(arg) or Buffer(arg.name, arg.dtype, arg.shape, note=arg.name)  # no stage reads it
        if stage_id is None:
            raise UserError(
                f"argument {position}, tensor {arg.name!r}, is not part of the schedule",
                primitive="lower",
                fix="give the tensors that the schedule was created from",
            )
        if self.schedule.stages[stage_id].transformed:
            raise UserError(
                f"tensor {arg.name!r} is an argument in the caller's memory, but its stage has other dimensions",
                primitive="transform_layout",
                fix=f"leave {arg.name!r} out of the arguments, or keep its dimensions",
            )
        key = (stage_id, arg.value_index)
        if key in self.buffers:
            raise UserError(f"tensor {arg.name!r} is given twice", primitive="lower", fix="name each argument once")
        buffer = self.binds.get(arg) or Buffer(arg.name, arg.dtype, arg.shape, note=arg.name)
        self.buffers[key] = buffer
        self.kept.add(buffer)
        self.whole.add(buffer)
        return buffer

    def _check_kept(self, tensor: Tensor, found: StageBounds) -> None:
        on_cpu = not any(loop.on_hardware for loop in (*found.outer, *found.stage.loops))
        if found.scope is not MemoryScope.GLOBAL and not (on_cpu and found.scope is MemoryScope.LOCAL):
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

    def _share(self, scan_id: int, scan: ScanOp) -> None:
        """Let first rows, updates and states of a scan live in the memory of its result."""
        for parts in (scan.init, scan.update, scan.state):
            for k, part in enumerate(parts):
                stage_id = self.schedule.stage_of[part.op]
                buffer = self.buffers[scan_id, k]
                known = self.buffers.setdefault((stage_id, part.value_index), buffer)
                if known is not buffer:
                    raise UserError(
                        f"{part.name!r}, a part of the scan {scan.name!r}, is an argument of the function, or part of "
                        "another scan as well",
                        primitive="lower",
                        fix=f"leave {part.name!r} out of the arguments: its rows belong to {scan.name!r}",
                    )
                self.shared.add(stage_id)
                self.whole.add(buffer)

    def _allocated(self, found: StageBounds, body: Stmt) -> Stmt:
        if found.stage.id in self.shared:
            return body
        for k in reversed(range(len(found.stage.op.outputs))):
            buffer = self.buffers[found.stage.id, k]
            body = body if buffer in self.kept else Allocate(buffer, body)
        return body

    def stage(self, found: StageBounds, bound: frozenset[Var]) -> Stmt:
        """The loop nest of one stage, inside loops that have bound the thread variables `bound`."""
        if isinstance(found.stage.op, ExternOp):
            return self._extern(found, found.stage.op, bound)
        if isinstance(found.stage.op, ScanOp):
            return self._around(found, found.stage.loops, bound, NOTHING)
        if found.stage.declared is not None:
            return DeclaredNest(self, found, bound).statement()
        kind = ThreadReductionNest if is_thread_reduction(found.stage) else StageNest
        nest = kind(self, found, bound) if found.contraction is None else TensorizedNest(self, found, bound)
        return nest.statement()

    def _around(self, found: StageBounds, loops: tuple[Loop, ...], bound: frozenset[Var], innermost: Stmt) -> Stmt:
        """The loops of a scan around the stages that advance it, and the loops of a `te.extern` around its
        statement."""
        if not loops:
            return innermost
        loop, *inner = loops
        inside = bound | {loop.var} if loop.thread is not None else bound
        body = self._around(found, tuple(inner), inside, innermost)
        body = self.producers(found.stage.id, loop.axis, inside, body)
        for tensor, offset, extent in asked_ahead(found, loop.axis):
            check_there(self.bounds, self.schedule, found.stage, tensor, loops)
            body = seq(ahead(read_within(body, self.buffer(tensor), found, loop), loop.var, extent, offset), body)
        return self.around_loop(found.stage.id, loop.axis, one_loop(found, loop, loop.var, body, bound))

    def _extern(self, found: StageBounds, op: ExternOp, bound: frozenset[Var]) -> Stmt:
        """The statement of a `te.extern` or a script, on the buffers of its tensors."""
        given = (*op.input_buffers, *op.output_buffers)
        theirs = {b: self.buffer(t) for b, t in zip(given, (*op.inputs, *op.outputs), strict=True)}
        made: Stmt = with_buffers(op.statement, theirs)
        if not isinstance(op, ScriptOp):
            return self._around(found, found.stage.loops, bound, made)
        first = len(self.assertions)
        self.assertions += [Assertion(*assertion) for assertion in op.assertions]
        return ScriptNest(self, found, renumbered(made, first), op, theirs).statement(bound)

    def producers(self, stage_id: int, axis: IterVar, bound: frozenset[Var], body: Stmt) -> Stmt:
        """`body` after the stages that are computed at the loop `axis`, within their allocations."""
        inside = self.attached.get((stage_id, axis))
        if inside is None:
            return body
        body = seq(*[self.stage(found, bound) for found in inside], body)
        for found in reversed(inside):
            body = body if found.stage.id in self.rolling else self._allocated(found, body)
        return body

    def around_loop(self, stage_id: int, axis: IterVar, loop: Stmt) -> Stmt:
        """The loop over `axis` inside the allocations of the buffers that it keeps between iterations."""
        for found in reversed(self.attached.get((stage_id, axis), [])):
            loop = self._allocated(found, loop) if found.stage.id in self.rolling else loop
        return loop
