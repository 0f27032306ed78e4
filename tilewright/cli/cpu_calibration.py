"""`tilewright doctor --calibrate` on a CPU: rates of our kernels and PyTorch's, by which calls choose between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress

from ..core.errors import UserError
from ..functional.arguments.problem import Problem
from ..functional.planning.cpu_rates import Table
from ..functional.planning.cpu_rates_fit import Layer, table
from ..functional.planning.decision import Side
from ..functional.planning.plans import plan_for
from ..runtime.device import cpu
from ..topi.templates.processor import instruction_set
from .sample_layers import draw

TYPES = ("float32", "bfloat16", "float16", "float64")
EACH = 24
"""Layers of a type that are measured."""
Measure = Callable[[Problem], tuple[float, float]]


def samples(each: int = EACH) -> Iterator[Problem]:
    """The layers that are measured, always the same."""
    rng = random.Random(0)
    for dtype in TYPES:
        for at in range(each):
            yield draw(rng, dtype, ("NCHW", "NHWC")[at % 2])


def measured(problem: Problem) -> tuple[float, float]:
    """The seconds of our kernel and PyTorch's."""
    executable = plan_for(problem, cpu(), "").executable
    assert executable is not None  # without a rival, the plan is ours
    from ..functional.pytorch.timing import time_both  # loads PyTorch

    return time_both(problem, cpu(), executable)


def calibrate(measure: Measure = measured, step: Callable[[], None] = lambda: None, each: int = EACH) -> Table:
    """Measure layers, and fit the rates of this machine to them."""
    layers: list[Layer] = []
    for problem in samples(each):
        with suppress(UserError):  # a layer that no kernel of ours computes says nothing
            layers.append((problem, *measure(problem)))
        step()
    return table(instruction_set(), layers)


def described(found: Table) -> list[list[str]]:
    """Rows of a table: instruction set, type, side, GFLOP/s, GB/s and microseconds of a call, of all kinds together."""
    rows = []
    for name, types in found.items():
        for dtype, kinds in types.items():
            for side, (overhead, flop, size) in kinds["any"].items():
                numbers = (f"{flop / 1e9:.1f}", f"{size / 1e9:.1f}", f"{overhead * 1e6:.1f}")
                rows.append([name, dtype, "Tilewright" if side == Side.OURS else "PyTorch", *numbers])
    return rows
