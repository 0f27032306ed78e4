"""The work of a kernel per configuration: instructions, memory traffic, waiting.

Each stage is counted separately. A load is repeated by the loops on which its index depends, and by other loops that
are not unrolled. A load from registers is free. Fills of shared memory are distributed over the threads of a block as
in `refine/cooperative_fetch.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from ...bounds.nest import Loop
from ...core.hardware import Hardware, LoopKind, MemoryScope
from ...expr import nodes as n
from ...expr.arrays import evaluated
from ...expr.nodes import Var
from ...schedule.schedule import At
from ...tensor.axis import AxisKind
from ...tensor.reduction import Reduce
from ...tensor.tensor import Tensor
from .extents import KernelExtents, StageExtents, constant
from .footprint import address_steps, block_spans, differs_by_block, fresh_part, global_shape, sector_bytes
from .guards import behind_branches, is_clipped, is_guarded, only_copies
from .lanes import WarpLanes, address, as_column, sectors, unravelled, wavefronts
from .linear_forms import LinearForm, form_of, moves, reach
from .loads_in_padding import never_loads
from .operations import evaluations, operations
from .structure import Structure
from .traced import Columns, Number
from .unrolled import Unrolled

Counts = dict[str, np.ndarray]
"""Named numbers, one per configuration. Instructions are counted per thread, hence per warp."""

NAMES = (
    "threads", "blocks", "shared_bytes", "local_words", "accumulators",
    "fma", "other_ops", "compares", "loop_steps", "written_out",
    "ldg", "ldg_sectors", "stg", "stg_sectors", "lds", "lds_waves", "sts", "sts_waves", "fill_loads",
    "barriers", "phases", "serial_loads", "block_bytes", "unique_bytes", "stored_bytes", "spilled", "held",
    "uneven", "guarded", "fill_guarded", "fill_serial", "fill_alone", "fill_tails", "first_tails", "marked",
    "fill_sectors", "near_bytes", "guarded_sectors", "branched", "fresh_sectors", "near_sectors", "common_bytes",
)  # fmt: skip
_MOST_UNROLLED_ITERATIONS = 8
"""The most iterations of a loop that the back end's compiler unrolls completely."""
_UNROLLED_ITERATIONS = 4
"""The number of iterations that the compiler unrolls of a longer loop."""


@dataclass
class _Loops:
    """The loops of a stage that a thread runs, outermost first: their extents, and whether they are unrolled."""

    loops: list[Loop]
    extents: list[np.ndarray]
    written: list[np.ndarray]
    marked: np.ndarray
    """Whether a loop is unrolled because of the schedule's limit of steps."""
    apart: np.ndarray
    """Whether only the back end's compiler can find common subexpressions of a loop's iterations."""

    def total(self) -> np.ndarray:
        return _product(self.extents)

    def repeated(self, moved: set[Var]) -> np.ndarray:
        """Return the number of executions of code that depends only on the loops in `moved`."""
        deepest = max((i for i, loop in enumerate(self.loops) if loop.var in moved), default=-1)
        count: np.ndarray = np.float64(1.0)  # type: ignore[assignment]
        flat = np.ones_like(self.extents[0], bool) if self.extents else np.True_
        for i in range(len(self.loops) - 1, -1, -1):
            flat = flat & self.written[i]
            if self.loops[i].var in moved:
                count = count * self.extents[i]
            elif i < deepest:
                count = count * np.where(flat, 1, self.extents[i])
        return count

    def rolled(self) -> np.ndarray:
        """Return the iterations of the loops that are not unrolled."""
        return _product([np.where(w, 1, e) for e, w in zip(self.extents, self.written, strict=True)])


def _product(values: Iterable[Number]) -> np.ndarray:
    made: np.ndarray = np.float64(1.0)  # type: ignore[assignment]
    for value in values:
        made = made * value
    return made


