"""Products on GPUs: the tiled schedules of packaged templates, for the contraction that a reduction is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..core.atoms import atom_named
from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp
from ..topi.templates import contraction_mma, wgmma_tiles
from ..topi.templates.contraction_mma import Mma
from ..topi.templates.contraction_simt import Simt
from ..topi.templates.mma_tiles import MmaTile
from ..topi.templates.simt_tiles import SimtTile
from ..topi.templates.strategy import nearest_index
from ..topi.templates.tensors import Tensors
from ..tune.model.machine import Machine
from ..tune.space.config import Config
from ..tune.space.space import Space
from ..tune.task import Expectation
from .kernels import FusedKernel
from .products import MatrixProduct, ProductAxes
from .ways import Way

Form = tuple[ProductAxes, MatrixProduct]


def ways(form: Form, kernel: FusedKernel, op: ComputeOp, target: Target) -> list[Way]:
    """Return the ways to compute a product on a target, the fastest by their models first."""
    of, machine, found = form[1], Machine.for_models(target), list[tuple[float, Way]]()
    for name, strategy in _strategies(of, target):
        tiles = strategy.tiles(of, machine)
        if not len(tiles):
            continue
        cycles, space = float(strategy.predict(of, tiles[0], machine).cycles), strategy.space(of)
        rows, columns = of.contraction.rows.extent, of.contraction.columns.extent
        why = (
            f"{op.name} is a product of {rows}×{of.contraction.depth} and {of.contraction.depth}×{columns}: tiles by "
            f"{name}, expected to take {cycles / machine.rates.clock_hertz * 1e6:.3g} µs"
        )
        found.append((cycles, _way(name, why, form, kernel, op, strategy, space, target)))
    return [way for _, way in sorted(found, key=lambda each: each[0])]


def _way(
    name: str, why: str, form: Form, kernel: FusedKernel, op: ComputeOp, strategy: Any, space: Space, target: Target
) -> Way:
    of, machine = form[1], Machine.for_models(target)

    def likely(count: int) -> list[int]:
        tiles = strategy.tiles(of, machine)[:count]
        return list(dict.fromkeys(nearest_index(space, tile.wanted()) for tile in tiles))

    def expected(choices: Mapping[str, Any]) -> Expectation:
        tile = strategy.tile if isinstance(strategy, Mma) else SimtTile
        found: Expectation = strategy.predict(of, tile.of(choices), machine)
        return found

    def steps(s: ScheduleHandle, config: Config) -> None:
        schedule_product(s, kernel, op, form, strategy, config, target)

    return Way(name, why, space, likely(1)[0], steps, expected, likely)


def _strategies(of: MatrixProduct, target: Target) -> Iterator[tuple[str, Any]]:
    yield "ordinary arithmetic", Simt(_contraction, _no_views)
    if target.kind != "cuda" or not of.element:
        return
    for name, atoms, kind in (
        ("matrix instructions", contraction_mma.USUAL, MmaTile),
        ("warpgroup instructions", wgmma_tiles.USUAL, wgmma_tiles.WgmmaTile),
    ):
        atom = atom_named(atoms[of.element]) if of.element in atoms else None
        if atom is None or atom.accumulator != of.contraction.sum_dtype or not atom.runs_on(target.hardware):
            continue
        if kind.covers(of.contraction, atom):
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
