"""Products on GPUs: the tiled schedules of packaged templates, applied to a reduction as a contraction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from math import prod
from typing import Any

from ..core.atoms import atom_named
from ..core.precision import as_precise_as
from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp
from ..topi.templates import contraction_mma, wgmma_tiles
from ..topi.templates.contraction import Contraction
from ..topi.templates.contraction_mma import Mma
from ..topi.templates.contraction_simt import Simt, SimtTile
from ..topi.templates.mma_tiles import MmaTile
from ..topi.templates.tensors import Tensors
from ..tune.model.kernel_time import at_once
from ..tune.model.machine import Machine
from ..tune.space.config import Config
from ..tune.space.nearest import nearest_index
from ..tune.task import Expectation
from .dataflow import Dataflow, size
from .gpu_copies import Form, PreparedFactors, copies_for
from .kernels import FusedKernel
from .products import MatrixProduct
from .ways import Way

_STORE_BY_LANES = "vectors"
"""The choice of the knob `store` with which lanes store the neighbouring columns that they hold."""
_COMPARED_TILES = 32
"""The number of fastest tiles to compare."""
_EQUAL_CYCLES_FACTOR = 1.002
"""Tiles count as equally fast if their cycles are at most this multiple of the cycles of the fastest tile."""
_MORE_SLICES_CYCLES_FACTOR = 1.05
"""A tile of ordinary arithmetic with more slices in flight is chosen if its cycles are at most this multiple of the
fastest tile's. Of tiles with as many slices, the one with the most resident threads is chosen. Pairwise distances on an
H200 took 1.27 times the model's time with one slice, and 1.05 times with more (medians of 17 and 27 tiles)."""
_MORE_WARPGROUPS_CYCLES_FACTOR = 1.05
"""A tile with more warpgroups, in one block or in two, is chosen if its cycles are at most this multiple of the fastest
tile's. Some warpgroups multiply while others begin or store results. On an H200, a product of 4096³ takes 219 µs
instead of 274."""
_INSTRUCTIONS: tuple[tuple[str, Mapping[str, str], type[MmaTile], str], ...] = (
    ("matrix instructions", contraction_mma.DEFAULT_ATOMS, MmaTile, "fp32"),
    ("warpgroup instructions", wgmma_tiles.DEFAULT_ATOMS, wgmma_tiles.WgmmaTile, "fp32"),
    ("turned warpgroup instructions", wgmma_tiles.DEFAULT_ATOMS, wgmma_tiles.TurnedWgmmaTile, "fp32"),
    ("rounding matrix instructions", contraction_mma.ROUNDED, MmaTile, "tf32"),
    ("cutting warpgroup instructions", wgmma_tiles.ROUNDED, wgmma_tiles.WgmmaTile, "tf32_cut"),
)
"""Strategies: the name, the instruction per element type, the tile, and the precision of float32. Among strategies with
the same tile, later ones are faster."""


def ways(flow: Dataflow, form: Form, kernel: FusedKernel, op: ComputeOp, target: Target, precision: str) -> list[Way]:
    """Return the ways to compute a product on a target at a precision, sorted by the cycles of their models."""
    machine, found = Machine.for_models(target), list[tuple[float, Way]]()
    at = machine.fitted["products"]
    is_window = sum(size(axis) > 1 for axis in form[0].depth) > 1
    copied = list(copies_for(flow, form, op))
    for each, copies in ((form, None), *copied):
        of = each[1]
        before = 0.0 if copies is None else copies.cycles(machine)
        factor = at.in_place_factor if copies is None and copied and is_window else 1.0
        if found and before > min(cycles for cycles, _ in found):
            continue  # the copies alone take longer
        for name, strategy in _strategies(of, target, precision):
            tiles = _tiles(strategy, each, machine, 1)
            if not tiles or not _pays(each, copies, strategy):
                continue
            cycles = factor * float(strategy.predict(of, tiles[0], machine).cycles) + before
            depth, rows, columns = of.contraction.depth, of.contraction.rows.extent, of.contraction.columns.extent
            first = "" if copies is None else f"{copies.words}, then "
            why = (
                f"{op.name} is a product of {rows}×{depth} and {depth}×{columns}: {first}tiles by {name}, expected to "
                f"take {cycles / machine.rates.clock_hertz * 1e6:.3g} µs"
            )
            label = name if copies is None else f"{name} {copies.name}"
            found.append((cycles, _way(label, why, flow, each, copies, kernel, op, strategy, target)))
    return [way for _, way in sorted(found, key=lambda each: each[0])]


def _pays(form: Form, copies: PreparedFactors | None, strategy: Any) -> bool:
    """Return whether a strategy fits the order of columns and, with copied factors, may be faster."""
    if isinstance(strategy, Mma) and strategy.tile is wgmma_tiles.TurnedWgmmaTile and len(form[0].columns) > 1:
        return False
    return copies is None or (isinstance(strategy, Mma) and (strategy.tile.warpgroups or not copies.transposes))


