"""Random layers and configurations of the direct strategy: `python -m tests.topi.random_direct KIND [count [first]]`.

A kind names what a configuration must ask for: `rows`, results that are stored one row after another; `finished`, an
activation of the whole tile before the first store; `words`, 16-bit words that are complete before they are taken
apart; `loads`, words that one instruction loads under their condition; or two of them, joined by `+`. Layers are small
and have corners: windows that reach past the image, zeros on one side only, tiles that leave the image on two sides.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.passes.running import finish
from tests.topi.test_direct import check, problem
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import Conv2dLayer, Depthwise, Epilogue, named
from tilewright.topi.templates.direct import finishes_tiles
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.space.config import Config
from tilewright.tune.space.space import Space

CONV2D_DIRECT = named("topi/conv2d.direct")
DEPTHWISE_DIRECT = named("topi/depthwise.direct")

CUDA = Target("cuda -arch=sm_90")
KINDS = ("rows", "finished", "words", "loads", "rows+finished", "rows+words", "rows+loads")
EPILOGUES = ("none", "bias", "relu", "gelu", "silu", "hardswish", "own", "residual")
_WRITTEN_OUT = 600
"""Products that a thread's code may write out: beyond it, interpreting and compiling take seconds."""


@dataclass(frozen=True)
class Case:
    """A layer, a configuration of its kernel, and what follows the sums."""

    of: Any
    config: Config
    epilogue: str

    @property
    def program(self) -> tuple[Any, list[Any]]:
        """The schedule and its tensors."""
        made: tuple[Any, list[Any]] = template_of(self.of).program(
            self.config, self.of, CUDA, epilogue_of(self.epilogue)
        )
        return made

    def __str__(self) -> str:
        return f"{self.of}, {self.epilogue}: {self.config}"


def own(v: Any) -> Any:
    """An activation of the user's own."""
    return v * v - v * 0.5


def epilogue_of(name: str) -> Epilogue:
    """The epilogue of a name; those with an activation have a bias."""
    if name in ("none", "bias"):
        return Epilogue(bias=name == "bias")
    if name == "residual":
        return Epilogue(bias=True, residual=True, activation="relu")
    return Epilogue(bias=True, activation=own if name == "own" else name)


def template_of(of: Any) -> Any:
    """The direct strategy of a layer."""
    return DEPTHWISE_DIRECT if isinstance(of, Depthwise) else CONV2D_DIRECT


