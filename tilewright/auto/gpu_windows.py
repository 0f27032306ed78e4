"""Windows on GPUs: short reductions over windows of a tensor, such as depthwise convolutions, poolings and filters.

A thread computes a tile of neighbours from a part of the input that it keeps in registers. It loads aligned vectors of
the input, decides once for each element whether it lies in the border, and reads each weight once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod

from ..arith.linear_equations import coefficients
from ..arith.simplify import simplify
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import loads, uses_any, variables
from ..schedule.handle import ScheduleHandle
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ..tune.model.machine import Machine
from .dataflow import Dataflow, extent_of, is_element_wise, known, known_total, size, total
from .kernels import FusedKernel

_VECTOR = 16
"""Bytes that a thread loads at once."""
_REGISTERS, _BESIDE, _WORD = 65536, 30, 0.57
"""Registers of a multiprocessor, the ones of a thread beside its elements, and the ones for each of these."""
_WRITTEN_OUT = 3000
"""Products that the written-out loops of a thread have at most."""
_ROWS, _COLUMNS = (1, 2, 4, 7, 8), (1, 2, 4, 7, 8, 14, 16)
_SPARE = 16
"""Registers of a thread that hold no elements."""
_SCHEDULERS, _LINE = 4, 128
"""Warps that start an instruction in a cycle, and bytes of a line of the cache."""
_LOAD, _CONVERSION, _OVERHEAD = 1.8, 0.57, 100
"""Instructions of a load, of a conversion from 16 bits, and of a thread beside its loads and terms."""
_STORE, _GAPS = 4.7, 1.2
"""The time of a line that is stored, relative to one that is loaded; the traffic of stores that leave gaps."""
_START, _LATENT_WARPS = 2000, 3.5
"""Cycles of a kernel beside its work; the resident warps for which waiting takes as long as work."""


@dataclass(frozen=True)
class WindowTile:
    """Rows and columns of results that a thread computes, and the threads of a block."""

    rows: int
    columns: int
    threads: int = 128


@dataclass(frozen=True)
class Index:
    """The index of one dimension: the distance between neighbouring results, the first offset, and the last one.

    `axis` is the place of the data axis from the end, -1 for the last; 0 for a dimension in which no tile extends.
    """

    axis: int
    step: int
    first: int
    last: int

    def reach(self, tile: WindowTile) -> int:
        """The elements that a tile reads along the dimension."""
        results = {-1: tile.columns, -2: tile.rows}.get(self.axis, 1)
        return (results - 1) * self.step + self.last - self.first + 1


@dataclass(frozen=True)
class Windows:
    """A reduction over windows of `tensor`.

    `border` computes the tensor by copying elements of an input, with `behind` more before each row. Vectors of
    `source` can be loaded from memory; None if there is no such tensor.
    """

    op: ComputeOp
    out: Operation
    tensor: Tensor
    border: ComputeOp | None
    source: Tensor | None
    behind: int
    indices: tuple[Index, ...]

    @cached_property
    def terms(self) -> int:
        return total(self.op.reduce_axis)

    def chunk(self, tile: WindowTile) -> int:
        """The elements that a thread loads at once: of whole, aligned vectors of each row."""
        last = self.indices[-1]
        if self.source is None or last.axis != -1:
            return 1
        return gcd(extent_of(self.source.shape[-1]), _VECTOR // self.source.dtype.bytes, tile.columns * last.step)

    def held(self, tile: WindowTile) -> int:
        """The elements of the input that a thread holds, in whole vectors."""
        *outer, last = (index.reach(tile) for index in self.indices)
        chunk, first = self.chunk(tile), self.indices[-1].first - self.behind
        return prod(outer) * ((first + last - 1) // chunk - first // chunk + 1) * chunk

    def seen(self, tile: WindowTile) -> int:
        """The elements of the tensor that a tile reads."""
        return prod(index.reach(tile) for index in self.indices)

    def words(self, tile: WindowTile) -> int:
        """The registers of a thread for elements of the input, as they are loaded and with the border; and for sums."""
        loaded = self.held(tile) if self.chunk(tile) > 1 else 0
        seen = self.seen(tile) if self.border is not None else 0
        return -(-(loaded + seen) * self.loaded.dtype.bytes // 4) + tile.rows * tile.columns

    @property
    def loaded(self) -> Tensor:
        """The tensor from which a thread loads elements."""
        return self.tensor if self.source is None else self.source

    def width(self, tile: WindowTile) -> int:
        """The results that a thread stores at once, in whole vectors of each row."""
        return gcd(size(self.out.axis[-1]), tile.columns, _VECTOR // _bytes_of(self.out))

    def blocks(self, tile: WindowTile) -> int:
        """The blocks of the grid."""
        *outer, columns = (size(axis) for axis in self.out.axis)
        *outer, rows = outer or [1]
        return -(-prod(outer) * -(-rows // tile.rows) * -(-columns // tile.columns) // tile.threads)

    def cycles(self, tile: WindowTile, machine: Machine) -> float:
        """The expected cycles of a tile; constants are fitted to 324 kernels of depthwise layers on an H100."""
        results, stored, word = tile.rows * tile.columns, _bytes_of(self.out), self.loaded.dtype.bytes
        chunk, width, step = self.chunk(tile), self.width(tile), self.indices[-1].step
        loads = self.held(tile) / chunk if chunk > 1 else self.seen(tile)
        convert = _CONVERSION * (word < 4)
        issued = _LOAD * loads + ((self.border is not None) + convert) * self.seen(tile)
        issued += (_LOAD + convert) * self.terms + results * (self.terms + 2 * _CONVERSION * (stored < 4)) + _OVERHEAD
        lines = [max(1.0, tile.columns * each * 32 / _LINE) for each in (step * word, stored)]
        moved = loads * lines[0] + _STORE * results / width * lines[1]
        resident = _REGISTERS // int((_WORD * self.words(tile) + _BESIDE) * tile.threads) * tile.threads / 32
        waiting = 1 + _LATENT_WARPS / max(min(resident, 64), tile.threads / 32)
        busy = (
            -(-self.blocks(tile) // machine.multiprocessors)
            * tile.threads
            / 32
            * max(issued / _SCHEDULERS, moved)
            * waiting
        )
        gaps = _GAPS * min(1.0, 32 / (width * stored) - 0.5) if width < tile.columns else 0.0
        memory = _size(self.loaded) + total(self.out.axis) * stored * (1 + gaps)
        rate = machine.rates.memory_bytes_per_cycle * machine.multiprocessors
        fetching = memory / rate if memory > machine.rates.l2_capacity_bytes else 0.0
        return max(busy, fetching) + 0.1 * min(busy, fetching) + _START + 1.5 * issued


def _bytes_of(out: Operation) -> int:
    return max(t.dtype.bytes for t in out.outputs)


def _size(tensor: Tensor) -> int:
    return prod(map(extent_of, tensor.shape)) * tensor.dtype.bytes


def windows_of(flow: Dataflow, kernel: FusedKernel) -> Windows | None:
    """Return the windows that a kernel reduces; None if its reduction is another one."""
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
    indices = [_index(e, op) for e in found[0].indices]
    if any(each is None for each in indices) or len({i.axis for i in indices if i and i.axis}) < min(2, len(op.axis)):
        return None
    border = tensor.op if tensor.op not in flow.stored and not isinstance(tensor.op, PlaceholderOp) else None
    if border is not None and not _is_border(flow, border, op):
        return None
    source, behind = _source(flow, tensor, border)
    return Windows(op, kernel.out, tensor, border, source, behind, tuple(i for i in indices if i is not None))  # type: ignore[arg-type]


def _index(e: Expr, op: ComputeOp) -> Index | None:
    """The index of a dimension; None if it is not linear in the axes along which tiles extend, and in the terms'."""
    tiled = {axis.var: place for place, axis in ((-1, op.axis[-1]), *([(-2, op.axis[-2])] if len(op.axis) > 1 else []))}
    mine, terms = [v for v in tiled if v in set(variables(e))], list(op.reduce_axis)
    if not mine and not uses_any(e, {a.var for a in terms}):
        return Index(0, 0, 0, 0)
    found = _linear(e, [a.var for a in op.loop_axes])
    if found is None or len(mine) > 1:
        return None
    factors, first = found
    last = first
    for axis in terms:
        far = factors.get(axis.var, 0) * (size(axis) - 1)
        first, last = first + min(far, 0), last + max(far, 0)
    step = factors[mine[0]] if mine else 0
    return Index(tiled[mine[0]] if mine else 0, step, first, last) if step > 0 or not mine else None


