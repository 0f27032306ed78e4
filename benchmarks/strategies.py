"""Which strategy a layer takes without records, and which is fastest: python -m benchmarks.strategies [--out FILE]

Layers of common shapes are drawn at random, but always the same: convolutions in small groups in 16 bits, and depthwise
ones of small images. Each strategy's first configuration, or the `--each` that its model likes best, is compiled by all
processors, checked against float64 on poisoned output, and all of them are timed in turns. A line has the time of the
strategy that a call without records takes, of the fastest one, and of PyTorch; the summary, how far choices are from
the fastest. FILE gets the prediction of each model, in cycles, beside the measurement.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.networks import TARGET, Bench, Tried
from tilewright.core.errors import TVMError
from tilewright.functional.compiler import Selection, compiled, strategies_of
from tilewright.functional.problem import CONV, Problem
from tilewright.topi.templates import Epilogue, cheapest

KINDS = ("groups", "planes")
Line = dict[str, Any]


def drawn(kind: str, count: int, seed: int = 0) -> Iterator[Problem]:
    """Draw a number of layers of a kind."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(count):
        size, stride = rng.choice((7, 10, 14, 16, 20, 28) if kind == "planes" else (14, 20, 28, 40, 56, 80)), 1
        if rng.random() < 0.3:
            stride = 2
        kernel = rng.choice((3, 3, 5, 7) if kind == "planes" else (3, 3, 3, 5))
        channels = 64 * rng.choice((2, 3, 4, 6, 8, 12))
        batch = rng.choice((1, 8, 16, 32, 64, 128))
        while batch * channels * size * size > 24_000_000:
            batch //= 2
        groups = channels if kind == "planes" else channels // rng.choice((2, 4, 8))
        dtype = rng.choice(("float32", "float16", "bfloat16")[kind == "groups" :])
        layout = "NCHW" if kind == "planes" or rng.random() < 0.6 else "NHWC"
        border = (kernel // 2,) * 4
        shape = (batch, channels, size, size)
        window = (kernel, kernel), (stride, stride), border, (1, 1)
        yield Problem(CONV, shape, channels, *window, groups, dtype, layout)


def programs_of(problem: Problem, each: int) -> list[tuple[Tried, float | None]]:
    """Compile the favourites of each strategy, beginning with the choice of a call without records, with the predicted
    cycles."""
    able, of = strategies_of(problem, TARGET)
    chosen = cheapest(able, of, TARGET)
    made = []
    for template in sorted(able, key=lambda template: template is not chosen):
        strategy = template.strategy(TARGET)
        likes = strategy.rank(of)[:each] if strategy.rank(of) else []
        configs = dict.fromkeys(
            [template.first(of.args, TARGET).index, *(strategy.nearest(of, c).index for c in likes)]
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
    from tilewright.functional.torch_timing import in_turns

    bench = Bench(problem)
    runs = [(tried, expected, bench.ours(tried.executable)) for tried, expected in programs]
    right = [run for run in runs if bench.is_right(run[2])]
    *ours, theirs = in_turns([*(run for _, _, run in right), bench.theirs], True)
    tried = [
        {"template": at.template, "index": at.index, "expected": expected, "us": seconds * 1e6}
        for (at, expected, _), seconds in zip(right, ours, strict=True)
    ]
    return {"problem": problem.described(), "wrong": len(runs) - len(right), "pytorch": theirs * 1e6, "tried": tried}


def shown(problem: Problem, line: Line) -> str:
    """A line for people."""
    first, best = line["tried"][0], min(line["tried"], key=lambda each: each["us"])
    times = f"{first['us']:8.2f} {best['us']:8.2f} {line['pytorch']:8.2f} {best['us'] / first['us']:6.2f}"
    wrong = f" ({line['wrong']} wrong)" if line["wrong"] else ""
    return f"{times}  {first['template'][5:]:18} {best['template'][5:]:18}{wrong} {problem}"


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


if __name__ == "__main__":
    main()
