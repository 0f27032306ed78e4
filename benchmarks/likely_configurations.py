"""The configurations of packaged templates that are worth measuring for a layer, as indices of their spaces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tilewright.core.target import Target
from tilewright.topi.templates import DEPTHWISE, PackagedTemplate
from tilewright.topi.templates.direct_choice import candidates, cycles, wanted
from tilewright.tune.space.config import Config

TARGET = Target("cuda")


def compiled_otherwise(template: PackagedTemplate[Any], of: Any, config: Config, trials: int) -> Iterator[int]:
    """A configuration with its loops in another order, and with other limits of registers."""
    strategy = template.strategy(TARGET)
    knobs = {knob.name: [choice.data for choice in knob.choices] for knob in strategy.space(of).knobs}
    same = {name: choice.size[1:] if hasattr(choice, "size") else choice.data for name, choice in config.items()}
    names = [name for name in ("order", "resident") if name in knobs]
    every = list(product(*(knobs[name] for name in names)))
    for choices in every[: max(1, trials // 2)] if names else ():
        yield strategy.nearest(of, {**same, **dict(zip(names, choices, strict=True))}).index


def drawn(template: PackagedTemplate[Any], of: Any, trials: int) -> Iterator[int]:
    """Configurations that the model likes, and some of the others; of the 1-D convolution, a grid."""
    strategy = template.strategy(TARGET)
    order = strategy.order(of)
    if order and not template.name.endswith(".direct"):
        some = order[: 2 * trials // 3] + order[2 * trials // 3 :: max(1, 3 * len(order) // max(trials, 1))]
        yield from (strategy.nearest(of, choices).index for choices in some)
        for choices in order[:4] if "resident" in (knob.name for knob in strategy.space(of).knobs) else ():
            yield from compiled_otherwise(template, of, strategy.nearest(of, choices), trials)
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


def of_small_images(of: Any, trials: int) -> Iterator[int]:
    """Configurations of the general depthwise strategy whose blocks fetch whole planes."""
    strategy = DEPTHWISE.strategy(TARGET)
    for planes, rows, threads in list(product((4, 8, 16, 32), (1, 2, 7), (1, 2, 4, 7)))[:trials]:
        tiles = {"tile_c": [planes, 1], "tile_y": [threads, rows], "tile_x": [1, of.places[1], 1]}
        yield strategy.nearest(of, {**tiles, "shared": "input", "window": "all", "auto_unroll_max_step": 64}).index