def _linear(e: Expr, every: Sequence[Var]) -> tuple[dict[Var, int], int] | None:
    """The factor of each variable of an index, and the constant; None if it is not linear."""
    found = coefficients(e, every)
    if found is None or not isinstance(rest := simplify(found[1]), IntImm):
        return None
    factors = {var: factor for var, factor in found[0].items() if isinstance(factor, IntImm)}
    return ({v: f.value for v, f in factors.items()}, rest.value) if len(factors) == len(found[0]) else None


def _is_border(flow: Dataflow, border: Operation, reader: ComputeOp) -> bool:
    """Whether an inlined stage computes elements that only one reduction reads."""
    inlined = [op for op in flow.bodies if op is not border and any(t.op is border for t in op.input_tensors)]
    return is_element_wise(border) and len(border.outputs) == 1 and inlined == [reader]


def _source(flow: Dataflow, tensor: Tensor, border: Operation | None) -> tuple[Tensor | None, int]:
    """The tensor in memory from which vectors are loaded, and its elements before each row of the border."""
    if border is None:
        return (tensor if isinstance(tensor.op, PlaceholderOp) else None), 0
    found = list(dict.fromkeys(loads(*border.values)))
    if len(found) != 1 or not isinstance(found[0].source, Tensor):
        return None, 0
    source, every = found[0].source, [axis.var for axis in border.axis]
    linear = _linear(found[0].indices[-1], every)
    whole = isinstance(source.op, PlaceholderOp) and all(isinstance(extent, IntImm) for extent in source.shape)
    if not whole or linear is None or linear[0] != {every[-1]: 1}:
        return None, 0
    return source, -linear[1]


