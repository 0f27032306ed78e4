"""Products on GPUs: the tiled schedules of packaged templates, for the contraction that a reduction is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ..core.atoms import atom_named
from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp
from ..topi.templates import contraction_mma, wgmma_tiles
from ..topi.templates.contraction_mma import Mma
from ..topi.templates.contraction_simt import Simt
from ..topi.templates.mma_tiles import MmaTile
from ..topi.templates.strategy import nearest_index
from ..topi.templates.tensors import Tensors
from ..tune.model.machine import Machine
from ..tune.space.config import Config
from ..tune.space.space import Space
from .kernels import FusedKernel
from .products import MatrixProduct, ProductAxes


class TiledProduct(NamedTuple):
    """A way to compute a product: a strategy, its space, the index of its default configuration, and its cycles."""

    name: str
    strategy: Any
    space: Space
    default: int
    cycles: float


def ways(of: MatrixProduct, target: Target) -> list[TiledProduct]:
    """Return the ways to compute a product on a target, the fastest by their models first."""
    machine, found = Machine.for_models(target), []
    for name, strategy in _strategies(of, target):
        tiles = strategy.tiles(of, machine)
        if not len(tiles):
            continue
        space = strategy.space(of)
        index = nearest_index(space, tiles[0].wanted())
        found.append(TiledProduct(name, strategy, space, index, float(strategy.predict(of, tiles[0], machine).cycles)))
    return sorted(found, key=lambda way: way.cycles)


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
    form: tuple[ProductAxes, MatrixProduct],
    way: TiledProduct,
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
    way.strategy.schedule(of, config, s, Tensors(left, left, (), product, out, target=target, inputs_are_placed=True))
