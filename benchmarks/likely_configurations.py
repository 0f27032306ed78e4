"""The configurations of packaged templates that are worth measuring for a layer, as indices of their spaces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import log2
from operator import ne
from typing import Any

from tilewright.core.target import Target
from tilewright.topi.templates import PackagedTemplate
from tilewright.topi.templates.direct_tiles import candidates, cycles, wanted
from tilewright.tune.space.config import Config

TARGET = Target("cuda")


def compiled_otherwise(
    template: PackagedTemplate[Any], of: Any, config: Config, trials: int, fused: bool = True
) -> Iterator[int]:
    """A configuration with its loops in another order, and with other limits of registers; fewest changes first.

    Configurations of a kernel without an epilogue do not differ in the treatment of a bias.
    """
    strategy = template.strategy(TARGET)
    knobs = {knob.name: [choice.data for choice in knob.choices] for knob in strategy.space(of).knobs}
    same = {name: choice.size[1:] if hasattr(choice, "size") else choice.data for name, choice in config.items()}
    names = [name for name in ("bias", "order", "resident", "whole_words", "weights") if name in knobs]
    names = [name for name in names if fused or name != "bias"]
    here = tuple(same.get(name) for name in names)
    every = sorted(product(*(knobs[name] for name in names)), key=lambda each: sum(map(ne, each, here)))
    for choices in every[: max(1, trials // 2)] if names else ():
        yield strategy.nearest(of, {**same, **dict(zip(names, choices, strict=True))}).index


def neighbours(
    template: PackagedTemplate[Any], of: Any, config: Config, count: int, fused: bool = True
) -> Iterator[int]:
    """Configurations that differ in one knob, then in two, the nearest choices first; no more than `count`.

    Twice or half of a size is one step, and so is another value of a knob that has no sizes. Configurations of a kernel
    without an epilogue do not differ in the treatment of a bias.
    """
    space = template.strategy(TARGET).space(of)
    here = space.point(config.index)
    steps = [
        sorted((away, at, place) for place in range(len(knob)) if 0 < (away := _away(knob, here[at], place)) <= 2)
        for at, knob in enumerate(space.knobs)
        if fused or knob.name != "bias"
    ]
    alone = [[step] for step in sorted(step for own in steps for step in own)]
    both = [[*pair] for one, other in combinations(steps, 2) for pair in product(one, other)]
    moves = alone + sorted(both, key=lambda pair: sum(away for away, _, _ in pair))
    places = ({at: place for _, at, place in move} for move in moves)
    indices = (space.index([move.get(at, place) for at, place in enumerate(here)]) for move in places)
    for _, index in zip(range(count), filter(space.is_index_valid, indices), strict=False):
        yield index


def _away(knob: Any, here: int, there: int) -> float:
    """How far apart two choices of a knob are, in steps."""
    a, b = knob.choices[here], knob.choices[there]
    if not hasattr(a, "size"):
        return float(here != there)
    return sum(abs(log2(max(v, 1)) - log2(max(w, 1))) for v, w in zip(a.size[1:], b.size[1:], strict=True))


def drawn(template: PackagedTemplate[Any], of: Any, trials: int, fused: bool = True) -> Iterator[int]:
    """Configurations that the model likes, and some of the others; of the 1-D convolution, a grid."""
    strategy = template.strategy(TARGET)
    order = strategy.rank(of)
    if order and not template.name.endswith(".direct"):
        some = [*order[: 2 * trials // 3], *order[2 * trials // 3 :: max(1, 3 * len(order) // max(trials, 1))]]
        yield from (strategy.nearest(of, choices).index for choices in some)
        for choices in order[:4] if "resident" in (knob.name for knob in strategy.space(of).knobs) else ():
            yield from compiled_otherwise(template, of, strategy.nearest(of, choices), trials, fused)
        return
    if not template.name.endswith(".direct"):
        for threads, own, terms, shared in product((32, 64, 128, 256), (1, 2, 4), (32, 8), ("none", "weights", "both")):
            wanted_tile = {"tile": [1, threads, own], "tile_r": [1, terms], "shared": shared}
            yield strategy.nearest(of, {**wanted_tile, "auto_unroll_max_step": 64, "unroll_explicit": 1}).index
        return
    ranked = sorted(((cycles(of, *each), each) for each in candidates(of)), key=lambda pair: pair[0])
    near = [each for cost, each in ranked if cost < 2.5 * ranked[0][0]]
    some = near[: 2 * trials // 3] + near[2 * trials // 3 :: max(1, 3 * len(near) // max(trials, 1))]
    for tile, block in some:
        for order in ("terms", "rows") if of.layout == "NCHW" and of.groups == of.shape[1] else ("terms",):
            yield strategy.nearest(of, {**wanted(tile, block), "order": order}).index
    if len(strategy.space(of)["planes"].choices) > 1:
        for tile, block in near[: 2 * trials]:
            config = strategy.nearest(of, {**wanted(tile, block), "planes": "shared"})
            if config["planes"].val == "shared":
                yield config.index
