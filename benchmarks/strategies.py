"""The strategy of a layer without records, and the fastest one: python -m benchmarks.strategies [--out FILE]

Layers of common shapes are drawn at random, but always the same. Each strategy that might be removed has a kind of
layers: convolutions in small groups, depthwise ones of small images or lines, transposed ones, dense ones of few
channels. Each strategy's first configuration, or the `--each` that its model likes best, is compiled by all processors.
All are checked against float64 on poisoned output, and timed in turns. A line has the time of the strategy that a call
without records takes, of the fastest one, and of PyTorch. The summary shows how far choices are from the fastest. For
each strategy, it has the loss without it: the best of the others over the best of all. FILE gets the prediction of each
model, in cycles, beside the measurement.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from math import inf
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.networks import TARGET, Bench, Tried
from tilewright.core.errors import TVMError
from tilewright.functional.arguments.problem import CONV, TRANSPOSED, Problem
from tilewright.functional.planning.compiler import Selection, compiled, strategies_of
from tilewright.topi.templates import Epilogue, default_strategy

KINDS = ("groups", "planes", "lines", "phases", "windows")
Line = dict[str, Any]


def drawn(kind: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """Draw a number of layers of a kind."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(count):
        if kind in OTHERS:
            yield OTHERS[kind](rng)
            continue
        size, stride = rng.choice((7, 10, 14, 16, 20, 28) if kind == "planes" else (14, 20, 28, 40, 56, 80)), 1
        if rng.random() < 0.3:
            stride = 2
        kernel = rng.choice((3, 3, 5, 7) if kind == "planes" else (3, 3, 3, 5))
        channels = 64 * rng.choice((2, 3, 4, 6, 8, 12))
        batch = rng.choice((1, 8, 16, 32, 64, 128))
        while batch * channels * size * size > 24_000_000:
            batch //= 2
        groups = channels if kind == "planes" else channels // rng.choice((2, 4, 8, 16))
        dtype = rng.choice(("float32", "float16", "bfloat16")[kind == "groups" :])
        layout = "NCHW" if kind == "planes" or rng.random() < 0.6 else "NHWC"
        border = (kernel // 2,) * 4
        shape = (batch, channels, size, size)
        window = (kernel, kernel), (stride, stride), border, (1, 1)
        yield Problem(CONV, shape, channels, *window, groups, dtype, layout)


def _line(rng: random.Random) -> Problem:
    """A depthwise layer of lines with channels last and a long window."""
    channels, taps, length = (
        64 * rng.choice((4, 8, 12, 16, 48)),
        rng.choice((13, 15, 24, 31, 63)),
        rng.choice((512, 2048)),
    )
    shape, border = (rng.choice((1, 8, 16)), channels, 1, length), (0, taps // 2, 0, taps // 2)
    dtype = rng.choice(("float32", "float16", "bfloat16"))
    return Problem(CONV, shape, channels, (1, taps), (1, 1), border, (1, 1), channels, dtype, "NHWC")


def _upsampling(rng: random.Random) -> Problem:
    """A transposed depthwise layer with a stride."""
    taps, step, zeros, more = rng.choice(((2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1), (5, 3, 2, 0)))
    channels, size, dtype = 64 * rng.choice((1, 2, 4)), 2 * rng.choice((7, 14, 28)), rng.choice(("float32", "float16"))
    window = (taps, taps), (step, step), (zeros,) * 4, (1, 1), channels, dtype, rng.choice(("NCHW", "NHWC"))
    shape = (rng.choice((1, 8, 32)), channels, size, size)
    return Problem(TRANSPOSED, shape, channels, *window, output_padding=(more, more))


def _few_channels(rng: random.Random) -> Problem:
    """A dense layer of few channels, which are last."""
    channels, size, step = rng.choice((16, 32, 48, 64)), rng.choice((28, 56, 112)), rng.choice((1, 1, 2))
    window = (3, 3), (step, step), (1, 1, 1, 1), (1, 1), 1, rng.choice(("float16", "bfloat16")), "NHWC"
    return Problem(CONV, (rng.choice((1, 16, 64)), channels, size, size), channels, *window, weights="OHWI")


OTHERS: dict[str, Callable[[random.Random], Problem]] = {
    "lines": _line,
    "phases": _upsampling,
    "windows": _few_channels,
}
"""The drawings of kinds that are neither small groups nor small images."""


def programs_of(problem: Problem, each: int) -> list[tuple[Tried, float | None]]:
    """Compile the favourites of each strategy, beginning with the choice of a call without records, with the predicted
    cycles."""
    able, of = strategies_of(problem, TARGET)
    chosen = default_strategy(able, of, TARGET)
    made = []
    for template in sorted(able, key=lambda template: template is not chosen):
        strategy = template.strategy(TARGET)
        likes = strategy.rank(of)[:each] if strategy.rank(of) else []
        configs = dict.fromkeys(
            [template.default_config(of, TARGET).index, *(strategy.nearest(of, c).index for c in likes)]
        )
        for index in list(configs)[:each]:
            config = strategy.space(of).get(index or 0)
            try:
                program = compiled(Selection(template, of, config, "tried"), TARGET, Epilogue())
            except TVMError:
                continue
            expected = strategy.expected(of, config) if strategy.own_model else None
            made.append((Tried(template.name, index or 0, program), expected and expected.cycles))
    return made


def measure(problem: Problem, programs: list[tuple[Tried, float | None]]) -> Line:
    """Time the strategies of a layer in turns with PyTorch."""
    from tilewright.functional.pytorch.timing import in_turns

    bench = Bench(problem)
    runs = [(tried, expected, bench.ours(tried.executable)) for tried, expected in programs]
    right = [run for run in runs if bench.is_right(run[2])]
    *ours, theirs = in_turns([*(run for _, _, run in right), bench.theirs], True)
    tried = [
        {"template": at.template, "index": at.index, "expected": expected, "us": seconds * 1e6}
        for (at, expected, _), seconds in zip(right, ours, strict=True)
    ]
    return {"problem": problem.description(), "wrong": len(runs) - len(right), "pytorch": theirs * 1e6, "tried": tried}


def shown(problem: Problem, line: Line) -> str:
    """A line for people."""
    first, best = line["tried"][0], min(line["tried"], key=lambda each: each["us"])
    times = f"{first['us']:8.2f} {best['us']:8.2f} {line['pytorch']:8.2f} {best['us'] / first['us']:6.2f}"
    wrong = f" ({line['wrong']} wrong)" if line["wrong"] else ""
    return f"{times}  {first['template'][5:]:18} {best['template'][5:]:18}{wrong} {problem}"


def without_each(lines: list[Line]) -> dict[str, list[float]]:
    """Return, for each strategy, the best time of the others over the best of all, for each layer that others have."""
    found: dict[str, list[float]] = {}
    for line in lines:
        best: dict[str, float] = {}
        for each in line["tried"]:
            best[each["template"]] = min(each["us"], best.get(each["template"], inf))
        for name in best if len(best) > 1 else ():
            others = min(us for other, us in best.items() if other != name)
            found.setdefault(name, []).append(others / min(best.values()))
    return found


def main() -> None:
    """Print a line for each layer, and the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kinds", nargs="*", metavar="KIND", default=[], help=", ".join(KINDS))
    parser.add_argument("--count", type=int, default=16, help="layers of each kind")
    parser.add_argument("--each", type=int, default=1, help="configurations of each strategy")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this many")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("strategies.json"))
    given = parser.parse_args()
    began, lines = time.perf_counter(), []
    problems = [problem for kind in given.kinds or KINDS for problem in drawn(kind, given.count)]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [pool.submit(programs_of, problem, given.each) for problem in problems]
        print(f"{'chosen':>8} {'best':>8} {'PyTorch':>8} {'part':>6}", flush=True)
        for problem, job in zip(problems, jobs, strict=True):
            programs = job.result()
            if given.compile_only:
                print(problem, *(f"{at.template[5:]} {expected}" for at, expected in programs), flush=True)
            elif time.perf_counter() - began < given.seconds:
                lines.append(measure(problem, programs))
                print(shown(problem, lines[-1]), flush=True)
                given.out.write_text(json.dumps(lines))
    if lines:
        parts = [min(each["us"] for each in line["tried"]) / line["tried"][0]["us"] for line in lines]
        print(f"best ÷ chosen: geometric mean {geometric_mean(parts):.3f}, least {min(parts):.3f} of {len(parts)}")
        print(f"{'without':28} {'layers':>6} {'won':>4} {'loss':>6} {'most':>6}")
    for name, losses in sorted(without_each(lines).items()):
        won = sum(loss > 1 for loss in losses)
        print(f"{name:28} {len(losses):6} {won:4} {geometric_mean(losses):6.3f} {max(losses):6.2f}")


if __name__ == "__main__":
    main()
