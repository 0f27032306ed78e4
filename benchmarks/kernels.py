"""Time the kernels of programs that stay as they are: python -m benchmarks.kernels [--rounds N] [--sources DIR]

They are the rungs of both ladders and the convolution document's program at its sizes. The first configurations of
eight rows of `benchmarks.convolutions`, which need no tuning, follow. `benchmarks.compare` shows from the table whether
a change of the compiler changed the speed of its code:

    python -m benchmarks.compare BASE . --same --benchmark benchmarks.kernels --rows --pairs 2

Every kernel is built first; then all of them are timed in rounds, so that other load on the machine affects each.
Nothing is checked: tests do that. `--sources` writes the generated sources; with `--no-times`, it needs no GPU.
"""

from __future__ import annotations

import argparse
import math
import runpy
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.cli.tune import OPERATORS
from tilewright.core.target import Target
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder

ROOT = Path(__file__).parents[1]
ROWS = [
    "dw-256x96-k3", "dw-256x96-k5-m2", "mbv2-b128-dw144x56", "convnext-b1-dw96x56", "dw1d-3072x202-k3",
    "conv1d-16384-k32", "resnet-last", "r50-b64-l3.3x3",
]  # fmt: skip
DOCUMENT = ROOT / "tests" / "legacy" / "scripts" / "opt_conv_cuda.py"
REPEAT, MILLISECONDS = 7, 10

Program = tuple[Any, list[Any]]


def ladder(problem: Any) -> dict[str, Callable[[], Program]]:
    """The rungs of a ladder at its usual sizes."""

    def made(rung: Any) -> Callable[[], Program]:
        def make() -> Program:
            program = rung.make(problem)
            return program.schedule, list(program.args)

        return make

    return {f"{problem.title} {rung.name}": made(rung) for rung in problem.rungs}


def document() -> Program:
    """The schedule of the convolution document: its script up to the call that builds."""
    text = DOCUMENT.read_text().partition("func = tvm.build")[0].replace("import tvm\nfrom tvm import te", "")
    names: dict[str, Any] = {"tvm": tw, "te": tw.te}
    exec(compile(text, str(DOCUMENT), "exec"), names)
    return names["s"], [names["A"], names["W"], names["B"]]


def first(name: str, target: Target) -> Program:
    """The configuration of a row that `benchmarks.convolutions` calls untuned."""
    # Run by path, because the tree that is measured may have no such file.
    rows = runpy.run_path(str(Path(__file__).with_name("convolution_rows.py")))["WORKLOADS"]
    operator, options = rows[name]
    template = OPERATORS[operator]
    workload = template.kind.of(**options)
    made: Program = template.instantiate(template.default_config(workload, target), workload.args, target)
    return made


def programs(target: Target) -> dict[str, Callable[[], Program]]:
    """The measured kernels by name."""
    rows = {f"{name} untuned": lambda name=name: first(name, target) for name in ROWS}
    return {**ladder(Conv1dLadder()), **ladder(DepthwiseLadder()), "document HWCN": document, **rows}


def timer(module: Any, args: list[Any], device: Any) -> Callable[[], list[float]]:
    """A function that times a built program, in microseconds."""
    some = np.random.default_rng(0).random(1 << 20, dtype="float32") - 0.5
    shapes = [[int(extent) for extent in tensor.shape] for tensor in args]
    arrays = [tw.nd.array(np.resize(some, math.prod(shape)).reshape(shape), device) for shape in shapes]
    evaluate = module.time_evaluator(module.entry_name, device, number=4, repeat=REPEAT, min_repeat_ms=MILLISECONDS)
    return lambda: [seconds * 1e6 for seconds in evaluate(*arrays).results]


def main() -> None:
    """Build, time, print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help=f"each of {REPEAT} measurements of each kernel")
    parser.add_argument("--sources", type=Path, help="write the sources to this folder")
    parser.add_argument("--no-times", action="store_true", help="only build")
    given = parser.parse_args()
    target, device = Target("cuda"), tw.cuda()
    built = {}
    for name, make in programs(target).items():
        schedule, args = make()
        module = tw.build(schedule, args, target)
        built[name] = module, args
        if given.sources is not None:
            given.sources.mkdir(parents=True, exist_ok=True)
            path = given.sources / f"{name.replace(' ', '-')}.cu"
            path.write_text(module.imported_modules[0].get_source())
    if given.no_times:
        return
    timers = {name: timer(module, args, device) for name, (module, args) in built.items()}
    times: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(given.rounds):
        for name, measure in timers.items():
            times[name] += measure()
    print(f"{'kernel':32}  {'median, us':>10}  {'least, us':>10}")
    for name, found in times.items():
        print(f"{name:32}  {statistics.median(found):10.3f}  {min(found):10.3f}")


if __name__ == "__main__":
    main()
