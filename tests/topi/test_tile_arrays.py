"""Cost models of many tiles at once: the same numbers as of single tiles, bit by bit, and the same order."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tilewright.core.atoms import Atom
from tilewright.core.target import Target
from tilewright.topi.templates import Conv2dLayer, Dense, contraction_simt, mma_tiles, named, tile_arrays, wgmma_tiles
from tilewright.topi.templates.contraction import Contraction
from tilewright.tune.model.machine import Machine
from tilewright.tune.space.predicates import Predicate
from tilewright.tune.space.space import Space

CONV2D_GEMM = named("topi/conv2d.gemm")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")
CONV2D_WGMMA = named("topi/conv2d.wgmma")
DENSE = named("topi/dense")

H200, OLDER = Machine.for_models(Target("cuda -arch=sm_90a")), Machine.for_models(Target("cuda -arch=sm_86"))
LAYERS = [
    Conv2dLayer.of((1, 513, 14, 14), filters=256, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((8, 64, 31, 30), filters=64, kernel=1, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((1, 256, 14, 14), filters=1024, kernel=1, dtype="float32"),
    Conv2dLayer.of((64, 128, 28, 28), filters=128, stride=2, dtype="float32"),
]
COUNTED = 60


@pytest.mark.parametrize("machine", [H200, OLDER])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_single_tiles_of_matrix_instructions_cost_the_same(layer: Conv2dLayer, machine: Machine) -> None:
    for template in (CONV2D_MMA, CONV2D_TF32):
        owner: Any = template.gpu.model.rank.__self__.tiles.__self__
        if layer.element not in owner.atoms:
            continue
        for _, of in owner.forms(layer):
            _same_costs(of, owner.atom(layer), machine)


def _same_costs(of: Contraction, atom: Atom, machine: Machine) -> None:
    tiles = mma_tiles.candidates(of, atom, machine, mma_tiles.MmaTile)
    _same(tiles, lambda each: each.cycles(of, atom, machine))
    _same(tiles, lambda each: each.is_possible(of, atom, machine.hardware))
    _same(tiles, lambda each: each.blocks(of))


@pytest.mark.parametrize("layer", LAYERS[:2], ids=str)
def test_single_tiles_of_warpgroups_cost_the_same(layer: Conv2dLayer) -> None:
    owner: Any = CONV2D_WGMMA.gpu.model.rank.__self__.tiles.__self__
    of, atom = owner.contraction_of(layer), owner.atom(layer)
    tiles = mma_tiles.candidates(of, atom, H200, wgmma_tiles.WgmmaTile)
    _same(tiles, lambda each: each.cycles(of, atom, H200))
    _same(tiles, lambda each: each.is_possible(of, atom, H200.hardware))


@pytest.mark.parametrize("machine", [H200, OLDER])
@pytest.mark.parametrize("layer", [*LAYERS, Dense.of((100, 777), 65, "float64")], ids=str)
def test_single_tiles_on_ordinary_arithmetic_cost_the_same(layer: Any, machine: Machine) -> None:
    owner: Any = (DENSE if isinstance(layer, Dense) else CONV2D_GEMM).gpu.model.rank.__self__.tiles.__self__
    of = owner.contraction_of(layer)
    tiles = contraction_simt.candidates(of, machine)
    _same(tiles, lambda each: each.cycles(of, machine))
    _same(tiles, lambda each: each.is_possible(of, machine.hardware))


@pytest.mark.parametrize("layer", LAYERS[1:], ids=str)
def test_spaces_ask_about_all_configurations_at_once(layer: Conv2dLayer) -> None:
    for template in (CONV2D_MMA, CONV2D_GEMM, CONV2D_WGMMA):
        if not template.covers(layer, Target("cuda -arch=sm_90a")):
            continue
        space = template.gpu.space(layer)
        single = Space(space.knobs, [replace(predicate, many=False) for predicate in space.predicates])
        points = np.random.default_rng(0).integers(space.dims, size=(300, len(space.dims)))
        wanted = [single.admits(point) for point in points.tolist()]
        assert space.admitted(points).tolist() == wanted
        (group,) = Space(space.knobs, [*space.predicates, Predicate(_shallow, ("depth",), "")])._groups
        group.tabulated = False
        assert group.test(points).tolist() == [
            ok and _shallow(space._choices(p)) for ok, p in zip(wanted, points, strict=True)
        ]
        assert True in wanted


def _shallow(choices: Any) -> bool:
    return bool(choices["depth"].val <= 32)


def _same(tiles: Any, of: Any) -> None:
    """Compare a function of all tiles with itself on some single ones."""
    whole = of(tiles)
    assert len(whole) == len(tiles.depth) > 0
    singles = tile_arrays.sort_by_cycles(tiles, np.zeros(len(tiles.depth)))
    for place in range(0, len(singles), 1 + len(singles) // COUNTED):
        assert of(singles[place]) == whole[place], singles[place]


def test_tiles_are_ranked_by_cost_and_ties_by_their_order() -> None:
    owner: Any = CONV2D_MMA.gpu.model.rank.__self__.tiles.__self__
    atom = owner.atom(LAYERS[0])
    found = mma_tiles.rank_tiles(owner.forms(LAYERS[0]), atom, H200)
    costs = [tile.cycles(owner.form(LAYERS[0], tile), atom, H200) for tile in found[:200]]
    assert all(a <= b for a, b in pairwise(costs))
    tiles = contraction_simt.candidates(owner.contraction_of(LAYERS[0]))
    every = tile_arrays.sort_by_cycles(tiles, np.zeros(len(tiles.depth)))
    assert [every[n] for n in (0, 1)] == list(every[:2])
    assert len(every[3:]) == len(every) - 3
    assert all(isinstance(number, int) for number in (*every[0].rows, every[0].depth))
