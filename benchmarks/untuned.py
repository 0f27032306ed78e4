"""Forty shapes that no record was tuned for, as shipped, beside PyTorch: python -m benchmarks.untuned [--out FILE]

The shapes have odd sizes, prime numbers of channels, windows of one row and windows of 1 to 31, strides, dilations, and
multipliers. Batches have 1 to 256 images, in four types and two layouts. Each call's result is checked against float64,
and its kernel timed in turns with PyTorch's. The call may run PyTorch's kernel instead, so its ratio is never far below
1.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.report.table import Column, table

LIMITS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-12}
"""The relative L2 error that is allowed, as `benchmarks.convolutions` has it."""


def _of(
    shape: tuple[int, int, int, int],
    kernel: Any,
    groups: int,
    *,
    dtype: str = "float32",
    layout: str = "NCHW",
    filters: int = 0,
    stride: int = 1,
    dilation: int = 1,
    padding: tuple[int, int, int, int] | None = None,
) -> Problem:
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    top, left = ((tap - 1) * dilation // 2 for tap in taps)
    zeros = (top, left, top, left) if padding is None else padding
    steps = (1 if taps[0] == 1 and shape[2] == 1 else stride, stride)
    return Problem(CONV, shape, filters or shape[1], taps, steps, zeros, (dilation, dilation), groups, dtype, layout)


def _line(batch: int, channels: int, length: int, taps: int, dtype: str, **more: Any) -> Problem:
    return _of((batch, channels, 1, length), (1, taps), channels, dtype=dtype, **more)


HALF, BRAIN, LAST = "float16", "bfloat16", "NHWC"
SHAPES = [
    _of((1, 37, 61, 61), 3, 37),
    _of((1, 101, 23, 29), 5, 101, dtype=HALF),
    _of((2, 53, 45, 77), 7, 53, dtype=BRAIN),
    _of((4, 127, 31, 31), 3, 127, layout=LAST),
    _of((8, 61, 50, 50), 3, 61, dtype=HALF, layout=LAST),
    _of((1, 64, 111, 113), (1, 7), 64),
    _of((2, 96, 67, 35), (7, 1), 96, dtype=HALF),
    _of((1, 48, 90, 90), 3, 48, stride=3),
    _of((3, 80, 64, 50), 5, 80, stride=3, dtype=BRAIN),
    _of((1, 72, 57, 57), 3, 72, dilation=2),
    _of((5, 40, 40, 72), 5, 40, dilation=2, dtype=HALF),
    _of((2, 33, 30, 30), 3, 33, filters=99),
    _of((1, 59, 44, 44), 5, 59, filters=177, dtype=HALF),
    _of((16, 24, 20, 20), 3, 24, filters=72, dtype=BRAIN, layout=LAST),
    _of((256, 31, 9, 9), 3, 31),
    _of((256, 64, 7, 7), 7, 64, dtype=HALF),
    _of((128, 40, 13, 17), 3, 40, dtype=BRAIN, stride=2),
    _of((64, 83, 28, 28), 5, 83, dtype=HALF, layout=LAST),
    _of((1, 19, 200, 200), 31, 19),
    _of((2, 32, 63, 63), 21, 32, dtype=HALF),
    _of((1, 8, 300, 301), 13, 8, dtype=BRAIN),
    _of((1, 512, 14, 14), 1, 512),
    _of((7, 73, 26, 34), 1, 73, dtype=HALF, layout=LAST),
    _of((1, 16, 40, 40), 3, 16, dtype="float64"),
    _of((2, 11, 33, 21), 9, 11, dtype="float64", layout=LAST),
    _of((1, 23, 50, 60), 4, 23, padding=(1, 1, 2, 2)),
    _of((2, 47, 37, 41), 2, 47, dtype=HALF, stride=2, padding=(0, 0, 1, 1)),
    _line(1, 97, 5000, 3, "float32"),
    _line(32, 257, 333, 5, HALF),
    _line(4, 1021, 1000, 31, "float32"),
    _line(2, 640, 4097, 4, BRAIN, padding=(0, 3, 0, 0)),
    _line(256, 13, 777, 9, HALF),
    _line(8, 300, 901, 7, "float32", dilation=4),
    _line(1, 2000, 500, 15, BRAIN, stride=2),
    _line(16, 128, 1500, 2, "float64", padding=(0, 1, 0, 0)),
    _of((1, 96, 55, 55), 3, 24),
    _of((8, 60, 29, 29), 3, 15, filters=120, dtype=HALF),
    _of((4, 112, 19, 19), 3, 28, dtype=BRAIN, layout=LAST),
    _of((1, 36, 71, 71), 5, 12, filters=72, stride=2),
    _of((32, 44, 15, 15), 3, 11, dtype=HALF, dilation=2),
]


def measured(problem: Problem) -> dict[str, Any]:
    """Check the call on a problem, and time our kernel beside PyTorch's; needs a GPU."""
    import torch

    import tilewright as tw
    from tilewright.functional.planning.decision import Side
    from tilewright.functional.planning.plans import plan_for
    from tilewright.functional.pytorch import tensors as torch_tensors
    from tilewright.functional.pytorch.timing import tensors, time_both
    from tilewright.runtime.device import cuda

    x, weight, _, _ = tensors(problem, cuda())
    top, left, bottom, right = problem.padding
    options = {"stride": problem.stride, "dilation": problem.dilation, "groups": problem.groups}
    found = tw.conv2d(x, weight, padding=((top, bottom), (left, right)), **options)
    around = torch.nn.functional.pad(x.double(), (left, right, top, bottom))
    wanted = torch.nn.functional.conv2d(around, weight.double(), **options)
    error = float((found.double() - wanted).norm() / wanted.norm())
    ours = plan_for(problem, cuda(), "")
    assert ours.executable is not None
    mine, theirs = time_both(problem, cuda(), ours.executable)
    chosen = plan_for(problem, cuda(), torch_tensors.RIVAL).choice
    return {
        "problem": problem.description(),
        "error": error,
        "ours": mine,
        "theirs": theirs,
        "runs": "ours" if chosen.side == Side.OURS else "PyTorch's",
        "why": chosen.why,
    }


def main() -> None:
    """Measure all shapes; print a table and the geometric means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="a file for all figures, a line of JSON per shape")
    given = parser.parse_args()
    from benchmarks.one_call import compile_all

    compile_all(SHAPES, ("",))
    rows = [measured(problem) for problem in SHAPES]
    if given.out:
        given.out.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    columns = [Column("shape", right=False), *map(Column, ("error", "ours, µs", "PyTorch, µs", "ratio", "runs"))]
    cells = []
    for problem, row in zip(SHAPES, rows, strict=True):
        wrong = "" if row["error"] <= LIMITS[problem.dtype] else " WRONG"
        ratio = row["theirs"] / row["ours"]
        times = (f"{row[side] * 1e6:.2f}" for side in ("ours", "theirs"))
        cells.append([str(problem), f"{row['error']:.1e}{wrong}", *times, f"{ratio:.2f}", row["runs"]])
    print("\n".join(table(columns, cells)))
    kernels = [row["theirs"] / row["ours"] for row in rows]
    calls = [ratio if row["runs"] == "ours" else 1.0 for ratio, row in zip(kernels, rows, strict=True)]
    for name, ratios in (("our kernel", kernels), ("the call", calls)):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(
            f"{name}: geometric mean {mean:.2f}, least {min(ratios):.2f}, below 0.95: {sum(r < 0.95 for r in ratios)}"
        )


if __name__ == "__main__":
    main()
