"""The time of lowering, by pass: python -m benchmarks.lowering [--count N]

For each program and each part of the way: the median milliseconds over N lowerings of fresh schedules on one core,
warm. Also the number of nodes that each pass visits, which does not depend on the machine. Memo tables that outlive a
lowering are warm, as when candidates are tuned.

Then the same, in CPU time, for 50 random valid configurations of the tuning document's space (16 to 1,024 threads, at
most 16 virtual threads). This includes instantiation: it is the cost of each candidate of a search.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.bounds.infer import infer_bounds
from tilewright.core.node import Node
from tilewright.core.options import DEFAULT_OPTIONS
from tilewright.core.recursion import deep
from tilewright.core.target import Target
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.loops.build import build_function
from tilewright.passes.runner import finishing, lowering, run
from tilewright.refine.refine import refine

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conv2d_hwcn
import depthwise_fused
import tune_conv2d  # noqa: F401  # defines the template

from tilewright import autotvm

CUDA = Target("cuda")
LOWERING = lowering(CUDA)
Make = Callable[[], tuple[Any, list[Any]]]


def programs() -> dict[str, Make]:
    """The documents' programs, each made anew at every call."""
    made: dict[str, Make] = {}
    for ladder in (Conv1dLadder(), DepthwiseLadder()):
        for rung in ladder.rungs:
            made[f"{ladder.title} {rung.name}"] = lambda ladder=ladder, rung=rung: _ladder(ladder, rung)
    made["conv2d HWCN"] = lambda: _example(conv2d_hwcn.vector(conv2d_hwcn.Problem()))
    best = depthwise_fused.Case(threads=(8, 16), vthreads=(1, 2), fused=True)
    made["depthwise fused"] = lambda: depthwise_fused.schedule(best)
    return made


def _ladder(ladder: Any, rung: Any) -> tuple[Any, list[Any]]:
    program = rung.make(ladder)
    return program.schedule, list(program.args)


def _example(made: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    return made[0], list(made[1:])


@deep  # `lower` is, too: passes find the room for deep programs made
def measure(make: Make, clock: Callable[[], float] = time.perf_counter, compiled: bool = False) -> dict[str, float]:
    """Milliseconds of each part of one lowering of a fresh schedule.

    `compiled`: lower as for a candidate on a GPU. The time of the schedule counts too, fills are spread, and the passes
    after lowering have their own part, "finish".
    """
    marks = [clock()]
    schedule, args = make()
    marks.append(clock())
    bounds = infer_bounds(schedule.value)
    if compiled:
        bounds = refine(schedule.value, bounds, CUDA).bounds
    marks.append(clock())
    function = build_function(schedule.value, bounds, args)
    marks.append(clock())
    parts = {"schedule": marks[1] - marks[0]} if compiled else {}
    parts |= {"bounds": marks[2] - marks[1], "loops": marks[3] - marks[2]}
    for step in LOWERING:
        function = step(function, CUDA, DEFAULT_OPTIONS)
        marks.append(clock())
        parts[step.__name__] = marks[-1] - marks[-2]
    parts = {"total": sum(parts.values()), **parts}
    if compiled:
        run(finishing(CUDA), function, CUDA)
        parts["finish"] = clock() - marks[-1]
    return {name: seconds * 1e3 for name, seconds in parts.items()}


def space(count: int = 50, seed: int = 0) -> list[Make]:
    """Random valid configurations of the tuning document's space, the same ones for the same seed."""
    task = autotvm.task.create("examples/conv2d", (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1)), "cuda")
    rng = random.Random(seed)
    made: list[Make] = []
    while len(made) < count:
        config = task.config_space.get(rng.randrange(len(task.config_space)))
        tiles = [config[name].size for name in ("tile_f", "tile_y", "tile_x")]
        if 16 <= math.prod(t[2] for t in tiles) <= 1024 and math.prod(t[1] for t in tiles) <= 16:
            made.append(lambda config=config: task.instantiate(config))
    return made


@contextmanager
def counting() -> Iterator[list[int]]:
    """Counts the nodes with children that are read or rewritten while the context is open."""
    count = [0]
    saved: list[tuple[type, str, Any]] = []

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def visit(*args: Any) -> Any:
            count[0] += 1
            return original(*args)

        return visit

    classes = [Node]
    for cls in classes:
        classes.extend(cls.__subclasses__())
        for name in ("children", "map_children"):
            if name in vars(cls):
                saved.append((cls, name, vars(cls)[name]))
                setattr(cls, name, counted(vars(cls)[name]))
    try:
        yield count
    finally:
        for cls, name, original in saved:
            setattr(cls, name, original)


def visits(make: Make) -> dict[str, int]:
    """The nodes that each pass of one lowering visits."""
    schedule, args = make()
    function = build_function(schedule.value, infer_bounds(schedule.value), args)
    found: dict[str, int] = {}
    with counting() as count:
        for step in LOWERING:
            before = count[0]
            function = step(function, CUDA, DEFAULT_OPTIONS)
            found[step.__name__] = count[0] - before
    return found


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=15, help="lowerings of each program")
    count = parser.parse_args().count
    names = ["total", "bounds", "loops", *(step.__name__ for step in LOWERING)]
    width = [max(9, len(name)) for name in names]

    def row(title: str, cells: list[str]) -> None:
        print(f"{title:18}" + "".join(f"  {cell:>{w}}" for cell, w in zip(cells, width, strict=True)))

    print("milliseconds, median")
    row("", names)
    for title, make in programs().items():
        runs = [measure(make) for _ in range(count + 2)][2:]
        row(title, [f"{statistics.median(r[name] for r in runs):.2f}" for name in names])
    print("\nnodes visited")
    row("", names)
    for title, make in programs().items():
        found = visits(make)
        row(title, [str(sum(found.values())), "", "", *(str(found[step.__name__]) for step in LOWERING)])
    search()


def search() -> None:
    """Print the cost of a search's candidates."""
    runs = [measure(make, time.process_time, compiled=True) for make in space()]
    print(f"\n{len(runs)} random configurations of the tuning document's space, CPU milliseconds")
    print(f"{'':24}  {'median':>8}  {'90%':>8}  {'largest':>8}  {'mean':>8}")
    for name in runs[0]:
        times = sorted(run[name] for run in runs)
        cells = (statistics.median(times), times[len(times) * 9 // 10], times[-1], statistics.mean(times))
        print(f"{name:24}" + "".join(f"  {cell:8.1f}" for cell in cells))


if __name__ == "__main__":
    main()