def _way(
    name: str, why: str, flow: Dataflow, form: Form, copies: PreparedFactors | None, kernel: FusedKernel, op: ComputeOp,
    strategy: Any, target: Target,
) -> Way:  # fmt: skip
    of, machine = form[1], Machine.for_models(target)
    space, before = strategy.space(of), 0.0 if copies is None else copies.cycles(machine)
    if isinstance(strategy, Mma) and len(form[0].columns) > 1:
        space = space.where(
            lambda choices: choices["store"].val != _STORE_BY_LANES, ("store",), "columns in their order"
        )

    def likely(count: int) -> list[int]:
        tiles = _tiles(strategy, form, machine, count)
        return list(dict.fromkeys(nearest_index(space, tile.wanted()) for tile in tiles))

    def expected(choices: Mapping[str, Any]) -> Expectation:
        tile = strategy.tile if isinstance(strategy, Mma) else SimtTile
        found: Expectation = strategy.predict(of, tile.of(choices), machine)
        return found._replace(cycles=found.cycles + before)

    def steps(s: ScheduleHandle, config: Config) -> None:
        schedule_product(s, kernel, op, form, copies, strategy, config, target)

    is_fused = any(
        read.source.op not in kernel.members
        for stage in (kernel.out, *kernel.members)
        if stage is not op
        for read in flow.reads[stage]
    )
    default = nearest_index(space, _steadiest(strategy, form, machine, is_fused).wanted())
    return Way(name, why, space, default, steps, expected, likely, () if copies is None else copies.placed)


def _tiles(strategy: Any, form: Form, machine: Machine, count: int) -> list[Any]:
    """Return the fastest tiles of a strategy. Columns of several axes keep their order within lanes."""
    tiles = strategy.tiles(form[1], machine)
    ordered = (tile for tile in tiles if len(form[0].columns) == 1 or not getattr(tile, "vectors", False))
    return list(islice(ordered, count))


def _steadiest(strategy: Any, form: Form, machine: Machine, is_fused: bool) -> Any:
    """Return the fastest tile by the model; among equally fast tiles, the one with the most slices in flight.

    If one block of warpgroups fills a multiprocessor, two blocks with fewer slices each may be faster. If the kernel's
    epilogue reads further tensors (`is_fused`), which takes registers, one block of more warpgroups is faster.
    """
    tiles = _tiles(strategy, form, machine, _COMPARED_TILES)
    cycles = [float(strategy.predict(form[1], tile, machine).cycles) for tile in tiles]
    if not isinstance(strategy, Mma):
        close = [t for t, c in zip(tiles, cycles, strict=True) if c <= _MORE_SLICES_CYCLES_FACTOR * cycles[0]]
        return max(close, key=lambda tile: _steadiness(tile, form[1].contraction, machine))
    found = _deepest(t for t, c in zip(tiles, cycles, strict=True) if c <= _EQUAL_CYCLES_FACTOR * cycles[0])
    if not strategy.tile.warpgroups:
        return found

    def together(tile: MmaTile) -> int:
        resident = tile.resident(form[1].contraction, strategy.atom(form[1]), machine.hardware)
        return int(at_once(resident, tile.blocks(form[1].contraction), machine))

    if together(found) > 1 or found.blocks(form[1].contraction) <= machine.multiprocessors:
        return found
    close = [t for t, c in zip(tiles, cycles, strict=True) if c <= _MORE_WARPGROUPS_CYCLES_FACTOR * cycles[0]]
    if is_fused:
        return max([found, *close], key=lambda tile: int(tile.warps))
    return _deepest([t for t in close if together(t) > 1 and _are_alike(t, found)] or [found])


def _steadiness(tile: SimtTile, of: Contraction, machine: Machine) -> tuple[int, int, float]:
    """Return the slices in flight, the threads of a multiprocessor, and the results per fetched element."""
    rows, columns = prod(tile.rows), prod(tile.columns)
    resident = at_once(tile.resident(of, machine.hardware), tile.blocks(of), machine)
    return tile.stages, resident * tile.block, rows * columns / (rows + columns)


def _deepest(tiles: Iterable[Any]) -> Any:
    return max(tiles, key=lambda tile: int(tile.stages))


def _are_alike(tile: MmaTile, other: MmaTile) -> bool:
    """Return whether two tiles differ at most in their stages."""
    return bool(replace(tile, stages=other.stages) == other)


def _strategies(of: MatrixProduct, target: Target, precision: str) -> Iterator[tuple[str, Any]]:
    """Yield the fastest strategy of each tile that has at least the given precision for products of float32."""
    yield "ordinary arithmetic", Simt(_contraction, _no_views)
    if target.kind != "cuda" or not of.element:
        return
    found: dict[type[MmaTile], tuple[str, Any]] = {}
    for name, atoms, kind, needed in _INSTRUCTIONS:
        atom = atom_named(atoms[of.element]) if of.element in atoms else None
        if atom is None or atom.accumulator != of.contraction.sum_dtype or not atom.runs_on(target.hardware):
            continue
        precise = of.element != "float32" or needed in as_precise_as(precision)
        if precise and kind.covers(of.contraction, atom):
            found[kind] = name, Mma(_contraction, _no_views, atoms, tile=kind)
    yield from found.values()


def _contraction(of: MatrixProduct) -> Any:
    return of.contraction


def _no_views(*_: Any) -> Any:
    raise NotImplementedError


def schedule_product(
    s: ScheduleHandle,
    kernel: FusedKernel,
    op: ComputeOp,
    form: Form,
    copies: PreparedFactors | None,
    strategy: Any,
    config: Config,
    target: Target,
) -> None:
    """Schedule a kernel by a configuration of a strategy."""
    axes, of = form
    if copies is not None:
        copies.copy(s)
    for operand in dict.fromkeys((*kernel.operands, *(copies.placed if copies is not None else ()))):
        s[operand].compute_inline()
    left, right, product = s[op].as_product(*axes)
    if copies is not None:
        left, right = copies.unfold(s, (left, right), product)
    if kernel.out is not op:
        s[op].compute_inline()
    for member in kernel.members:
        if member is not op:
            s[member].compute_inline()
    out = s[kernel.out].op.output(0)
    sums = s[product].op.output(0)
    strategy.schedule(of, config, s, Tensors(left, right, (), sums, out, target=target, are_factors=True))
