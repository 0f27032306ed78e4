"""Windows on GPUs: short reductions over windows of a tensor, such as depthwise convolutions, poolings and filters.

A thread computes a tile of neighbours from the part of the input that it keeps in registers. It loads aligned vectors
of the input, tests once per element for the border, and reads each weight once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import gcd, prod

from ..arith.coefficients import coefficients
from ..arith.simplify import simplify
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import loads, uses_any
from ..schedule.handle import ScheduleHandle, StageHandle
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ..topi.schedules.stages import vector_bytes
from ..tune.model.machine import Machine
from .dataflow import Dataflow, bytes_of, extent_of, is_element_wise, known, known_total, size, total
from .gpu_elements import FEW_TERMS
from .kernels import FusedKernel

_MOST_UNROLLED_PRODUCTS = 3000
"""The most products in the unrolled loops of a thread."""
_ROWS = (1, 2, 4, 7, 8)
"""Candidate rows of a thread's tile. Multiples of 7 divide images of 7, 14, 28 and 56 rows."""
_COLUMNS = (1, 2, 4, 7, 8, 14, 16)
"""Candidate columns of a thread's tile."""
_THREADS_PER_BLOCK = (128, 64, 32)
"""Candidate threads per block, the default first."""
_SPARE_REGISTERS = 16
"""The registers of a thread that tiles leave free."""


@dataclass(frozen=True)
class WindowTile:
    """Rows and columns of results that a thread computes, and the threads of a block.

    The loops over the first `rolled` axes of the terms are not unrolled; inside them, the thread loads a part of the
    input.
    """

    rows: int
    columns: int
    threads: int = 128
    rolled: int = 0


@dataclass(frozen=True)
class Index:
    """The linear index of one dimension: `offset`, plus multiples of one axis of a tile and of the reduction axes.

    `axis` is the tile's axis, counted from the end: -1 for the last; 0 if the index has no such axis. Neighbouring
    results along it read elements at a distance of `step`. `ways` has the distance from first to last value per
    reduction axis.
    """

    axis: int
    step: int
    offset: int
    ways: tuple[int, ...]

    @property
    def overlaps(self) -> bool:
        """Whether neighbouring results read common elements."""
        return bool(self.axis) and sum(map(abs, self.ways)) >= self.step

    def first(self, tile: WindowTile) -> int:
        """Return the first element that a tile at 0 reads."""
        return self.offset + sum(min(way, 0) for way in self.ways[tile.rolled :])

    def reach(self, tile: WindowTile) -> int:
        """Return the number of elements that a tile reads along the dimension."""
        results = {-1: tile.columns, -2: tile.rows}.get(self.axis, 1)
        return (results - 1) * self.step + sum(map(abs, self.ways[tile.rolled :])) + 1