class Work:
    """Counts the work of one kernel."""

    def __init__(self, structure: Structure, columns: Columns, kernel: KernelExtents, hardware: Hardware) -> None:
        self.structure = structure
        self.columns = columns
        self.kernel = kernel
        self.hardware = hardware
        self.memory = hardware.warp_memory
        self.count = len(columns)
        self.lanes = WarpLanes(self.count, kernel.block, hardware.warp)
        assert structure.schedule is not None
        self.schedule = structure.schedule
        self.of = {found.stage.id: found for found in kernel.stages}
        self.made: dict[str, Number] = dict.fromkeys(NAMES, 0.0)
        self.unrolls, explicit = self._unrolling()
        self.explicit = np.asarray(explicit, bool)
        dealt = [found for found in kernel.stages if self._is_dealt_out(found)]
        self.unrolled = Unrolled(self.schedule, kernel, self.unrolls, {id(found): self._each(found) for found in dealt})

    def counts(self) -> Counts:
        """Return all counts of the kernel."""
        made = self.made
        made["threads"], made["blocks"] = self.kernel.threads, self.kernel.blocks
        made["shared_bytes"] = self.kernel.bytes_in(MemoryScope.SHARED)
        made["local_words"] = -(-self.kernel.bytes_in(MemoryScope.LOCAL) // 4)
        made["accumulators"] = 1.0
        for found in self.kernel.stages:
            if found.stage.is_output:
                self._add("uneven", _uneven(found))
            if self._is_dealt_out(found):
                self._fill(found)
            else:
                self._stage(found)
        return {name: np.broadcast_to(np.asarray(v, np.float64), (self.count,)) for name, v in made.items()}

    def _add(self, name: str, value: Number) -> None:
        self.made[name] = self.made[name] + value

    def _unrolling(self) -> tuple[Number, Number]:
        """Return the schedule's limit of unrolling, and whether our pass unrolls, not the back end's compiler."""
        found: dict[str, Number] = {"auto_unroll_max_step": 0, "unroll_explicit": 1}
        for one in self.kernel.stages:
            for axis in one.stage.leaves:
                for key, value in one.stage.annotation(axis).pragmas:
                    found[key] = self.structure.number(axis, key, value, self.columns)
        return found["auto_unroll_max_step"], found["unroll_explicit"]

    def _operations(self, found: StageExtents) -> tuple[float, float, float]:
        return self.structure.once(("operations", found.stage.id), lambda: operations(found.body))

    def _is_guarded(self, load: n.Load, found: StageExtents) -> bool:
        return self.structure.once(("guarded", found.stage.id, load), lambda: is_guarded(load, found.body))

    # Stages with loops of their own

    def _loops(self, found: StageExtents) -> _Loops:
        """Return the loops that a thread runs, without virtual threads that share the stage's results."""
        local = {var for form in self._local_forms(found) for var, step in form.items() if moves(step)}
        loops = [loop for loop in found.path if loop.tag is None or found.is_copied(loop)]
        extents = [np.broadcast_to(found.loop_extents[loop.var], (self.count,)) for loop in loops]
        written: list[np.ndarray] = []
        marked, apart = np.zeros(self.count, bool), np.zeros(self.count, bool)
        for loop, extent in zip(loops, extents, strict=True):
            asked = loop.tag is not None or self.unrolled.is_asked(loop)
            auto, limit, alone = self.unrolled.of(loop)
            written.append((extent == 1) | auto | asked | (loop.var in local))
            marked = marked | (alone & (extent > 1) & ~np.asarray(asked))
            apart = apart | ~((extent == 1) | limit | asked)
        return _Loops(loops, extents, written, marked, apart)

    def _local_forms(self, found: StageExtents) -> Iterable[LinearForm]:
        """Return the forms of indices of registers: their loops are always unrolled."""
        roots = {axis.var: form for axis, form in found.forms.items()}
        own = {loop.var for loop in found.path if loop.stage == found.stage.id and loop.tag is None}
        if found.scope is MemoryScope.LOCAL and not found.stage.is_output:
            for axis in found.stage.op.axis:
                yield {var: step for var, step in found.forms[axis].items() if var in own}
        for load in self.structure.loads(found.stage.id):
            source = self._source(load)
            if source is not None and source.scope is MemoryScope.LOCAL:
                for index in load.indices:
                    form, _ = form_of(index, roots, found.loop_extents)
                    yield {var: step for var, step in form.items() if var in own}

    def _source(self, load: n.Load) -> StageExtents | None:
        """Return the stage of this kernel that a load reads; None for global memory."""
        if not isinstance(load.source, Tensor):
            return None
        found = self.of.get(self.schedule.stage_of[load.source.op])
        return None if found is None or found.scope is MemoryScope.GLOBAL else found

    def _stage(self, found: StageExtents) -> None:
        loops = self._loops(found)
        total = loops.total()
        vector = self._vector(found)
        fused, others, compares = self._operations(found)
        self._add("fma", total * fused)
        self._add("other_ops", total * others)
        self._add("compares", total * compares / vector)
        self._add("loop_steps", loops.rolled())
        self._add("written_out", total / loops.rolled() * (1 + fused))
        self._add("marked", np.where(self.explicit, 0, loops.marked) * total * fused)
        if isinstance(found.body[0], Reduce) and found.scope is MemoryScope.LOCAL and not found.stage.is_output:
            self.made["accumulators"] = np.maximum(self.made["accumulators"], found.elements)
        roots = {axis.var: form for axis, form in found.forms.items()}
        axes = self.lanes.axes(self.structure, self.columns, found)
        predicated = (self.explicit & ~loops.apart) | only_copies(found)
        branches = behind_branches(found, self.kernel, np.broadcast_to(self.explicit, self.count))
        waits = np.zeros(self.count, bool)
        for load in self.structure.loads(found.stage.id):
            source, guarded = self._source(load), self._is_guarded(load, found)
            if source is not None and source.scope is MemoryScope.LOCAL:
                continue
            if source is not None:
                waits = waits | branches | (guarded & ~predicated)
            forms = [form_of(index, roots, found.loop_extents)[0] for index in load.indices]
            moved = {var for form in forms for var, step in form.items() if moves(step)}
            times = loops.repeated(moved) / vector
            if source is not None:
                times = times * self._distinct(found, forms, loops)
            place = self._place(load, source, axes)
            if source is not None:
                # A guarded load is not merged with others.
                wide = 1 if guarded else self._merged(found, source, forms, loops)
                self._load(load, source, place, times / wide, vector * wide)
                continue
            # If we unroll, guarded loads become predicated loads that are issued together.
            # Behind branches, the compiler does not recognise a common load of several results.
            together = predicated & ~(branches & self.explicit)
            again = evaluations(found.body[0]) if guarded else 1
            times = np.where(together, times, times * again)
            self._load(load, source, place, times, vector)
            self._add("serial_loads", np.minimum(times, loops.rolled()))
            alone = np.where(together, np.minimum(times, loops.rolled()), loops.total() * again if guarded else times)
            alone = alone * (guarded | (branches & self.explicit))
            self._add("guarded", alone)
            self._cached(found, load, forms, place, times, alone, vector)
            self._footprint(found, load, forms)
        self._add("branched", np.where(waits, loops.total(), 0))
        if found.scope is MemoryScope.LOCAL and not found.stage.is_output:
            return
        place = address([axes[axis.var] for axis in found.stage.op.axis], found.region)
        if isinstance(found.body[0], Reduce):  # a sum in memory is loaded and stored at every step
            data = {loop.var for loop in loops.loops if loop.axis.kind is not AxisKind.REDUCE}
            total = loops.repeated(data)
        self._store(found, place, total / vector, vector)

    def _distinct(self, found: StageExtents, forms: list[LinearForm], loops: _Loops) -> Number:
        """Return the fraction of unrolled loads that are distinct: equal loads become one."""
        written = {loop.var: flag for loop, flag in zip(loops.loops, loops.written, strict=True) if loop.tag is None}
        places, copies = np.ones(self.count), np.ones(self.count)
        for form in forms:
            steps = {var: np.where(written[var], step, 0) for var, step in form.items() if var in written}
            places = places * (reach(steps, found.loop_extents) + 1)
        for var, flag in written.items():
            if any(moves(form.get(var, 0)) for form in forms):
                copies = copies * np.where(flag, found.loop_extents[var], 1)
        return np.minimum(places / copies, 1)

    def _merged(self, found: StageExtents, source: StageExtents, forms: list[LinearForm], loops: _Loops) -> Number:
        """Return the number of loads of neighbouring words of shared memory that become one load.

        After unrolling they are adjacent, and the back end's compiler merges them if the first is aligned.
        """
        steps = address_steps(forms, source.region)
        written = {loop.var: flag for loop, flag in zip(loops.loops, loops.written, strict=True) if loop.tag is None}
        run: Number = np.ones(self.count)
        for _ in range(3):
            for var, flag in written.items():
                extends = flag & (steps.get(var, 0) == run) & (found.loop_extents[var] > 1)
                run = np.where(extends, run * found.loop_extents[var], run)
        wide: Number = np.ones(self.count)
        for width in (2, 4):
            aligned = run >= width
            for var, step in steps.items():
                inside = written.get(var, False) & (np.abs(step) < run)
                still = np.asarray(found.loop_extents.get(var, 1)) == 1
                aligned = aligned & (inside | still | (step % width == 0))
            wide = np.where(aligned & (width * found.element_bytes <= self.hardware.vector_bytes), width, wide)
        return wide

    def _vector(self, found: StageExtents) -> Number:
        """Return the number of neighbours that one instruction stores."""
        last = found.stage.leaves[-1] if found.stage.leaves else None
        if last is None or found.stage.annotation(last).kind is not LoopKind.VECTORIZED:
            return 1
        return found.extents[last]

    # Fills

    def _is_dealt_out(self, found: StageExtents) -> bool:
        if found.scope is not MemoryScope.SHARED or found.stage.is_output or isinstance(found.body[0], Reduce):
            return False
        placed = (stage.placement for stage in self.schedule.in_order())
        return not any(isinstance(at, At) and at.stage == found.stage.id for at in placed)

    def _each(self, found: StageExtents) -> np.ndarray:
        """Return the number of parts of a tile that each thread fills."""
        each: np.ndarray = np.ceil(found.elements / (self.kernel.threads * self._vector(found)))
        return each

    def _ends_in_padding(self, found: StageExtents, each: np.ndarray) -> np.ndarray:
        """Return whether the last part of a tile is padding in every block, so that it needs no load."""
        last = (each - 1) * self.kernel.threads * self._vector(found)
        element = np.minimum(as_column(last) + self.lanes.number, as_column(found.elements - 1)).astype(np.int64)
        axes: dict[Var, np.ndarray] = {}
        known: dict[Var, np.ndarray] = {}
        op, inside = found.stage.op, unravelled(element, found.region)
        for axis, index, size, extent in zip(op.axis, inside, found.region, op.shape, strict=True):
            axes[axis.var] = index
            known[axis.var] = np.asarray(size) == constant(extent)
        return never_loads(found.body, axes, known)

    def _fill(self, found: StageExtents) -> None:
        vector = self._vector(found)
        around = [x for x in found.outer if x.tag is None]
        turns = _product(found.loop_extents[loop.var] for loop in around)
        each = self._each(found)
        times = turns * each
        _, others, compares = self._operations(found)
        self._add("compares", times * compares)
        self._add("other_ops", times * others * vector)
        # Tiles filled at the same loop share a barrier, and the wait for their loads.
        self.made["barriers"] = np.maximum(self.made["barriers"], np.where(turns > 1, 2 * turns, 1))
        self.made["phases"] = np.maximum(self.made["phases"], turns)
        self._add("fill_loads", times)
        self._add("held", each * vector)
        self._add("written_out", each * 6)
        element = self.lanes.number * as_column(vector)
        mine = unravelled(element, found.region)
        axes = {axis.var: index for axis, index in zip(found.stage.op.axis, mine, strict=True)}
        # The part of a warp wraps around the region; its shape is the same for all warps.
        for load in self.structure.loads(found.stage.id):
            source = self._source(load)
            place = self._place(load, source, axes)
            self._load(load, source, place, times, vector)
            if source is None:
                # Unrolled loads are issued together. In a loop, guarded loads wait for their values one by one. Others
                # wait in groups of four, because the back end's compiler unrolls long loops by four.
                checked, together = compares > 0, self.explicit | (each <= _MOST_UNROLLED_ITERATIONS)
                if not checked:
                    together = together | (each <= self.unrolls)
                self._add("fill_guarded", np.where(together & checked, times, 0))
                self._add("fill_serial", np.where(together, 0, times if checked else times / _UNROLLED_ITERATIONS))
                # Not all threads fill the last part. The condition makes it a branch: its loads are issued after the
                # earlier parts have arrived.
                partial = (found.elements % (self.kernel.threads * vector) != 0) & ~self._ends_in_padding(found, each)
                self._add("fill_tails", np.where(partial, turns, 0) * checked)
                self._add("first_tails", partial * checked)
                # In a loop, a guarded load waits for its value; everywhere, it waits for the branch around it.
                alone = ~np.asarray(together) if checked else is_clipped(found)
                self._add("fill_alone", np.where(alone, times, 0))
                kind = load.dtype.bytes
                self._add("fill_sectors", times * sectors(place, kind, self.memory, vector))
                self._add("block_bytes", turns * found.elements * kind)
                self._add("unique_bytes", float(prod(global_shape(load)) * kind))
        self._add("sts", times)
        self._add("sts_waves", times * wavefronts(element, found.stage.op.outputs[0].dtype.bytes, self.memory, vector))

    # Accesses

    def _place(self, load: n.Load, source: StageExtents | None, axes: Mapping[Var, np.ndarray]) -> np.ndarray:
        """Return the element that each lane loads."""
        zero = np.zeros_like(self.lanes.number)
        indices = [zero + np.asarray(evaluated(index, axes, unknown=0)) for index in load.indices]
        return address(indices, source.region if source is not None else global_shape(load))

    def _load(
        self, load: n.Load, source: StageExtents | None, place: np.ndarray, times: Number, vector: Number
    ) -> None:
        size = load.dtype.bytes
        if source is None:
            self._add("ldg", times)
            self._add("ldg_sectors", times * sectors(place, size, self.memory, vector))
        else:
            self._add("lds", times)
            self._add("lds_waves", times * wavefronts(place, size, self.memory, vector))

    def _store(self, found: StageExtents, place: np.ndarray, times: Number, vector: Number) -> None:
        size = found.stage.op.outputs[0].dtype.bytes
        if found.scope is MemoryScope.SHARED and not found.stage.is_output:
            self._add("sts", times)
            self._add("sts_waves", times * wavefronts(place, size, self.memory, vector))
            self._add("barriers", 2)
            return
        self._add("stg", times)
        self._add("stg_sectors", times * sectors(place, size, self.memory, vector))
        self._add("stored_bytes", float(prod(constant(e) for e in found.stage.op.shape) * size))

    def _cached(
        self, found: StageExtents, load: n.Load, forms: list[LinearForm], place: np.ndarray,
        times: Number, alone: Number, vector: Number,
    ) -> None:  # fmt: skip
        """Count the sectors of direct loads: fetched sectors, and cache hits weighted by their bank conflicts."""
        size, fresh = load.dtype.bytes, fresh_part(found, load, forms, self.memory)
        touched = sectors(place, size, self.memory, vector)
        wave = self.memory.banks * self.memory.word / self.memory.sector
        hit = np.minimum(touched, wave * wavefronts(place, size, self.memory, vector))
        self._add("guarded_sectors", alone * touched)
        self._add("fresh_sectors", times * fresh * touched)
        self._add("near_sectors", times * (1 - fresh) * hit)

    def _footprint(self, found: StageExtents, load: n.Load, forms: list[LinearForm]) -> None:
        """Count the distinct bytes that a block reads, and the bytes that the whole grid reads."""
        spans = block_spans(found, load, forms)
        near = sector_bytes(spans, load, self.memory)
        self._add("block_bytes", _product(spans) * load.dtype.bytes)
        self._add("near_bytes", near)
        self._add("common_bytes", 0 if differs_by_block(found, forms) else near)
        self._add("unique_bytes", float(prod(global_shape(load)) * load.dtype.bytes))


def _uneven(found: StageExtents) -> Number:
    """Return the ratio of computed to needed elements if tiles extend beyond the result."""
    computed = _product(found.loop_extents[loop.var] for loop in found.path if loop.axis.kind is not AxisKind.REDUCE)
    return np.maximum(computed / max(1, prod(constant(e) for e in found.stage.op.shape)) - 1, 0)