def drawn(kind: str, seed: int) -> Case:
    """The case of a kind and a seed."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    while True:
        of = _layer(kind, rng)
        if of is None or not template_of(of).covers(of, CUDA):
            continue
        config = _configuration(kind, of, rng)
        if config is not None:
            names = EPILOGUES[2:-1] if "finished" in kind else EPILOGUES
            return Case(of, config, str(rng.choice(names)))


def _layer(kind: str, rng: np.random.Generator) -> Any:
    """A small layer that may have configurations of a kind, None where the window does not fit the image."""

    def pick(*some: Any) -> Any:
        return some[int(rng.integers(len(some)))]

    dtype = pick("float32", "float32", "float64") if "finished" in kind else pick("float16", "bfloat16")
    if kind == "rows":
        dtype = pick("float16", "bfloat16", "float32", "float64")
    layout = "NCHW" if "finished" in kind else pick("NCHW", "NHWC")
    height, width = pick(1, 2, 4, 5, 7, 9), pick(1, 3, 5, 6, 7, 8, 10, 12, 16)
    kernel, stride, dilation = (
        (pick(1, 2, 3, 3, 5), pick(1, 2, 3, 3, 5)),
        *((pick(*s), pick(*s)) for s in ((1, 1, 2, 3), (1, 1, 2))),
    )
    if rng.random() < 0.15:  # a line
        height, kernel, stride, dilation = 1, (1, kernel[1]), (1, stride[1]), (1, dilation[1])
    covered = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = tuple(pick(0, c // 2, c - 1, c + 1) for c in (*covered, *covered))
    window = {
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "dtype": dtype,
        "layout": layout,
    }
    if any(size + a + b < c for size, a, b, c in zip((height, width), padding[:2], padding[2:], covered, strict=True)):
        return None
    if "rows" not in kind and rng.random() < 0.3:
        groups, seen, made = pick(1, 2, 3), pick(2, 4, 8), pick(1, 2, 3)
        return Conv2dLayer.of((pick(1, 2), groups * seen, height, width), groups * made, groups=groups, **window)
    channels = pick(2, 4, 5, 8, 8, 12) if layout == "NHWC" else pick(1, 2, 3, 5)
    return Depthwise.of((pick(1, 2), channels, height, width), multiplier=pick(1, 1, 1, 2, 3), **window)


def _configuration(kind: str, of: Any, rng: np.random.Generator) -> Config | None:
    space = narrowed(kind, of)
    if not space:
        return None
    for index in space.indices(space.draw(rng, 2)):
        config = space.get(index)
        task = template_of(of).task(of, CUDA)
        if inspect_candidate(task, config, CUDA).refusal is None:
            return config
    return None


def narrowed(kind: str, of: Any) -> Space:
    """The configurations of a kind, without those that write out many products.

    Where a kind says nothing of rows, they are not stored one after another.
    """
    by_rows = "rows" in kind
    tiles = ("tile_c", "tile_f", "tile_y", "tile_x")

    def cheap(c: Any) -> bool:
        return prod(int(c[name].size[-1]) for name in tiles) * prod(of.kernel) <= _WRITTEN_OUT

    space: Space = template_of(of).gpu.space(of)
    space = space.where(cheap, tiles, "few products")
    space = space.where(
        lambda c: prod(c[n].size[-2] for n in ("tile_c", "tile_y", "tile_x")) <= 64, tiles, "few threads"
    )
    space = space.where(lambda c: (c["order"].val == "stores") == by_rows, ("order",), "an order")
    if by_rows:
        space = space.where(
            lambda c: c["window"].val in ("all", "row", "sliding"), ("window",), "rows stored one by one"
        )
        space = space.where(lambda c: c["tile_y"].size[-1] > 1 or of.places[0] == 1, ("tile_y",), "several rows")
    for value, name in enumerate(("words", "loads"), 1):
        if name in kind:
            space = space.where(lambda c, value=value: c["whole_words"].val == value, ("whole_words",), name)
    if "finished" in kind:
        space = space.where(lambda c: c["tile_x"].size[-1] > 1 and finishes_tiles(of, c), ("tile_x",), "finished tiles")
        space = space.where(lambda c: c["bias"].val == "first", ("bias",), "nothing but sums to finish")
    return space


def right_of(case: Case) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Inputs, the result in float64, and how far from it rounding may lead."""
    if case.epilogue != "own":
        return problem(case.of, epilogue_of(case.epilogue))
    inputs, sums, allowed = problem(case.of, Epilogue(bias=True))
    right = sums * sums - 0.5 * sums
    return inputs, right, allowed * (2 * abs(sums) + 1.5) + allowed


def by_the_interpreter(case: Case) -> None:
    """Compute a case on one thread after another, with reads and races checked."""
    inputs, right, allowed = right_of(case)
    finished = finish(lower_for(CUDA, *case.program).functions[0], str(CUDA), check=True)
    out = np.full(right.shape, np.nan, inputs[0].dtype)
    interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
    check(out, right, allowed)


def by_the_emulator(case: Case) -> str:
    """Compute a case by its CUDA source on the emulated device; returns the source."""
    inputs, right, allowed = right_of(case)
    with emulation(1):
        module = emulated(*case.program)
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
        module(*arrays)
        check(arrays[-1].numpy(), right, allowed)
    return str(module.program.source)


def main(kind: str, count: int = 100, first: int = 0, how: str = "emulator") -> Iterator[str]:
    """Judge so many cases of a kind; yields what is wrong."""
    for seed in range(first, first + count):
        case = drawn(kind, seed)
        try:
            (by_the_emulator if how == "emulator" else by_the_interpreter)(case)
        except Exception as fault:  # reported with the case
            yield f"{kind} {seed}: {case}\n    {type(fault).__name__}: {fault}"


if __name__ == "__main__":
    given = sys.argv[1:]
    wrong = list(main(given[0], *map(int, given[1:3]), *given[3:4]))
    print("\n".join([*wrong, f"{len(wrong)} wrong"]))
    sys.exit(bool(wrong))
