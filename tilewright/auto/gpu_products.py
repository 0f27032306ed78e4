"""Products on GPUs: the tiled schedules of packaged templates, for the contraction that a reduction is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import gcd, prod
from typing import Any

from ..core.atoms import atom_named
from ..core.precision import PRECISIONS
from ..core.target import Target
from ..expr.traverse import loads
from ..schedule.handle import ScheduleHandle
from ..tensor.axis import thread_axis
from ..tensor.tensor import ComputeOp, PlaceholderOp, Tensor
from ..topi.templates import contraction_mma, wgmma_tiles
from ..topi.templates.contraction_mma import Mma
from ..topi.templates.contraction_simt import Simt
from ..topi.templates.mma_tiles import MmaTile
from ..topi.templates.simt_tiles import SimtTile
from ..topi.templates.strategy import nearest_index
from ..topi.templates.tensors import Tensors
from ..tune.model.machine import Machine
from ..tune.space.config import Config
from ..tune.task import Expectation
from .dataflow import extent_of
from .kernels import FusedKernel
from .products import MatrixProduct, ProductAxes
from .ways import Way

Form = tuple[ProductAxes, MatrixProduct]
_VECTOR = 16
"""Bytes that a thread loads at once."""
_COPY = 1.5
"""The time of a transposed copy, relative to the time of its bytes at the rate of memory."""
_TIES, _EQUAL = 32, 1.002
"""The fastest tiles of a strategy that are compared, and the cycles up to which they take as long as the first."""
_INSTRUCTIONS: tuple[tuple[str, Mapping[str, str], type[MmaTile], str], ...] = (
    ("matrix instructions", contraction_mma.USUAL, MmaTile, "fp32"),
    ("warpgroup instructions", wgmma_tiles.USUAL, wgmma_tiles.WgmmaTile, "fp32"),
    ("turned warpgroup instructions", wgmma_tiles.USUAL, wgmma_tiles.TurnedWgmmaTile, "fp32"),
    ("rounding matrix instructions", contraction_mma.ROUNDED, MmaTile, "tf32"),
    ("cutting warpgroup instructions", wgmma_tiles.ROUNDED, wgmma_tiles.WgmmaTile, "tf32_cut"),
)
"""Strategies: the name, the instruction for a type, the tile, and the precision of float32."""
_TILE, _TURNING = 64, (8, 32)
"""Rows and columns of a tile that a block turns around, and its threads."""


def ways(form: Form, kernel: FusedKernel, op: ComputeOp, target: Target, precision: str) -> list[Way]:
    """Return the ways to compute a product on a target at a precision, the fastest by their models first."""
    machine, found = Machine.for_models(target), list[tuple[float, Way]]()
    for each, turned in ((form, None), *_turned(form, op)):
        of = each[1]
        before = 0.0 if turned is None else _cycles_of_copy(turned, machine)
        for name, strategy in _strategies(of, target, precision):
            tiles = strategy.tiles(of, machine)
            if not len(tiles) or (turned is not None and not getattr(strategy, "tile", MmaTile).warpgroups):
                continue
            cycles = float(strategy.predict(of, tiles[0], machine).cycles) + before
            depth, rows, columns = of.contraction.depth, of.contraction.rows.extent, of.contraction.columns.extent
            first = "" if turned is None else f"a transposed copy of {turned.name}, then "
            why = (
                f"{op.name} is a product of {rows}×{depth} and {depth}×{columns}: {first}tiles by {name}, expected to "
                f"take {cycles / machine.rates.clock_hertz * 1e6:.3g} µs"
            )
            label = name if turned is None else f"{name} of a copy"
            found.append((cycles, _way(label, why, each, turned, kernel, op, strategy, target)))
    return [way for _, way in sorted(found, key=lambda each: each[0])]


def _turned(form: Form, op: ComputeOp) -> Iterator[tuple[Form, Tensor]]:
    """Yield the product of a transposed copy of the right factor, and the factor, if its rows lie along the columns."""
    axes, of = form
    made = of.contraction
    if made.columns.along_depth or not of.element or len(axes.depth) > 1 or len(axes.columns) > 1:
        return
    wanted = (*(axis.var for axis in axes.batch), axes.depth[0].var, axes.columns[0].var)
    source = next((load.source for load in loads(*op.body) if load.indices == wanted), None)
    if isinstance(source, Tensor) and isinstance(source.op, PlaceholderOp):
        together = gcd(made.depth, _VECTOR // source.dtype.bytes)
        columns = replace(made.columns, along_depth=True, together=together)
        yield (axes, replace(of, contraction=replace(made, columns=columns))), source


def _cycles_of_copy(source: Tensor, machine: Machine) -> float:
    """The cycles of a kernel that reads and writes a tensor in memory."""
    moved = 2 * prod(map(extent_of, source.shape)) * source.dtype.bytes
    rates = machine.rates
    return (
        _COPY * moved / rates.memory_bytes_per_cycle / machine.multiprocessors
        + rates.launch_seconds * rates.clock_hertz
    )


def _way(
    name: str, why: str, form: Form, turned: Tensor | None, kernel: FusedKernel, op: ComputeOp, strategy: Any,
    target: Target,
) -> Way:  # fmt: skip
    of, machine = form[1], Machine.for_models(target)
    space = strategy.space(of)

    def likely(count: int) -> list[int]:
        tiles = strategy.tiles(of, machine)[:count]
        return list(dict.fromkeys(nearest_index(space, tile.wanted()) for tile in tiles))

    def expected(choices: Mapping[str, Any]) -> Expectation:
        tile = strategy.tile if isinstance(strategy, Mma) else SimtTile
        found: Expectation = strategy.predict(of, tile.of(choices), machine)
        return found

    def steps(s: ScheduleHandle, config: Config) -> None:
        if turned is not None:
            _transpose(s, turned, op)
        schedule_product(s, kernel, op, form, strategy, config, target)

    return Way(
        name, why, space, nearest_index(space, _steadiest(strategy, of, machine).wanted()), steps, expected, likely
    )


def _steadiest(strategy: Any, of: MatrixProduct, machine: Machine) -> Any:
    """The fastest tile by the model; of tiles that take as long, the one with most slices in flight."""
    tiles = strategy.tiles(of, machine)[:_TIES]
    cycles = [float(strategy.predict(of, tile, machine).cycles) for tile in tiles]
    return max((t for t, c in zip(tiles, cycles, strict=True) if c <= _EQUAL * cycles[0]), key=lambda t: int(t.stages))


def _transpose(s: ScheduleHandle, source: Tensor, reader: ComputeOp) -> None:
    """Copy a tensor with its last two dimensions exchanged: a block turns a tile around in shared memory."""
    copy = s.cache_read(source, "global", [reader])
    *batch, j, k = s[copy].transform_layout(lambda *i: [*i[:-2], i[-1], i[-2]])
    tile = s.cache_read(source, "shared", [copy])
    rows, columns = thread_axis("threadIdx.y"), thread_axis("threadIdx.x")
    (jo, ji), (ko, ki) = s[copy].split(j, factor=_TILE), s[copy].split(k, factor=_TILE)
    s[copy].reorder(*batch, jo, ko, ji, ki)
    block = s[copy].fuse(*batch, jo, ko)
    s[copy].bind(block, thread_axis("blockIdx.x"))
    s[tile].compute_at(s[copy], block)
    for stage, (slow, fast) in ((copy, (ji, ki)), (tile, s[tile].op.axis[-2:])):
        _, y = s[stage].split(slow, factor=_TURNING[0])
        x, lanes = s[stage].split(fast, factor=_TILE // _TURNING[1])
        s[stage].bind(y, rows)
        s[stage].bind(x, columns)
        s[stage].vectorize(lanes)
    s[tile].storage_align(s[tile].op.axis[-2], _TILE, 2)


def _strategies(of: MatrixProduct, target: Target, precision: str) -> Iterator[tuple[str, Any]]:
    """Yield the strategies that compute products of float32 at least so precisely."""
    yield "ordinary arithmetic", Simt(_contraction, _no_views)
    if target.kind != "cuda" or not of.element:
        return
    for name, atoms, kind, needed in _INSTRUCTIONS:
        atom = atom_named(atoms[of.element]) if of.element in atoms else None
        if atom is None or atom.accumulator != of.contraction.sum_dtype or not atom.runs_on(target.hardware):
            continue
        precise = of.element != "float32" or needed in PRECISIONS[: PRECISIONS.index(precision) + 1]
        if precise and kind.covers(of.contraction, atom):
            yield name, Mma(_contraction, _no_views, atoms, tile=kind)


def _contraction(of: MatrixProduct) -> Any:
    return of.contraction


def _no_views(*_: Any) -> Any:
    raise NotImplementedError


def schedule_product(
    s: ScheduleHandle,
    kernel: FusedKernel,
    op: ComputeOp,
    form: Form,
    strategy: Any,
    config: Config,
    target: Target,
) -> None:
    """Schedule a kernel by a configuration of a strategy."""
    axes, of = form
    for operand in kernel.operands:
        s[operand].compute_inline()
    left, _, product = s[op].as_product(*axes)
    if kernel.out is not op:
        s[op].compute_inline()
    for member in kernel.members:
        if member is not op:
            s[member].compute_inline()
    out = s[kernel.out].op.output(0)
    strategy.schedule(of, config, s, Tensors(left, left, (), product, out, target=target, inputs_are_placed=True))
