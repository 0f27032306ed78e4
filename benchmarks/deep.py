"""How the time of deep programs grows: `python -m benchmarks.deep`.

Seconds of this process's processor time to declare, to lower and to compile programs of one depth and of twice that.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import tilewright as tw
from tilewright import te, tir

Made = tuple[te.Schedule, list[te.Tensor]]


def stages(count: int) -> Made:
    """Return a chain of stages that each have their own loops."""
    A = stage = te.placeholder((8,), name="A")
    for k in range(count):
        stage = te.compute((8,), lambda i, below=stage: below[i] + 1.0, name=f"T{k}")
    return te.create_schedule(stage.op), [A, stage]


def inlined(count: int) -> Made:
    """Return such a chain as one expression."""
    s, (A, last) = stages(count)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    return s, [A, last]


def splits(count: int) -> Made:
    """Return a loop that is split again and again."""
    A = te.placeholder((1 << 20,), name="A")
    B = te.compute((1 << 20,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    axis = B.op.axis[0]
    for _ in range(count):
        _, axis = s[B].split(axis, nparts=1)
    return s, [A, B]


def expression(step: Callable[[Any, Any, Any, int], Any]) -> Callable[[int], Made]:
    """Return a function that makes programs of one expression, in which each level uses the one below."""

    def made(count: int) -> Made:
        A = te.placeholder((64,), name="A")

        def body(i: Any) -> Any:
            x = A[i]
            for k in range(count):
                x = step(x, A, i, k)
            return x

        B = te.compute((64,), body, name="B")
        return te.create_schedule(B.op), [A, B]

    return made


def _mixed(x: Any, A: Any, i: Any, k: int) -> Any:
    if k % 3 == 0:
        return te.if_then_else(x > k, x - 1.0, x * 0.5) + 1.0
    return tir.Select(x > k, x + 2.0, A[(i + k) % 64]) if k % 3 == 1 else te.max(A[i] - x * 0.5, A[(i + k) % 64])


PROGRAMS: tuple[tuple[str, Callable[[int], Made], int, str], ...] = (
    ("stages", stages, 1500, "llvm"),
    ("inlined stages", inlined, 1500, "llvm"),
    ("splits", splits, 1500, "llvm"),
    ("x * 0.5 + 1", expression(lambda x, A, i, k: x * 0.5 + 1.0), 5000, "llvm"),
    ("Select", expression(lambda x, A, i, k: tir.Select(x > k, x + 2.0, A[(i + k) % 64])), 150, "cuda"),
    ("mixed choices", expression(_mixed), 150, "cuda"),
)


def measured(make: Callable[[int], Made], count: int, target: str) -> list[float]:
    """Return the seconds of each part."""
    marks = [time.process_time()]
    s, args = make(count)
    marks.append(time.process_time())
    if target == "cuda":
        s[args[-1]].bind(args[-1].op.axis[0], te.thread_axis("threadIdx.x"))
    tw.lower(s, args)
    marks.append(time.process_time())
    tw.build(s, args, "cuda -arch=sm_90" if target == "cuda" else target)
    marks.append(time.process_time())
    return [after - before for before, after in itertools.pairwise(marks)]


def main() -> None:
    """Run the command."""
    argparse.ArgumentParser(prog="python -m benchmarks.deep", description=__doc__).parse_args()
    measured(stages, 2, "llvm")  # imports
    print("| program | levels | target | declare, s | lower, s | build, s |\n|---|---|---|---|---|---|")
    for name, make, count, target in PROGRAMS:
        for levels in (count, 2 * count):
            times = " | ".join(f"{seconds:.1f}" for seconds in measured(make, levels, target))
            print(f"| {name} | {levels:,} | {target} | {times} |", flush=True)


if __name__ == "__main__":
    main()