def is_possible(windows: Windows, target: Target, tile: WindowTile) -> bool:
    """Whether the registers of a thread hold a tile, and its loops are short enough to write out."""
    extents = [int(known(axis) or 1) for axis in windows.out.axis]
    fits = tile.columns < 2 * extents[-1] and tile.rows < 2 * (extents[-2] if len(extents) > 1 else 1)
    results = tile.rows * tile.columns
    short = results * windows.terms <= _WRITTEN_OUT
    few = windows.words(tile) <= min(255, _REGISTERS // tile.threads) - _SPARE or results == 1
    return fits and short and few and tile.threads <= target.max_threads_per_block


def tiles(windows: Windows, target: Target) -> list[WindowTile]:
    """Return the possible tiles, the fastest by the model first."""
    machine = Machine.for_models(target)
    every = (WindowTile(rows, columns) for rows in _ROWS for columns in _COLUMNS)
    return sorted(
        (tile for tile in every if is_possible(windows, target, tile)), key=lambda t: windows.cycles(t, machine)
    )


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
    s[sums].reorder(*s[sums].op.reduce_axis, *s[sums].op.axis)
    for axis in (*s[sums].op.reduce_axis, *s[sums].op.axis):
        s[sums].unroll(axis)
    reader = sums
    if windows.border is not None:
        reader = windows.border.output(0)
        s[reader].set_scope("local")
        s[reader].compute_at(s[out], thread)
        for axis in s[reader].op.axis:
            s[reader].unroll(axis)
    chunk = windows.chunk(tile)
    if windows.source is not None and chunk > 1:
        _load(s, windows.source, reader, (out, thread), chunk)


def _store(s: ScheduleHandle, windows: Windows, out: Operation, own: IterVar, tile: WindowTile) -> None:
    """Store the columns of a thread in vectors, as wide as all rows allow."""
    width = windows.width(tile)
    if width == tile.columns:
        s[out].vectorize(own)
        return
    across, lanes = s[out].split(own, factor=width) if width > 1 else (own, None)
    s[out].unroll(across)
    if lanes is not None:
        s[out].vectorize(lanes)


def _load(s: ScheduleHandle, source: Tensor, reader: Tensor, at: tuple[Operation, IterVar], chunk: int) -> None:
    """Load a thread's part of a tensor in aligned vectors."""
    mine = s.cache_read(source, "local", [reader])
    *outer, lanes = s[mine].transform_layout(lambda *i: [*i[:-1], i[-1] // chunk, i[-1] % chunk])
    s[mine].compute_at(s[at[0]], at[1])
    for axis in outer:
        s[mine].unroll(axis)
    s[mine].vectorize(lanes)