@dataclass(frozen=True)
class Windows:
    """A reduction over windows of `tensor`.

    `border`, if any, is the stage that pads an input with `before` elements before each row to compute the tensor.
    `source` is the tensor from which threads can load vectors of at most `vector` bytes; None if they can load only
    single elements.
    """

    op: ComputeOp
    out: Operation
    tensor: Tensor
    border: ComputeOp | None
    source: Tensor | None
    before: int
    indices: tuple[Index, ...]
    vector: int

    @cached_property
    def terms(self) -> int:
        return total(self.op.reduce_axis)

    def rounds(self, tile: WindowTile) -> int:
        """Return the number of times that a thread loads a part of the input."""
        return total(self.op.reduce_axis[: tile.rolled])

    def chunk(self, tile: WindowTile) -> int:
        """Return the number of elements per load: aligned vectors must cover each row exactly."""
        last = self.indices[-1]
        if self.source is None or last.axis != -1:
            return 1
        return gcd(extent_of(self.source.shape[-1]), self.vector // self.source.dtype.bytes, tile.columns * last.step)

    def held(self, tile: WindowTile) -> int:
        """Return the elements of the input in a thread's registers, in whole vectors."""
        *outer, last = (index.reach(tile) for index in self.indices)
        chunk, first = self.chunk(tile), self.indices[-1].first(tile) - self.before
        return prod(outer) * ((first + last - 1) // chunk - first // chunk + 1) * chunk

    def seen(self, tile: WindowTile) -> int:
        """Return the number of elements of the tensor that a tile reads."""
        return prod(index.reach(tile) for index in self.indices)

    def words(self, tile: WindowTile) -> int:
        """Return the registers of a thread for loaded elements, padded elements and sums."""
        loaded = self.held(tile) if self.chunk(tile) > 1 else 0
        seen = self.seen(tile) if self.border is not None else 0
        return -(-(loaded + seen) * self.loaded.dtype.bytes // 4) + tile.rows * tile.columns

    @property
    def loaded(self) -> Tensor:
        """The tensor from which a thread loads elements."""
        return self.tensor if self.source is None else self.source

    def width(self, tile: WindowTile) -> int:
        """Return the number of results per store: whole vectors must cover each row exactly."""
        return gcd(size(self.out.axis[-1]), tile.columns, self.vector // _element_bytes(self.out))

    def blocks(self, tile: WindowTile) -> int:
        """The blocks of the grid."""
        *outer, columns = (size(axis) for axis in self.out.axis)
        *outer, rows = outer or [1]
        return -(-prod(outer) * -(-rows // tile.rows) * -(-columns // tile.columns) // tile.threads)

    def cycles(self, tile: WindowTile, machine: Machine) -> float:
        """Return the expected cycles of a tile."""
        at = machine.fitted["windows"]
        results, stored, word = tile.rows * tile.columns, _element_bytes(self.out), self.loaded.dtype.bytes
        chunk, width, step = self.chunk(tile), self.width(tile), self.indices[-1].step
        seen = self.rounds(tile) * self.seen(tile)
        loads = self.rounds(tile) * self.held(tile) / chunk if chunk > 1 else seen
        convert = at.conversion_slots * (word < 4)
        issued = at.load_slots * loads + ((self.border is not None) + convert) * seen
        computed = results * (self.terms + 2 * at.conversion_slots * (stored < 4))
        issued += (at.load_slots + convert) * self.terms + computed + at.thread_slots
        one, memories, warp = machine.hardware.multiprocessor, machine.hardware.warp_memory, machine.hardware.warp
        lines = [max(1.0, tile.columns * each * warp / memories.line) for each in (step * word, stored)]
        moved = loads * lines[0] + at.store_factor * results / width * float(lines[1] ** at.store_exponent)
        registers = int((at.element_registers * self.words(tile) + at.thread_registers) * tile.threads)
        resident = one.registers // registers * tile.threads / warp
        waiting = 1 + at.latency_warps / max(min(resident, one.warps), tile.threads / warp)
        busy = (
            -(-self.blocks(tile) // machine.multiprocessors)
            * tile.threads
            / warp
            * max(issued / one.schedulers, moved)
            * waiting
        )
        gaps = at.gap_factor * min(1.0, memories.sector / (width * stored) - 0.5) if width < tile.columns else 0.0
        memory = bytes_of(self.loaded) + total(self.out.axis) * stored * (1 + gaps)
        rate = machine.rates.memory_bytes_per_cycle * machine.multiprocessors
        fetching = (
            memory * (at.single_load_factor if chunk == 1 else 1.0) / rate
            if memory > machine.rates.l2_capacity_bytes
            else 0.0
        )
        return (
            max(busy, fetching) + at.unhidden_factor * min(busy, fetching) + at.launch_cycles + at.alone_factor * issued
        )


def _element_bytes(out: Operation) -> int:
    return max(t.dtype.bytes for t in out.outputs)


def windows_of(flow: Dataflow, kernel: FusedKernel, target: Target) -> Windows | None:
    """Return the windows that a kernel reduces on a target; None if its reduction has another form."""
    if not kernel.one_each or len(kernel.reductions) != 1 or kernel.operands or known_total(kernel.out.axis) is None:
        return None
    (op,) = kernel.reductions
    if len(op.outputs) > 1 or len(kernel.members) != (kernel.out is not op) or known_total(op.reduce_axis) is None:
        return None
    if [place and place[0] for place in kernel.places[op]] != list(kernel.out.axis):
        return None
    data, reduced = {a.var for a in op.axis}, {a.var for a in op.reduce_axis}
    found = [
        load
        for load in dict.fromkeys(loads(*op.body))
        if isinstance(load.source, Tensor) and any(uses_any(i, data) and uses_any(i, reduced) for i in load.indices)
    ]
    if len(found) != 1:
        return None
    tensor = found[0].source
    assert isinstance(tensor, Tensor)
    every = [_index(e, op, e is found[0].indices[-1]) for e in found[0].indices]
    indices = tuple(each for each in every if each is not None)
    if len(indices) < len(every) or not any(each.overlaps for each in indices):
        return None
    if len({each.axis for each in indices if each.axis}) < min(2, len(op.axis)):
        return None
    border = tensor.op if tensor.op not in flow.stored and not isinstance(tensor.op, PlaceholderOp) else None
    if border is not None and not (isinstance(border, ComputeOp) and _is_border(flow, border, op)):
        return None
    source, before = _source(flow, tensor, border)
    return Windows(op, kernel.out, tensor, border, source, before, indices, vector_bytes(target))


def _index(e: Expr, op: ComputeOp, is_last: bool) -> Index | None:
    """Return the index of a dimension; None if it is not linear in the reduction axes and in the axes of tiles."""
    tiled = {axis.var: place - len(op.axis[-2:]) for place, axis in enumerate(op.axis[-2:])}
    mine, terms = [v for v in tiled if uses_any(e, {v})], [axis.var for axis in op.reduce_axis]
    found = coefficients(e, [*tiled, *terms])
    if found is None or len(mine) > 1:
        return None
    factors = {var: simplify(factor) for var, factor in found[0].items()}
    known_factors = {var: factor.value for var, factor in factors.items() if isinstance(factor, IntImm)}
    offset = simplify(found[1])
    if len(known_factors) < len(factors) or (is_last and not isinstance(offset, IntImm)):
        return None
    ways = tuple(known_factors.get(axis.var, 0) * (size(axis) - 1) for axis in op.reduce_axis)
    step = known_factors[mine[0]] if mine else 0
    start = offset.value if isinstance(offset, IntImm) else 0
    return Index(tiled[mine[0]] if mine else 0, step, start, ways) if step > 0 or not mine else None


def _from_last(e: Expr, every: Sequence[Var]) -> int | None:
    """Return the constant c of an index v + c, with v the last of `every`; None for another index."""
    found = coefficients(e, every)
    rest = simplify(found[1]) if found is not None else None
    if found is None or not isinstance(rest, IntImm):
        return None
    factors = {var: simplify(factor) for var, factor in found[0].items()}
    alone = all(isinstance(f, IntImm) and f.value == (var is every[-1]) for var, f in factors.items())
    return rest.value if alone and every[-1] in factors else None


def _is_border(flow: Dataflow, border: Operation, reader: ComputeOp) -> bool:
    """Return whether an inlined stage pads an input for a single reduction."""
    inlined = [op for op in flow.bodies if op is not border and any(t.op is border for t in op.input_tensors)]
    return is_element_wise(border) and len(border.outputs) == 1 and inlined == [reader]


def _source(flow: Dataflow, tensor: Tensor, border: Operation | None) -> tuple[Tensor | None, int]:
    """Return the tensor in memory from which vectors are loaded, and the number of padded elements before each row."""
    if border is None:
        return (tensor if isinstance(tensor.op, PlaceholderOp) else None), 0
    found = list(dict.fromkeys(loads(*border.values)))
    if len(found) != 1 or not isinstance(found[0].source, Tensor):
        return None, 0
    source, every = found[0].source, [axis.var for axis in border.axis]
    distance = _from_last(found[0].indices[-1], every)
    whole = isinstance(source.op, PlaceholderOp) and all(isinstance(extent, IntImm) for extent in source.shape)
    return (source, -distance) if whole and distance is not None else (None, 0)


def is_possible(windows: Windows, target: Target, tile: WindowTile) -> bool:
    """Return whether a tile fits the registers of a thread, and its loops are short enough to unroll."""
    extents = [int(known(axis) or 1) for axis in windows.out.axis]
    fits = tile.columns < 2 * extents[-1] and tile.rows < 2 * (extents[-2] if len(extents) > 1 else 1)
    results = tile.rows * tile.columns
    short = results * windows.terms <= _MOST_UNROLLED_PRODUCTS * windows.rounds(tile)
    aligned = not any(windows.indices[-1].ways[: tile.rolled])
    registers = Machine.for_models(target).hardware.registers_at(tile.threads)
    few = windows.words(tile) <= registers - _SPARE_REGISTERS or results == 1
    return fits and short and few and aligned and tile.threads <= target.max_threads_per_block


def tiles(windows: Windows, target: Target) -> list[WindowTile]:
    """Return the possible tiles, the fastest by the model first.

    If one warp per scheduler suffices for all results, each thread computes one result: nothing else hides latency.
    """
    machine, terms = Machine.for_models(target), windows.op.reduce_axis
    warp, at = machine.hardware.warp, machine.fitted["windows"]
    few = total(windows.out.axis) <= machine.multiprocessors * machine.hardware.multiprocessor.schedulers * warp
    rolled = range(len(terms) if windows.terms > FEW_TERMS or len(terms) > 2 else 1)
    every = (
        WindowTile(rows, columns, threads, each)
        for threads, rows, columns, each in product(_THREADS_PER_BLOCK, _ROWS, _COLUMNS, rolled)
    )

    def order(tile: WindowTile) -> tuple[bool, float]:
        cycles = windows.cycles(tile, machine) * (
            at.smaller_block_factor if tile.threads < _THREADS_PER_BLOCK[0] else 1.0
        )
        return few and (tile.rows, tile.columns, tile.threads) != (1, 1, warp), cycles

    return sorted((tile for tile in every if is_possible(windows, target, tile)), key=order)


def schedule_windows(s: ScheduleHandle, windows: Windows, kernel: FusedKernel, tile: WindowTile) -> None:
    """Schedule a kernel that reduces windows."""
    out, op = kernel.out, windows.op
    if op is out:
        sums = s.cache_write(out.output(0), "local")
        out = s[out].op
    else:
        sums = op.output(0)
        s[sums].set_scope("local")
    *outer, x = out.axis
    inner: list[IterVar] = []
    if outer and tile.rows > 1:
        outer[-1], own = s[out].split(outer[-1], factor=tile.rows)
        s[out].unroll(own)
        inner.append(own)
    if tile.columns > 1:
        x, own = s[out].split(x, factor=tile.columns)
        inner.append(own)
    s[out].reorder(*outer, x, *inner)
    block, thread = s[out].split(s[out].fuse(*outer, x), factor=tile.threads)
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(thread, thread_axis("threadIdx.x"))
    if tile.columns > 1:
        _store(s, windows, out, inner[-1], tile)
    s[sums].compute_at(s[out], thread)
    terms = s[sums].op.reduce_axis
    s[sums].reorder(*terms, *s[sums].op.axis)
    for axis in (*terms[tile.rolled :], *s[sums].op.axis):
        s[sums].unroll(axis)
    place = (s[sums], terms[tile.rolled - 1]) if tile.rolled else (s[out], thread)
    reader = sums
    if windows.border is not None:
        reader = windows.border.output(0)
        s[reader].set_scope("local")
        s[reader].compute_at(*place)
        for axis in s[reader].op.axis:
            s[reader].unroll(axis)
    chunk = windows.chunk(tile)
    if windows.source is not None and chunk > 1:
        _load(s, windows.source, reader, place, chunk)


def _store(s: ScheduleHandle, windows: Windows, out: Operation, own: IterVar, tile: WindowTile) -> None:
    """Store the columns of a thread in vectors, as wide as the alignment of rows allows."""
    width = windows.width(tile)
    if width == tile.columns:
        s[out].vectorize(own)
        return
    across, lanes = s[out].split(own, factor=width) if width > 1 else (own, None)
    s[out].unroll(across)
    if lanes is not None:
        s[out].vectorize(lanes)


def _load(s: ScheduleHandle, source: Tensor, reader: Tensor, at: tuple[StageHandle, IterVar], chunk: int) -> None:
    """Load a thread's part of a tensor in aligned vectors."""
    mine = s.cache_read(source, "local", [reader])
    *outer, lanes = s[mine].transform_layout(lambda *i: [*i[:-1], i[-1] // chunk, i[-1] % chunk])
    s[mine].compute_at(*at)
    for axis in outer:
        s[mine].unroll(axis)
    s[mine].vectorize(lanes)
