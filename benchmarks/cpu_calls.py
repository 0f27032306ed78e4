"""The one-line call beside PyTorch's on the CPU: python -m benchmarks.cpu_calls [--threads 1 2] [NAME ...]

The depthwise rows of `benchmarks.convolutions` are timed in float32, in turns in one process. Both sides use the same
tensors (NCHW, and channels last) and the same number of threads. Results are compared with PyTorch's in float64 first.
A ratio is the median of the rounds' ratios, theirs over ours: above 1, ours is faster. *Runs* says which kernel the
call takes. With `--between`, each layer stands between PyTorch's ReLU of its data and of its result, and all three are
timed.

PyTorch's threads wait for each other by spinning. If other programs keep the cores busy, one of the threads often does
not run, and both sides take milliseconds. On Linux, `chrt -f 10 python -m benchmarks.cpu_calls` has priority over other
programs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
from collections.abc import Callable
from functools import partial
from statistics import geometric_mean
from typing import Any

import torch
from torch.nn.functional import conv2d

import tilewright as tw
from benchmarks.convolution_rows import DEPTHWISE, SMALL_DEPTHWISE, WORKLOADS
from benchmarks.cpu import turns
from tilewright.report.table import Column, table

KEEPS_MEMORY = (-3, -1)
"""M_MMAP_THRESHOLD and M_TRIM_THRESHOLD: PyTorch allocates its result in every call, and so does the call."""


def keep_memory() -> None:
    """Have the C library keep memory that is freed, for both sides."""
    for option in KEEPS_MEMORY:
        ctypes.CDLL(None).mallopt(option, 1 << 30)


def operands(options: dict[str, Any], last: bool) -> tuple[torch.Tensor, torch.Tensor, dict[str, Any]]:
    """Return the data, the weights, and the other arguments of a call, which both libraries take."""
    _, channels, *_ = options["shape"]
    kernel = options.get("kernel", 3)
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    filters = channels * options.get("multiplier", 1)
    x, w = torch.randn(options["shape"]), torch.randn(filters, 1, *taps)
    zeros: tuple[int, ...] = tuple(each // 2 for each in taps)
    if "padding" in options:  # more zeros on one side than on the other
        top, left, bottom, right = options["padding"]
        x, zeros = torch.nn.functional.pad(x, (left, right, top, bottom)), (0, 0)
    if last:
        x = x.to(memory_format=torch.channels_last)
        w = w.to(memory_format=torch.channels_last)
    return x, w, {"stride": options.get("stride", 1), "padding": zeros, "groups": channels}


def between(layer: Callable[..., torch.Tensor], x: torch.Tensor, *args: Any, **given: Any) -> torch.Tensor:
    """Apply a layer between two operators of PyTorch, as a network does."""
    return torch.relu(layer(torch.relu(x), *args, **given))


def row(name: str, last: bool, threads: int, seconds: float, chain: bool) -> tuple[list[str], float]:
    """Compare one layer: its line of the table, and the ratio."""
    torch.set_num_threads(threads)  # the number holds for both sides
    x, w, given = operands(WORKLOADS[name][1], last)
    ours, theirs = partial(tw.conv2d, x, w, **given), partial(conv2d, x, w, **given)
    exact = conv2d(x.double(), w.double(), **given)
    error = float((ours().double() - exact).norm() / exact.norm())
    assert error < 1e-5, f"{name}: an error of {error}"
    if chain:
        ours, theirs = (partial(between, layer, x, w, **given) for layer in (tw.conv2d, conv2d))
    theirs()
    once = sum(turns(ours, theirs, 3)[:2])
    mine, their, ratio = turns(ours, theirs, max(7, min(300, int(seconds / once))))
    runs = "ours" if "PyTorch" not in tw.explain_call(tw.conv2d, x, w, **given).splitlines()[1] else "PyTorch's"
    order = "channels last" if last else "NCHW"
    return [name, order, str(threads), f"{mine * 1e3:.3f}", f"{their * 1e3:.3f}", f"{ratio:.2f}", runs], ratio


def main() -> None:
    """Compare the rows that the command line names, or all that take no more than a second."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, len(os.sched_getaffinity(0))}))
    parser.add_argument("--between", action="store_true", help="time each layer between two operators of PyTorch")
    parser.add_argument("--seconds", type=float, default=1.0, help="that the rounds of a row may take, about")
    given = parser.parse_args()
    keep_memory()
    names = [n for n in DEPTHWISE if n.startswith(tuple(given.names))] if given.names else SMALL_DEPTHWISE
    lines, ratios = [], []
    with torch.inference_mode():
        for threads in given.threads:
            for name in names:
                for last in (False, True):
                    line, ratio = row(name, last, threads, given.seconds, given.between)
                    lines.append(line)
                    ratios.append(ratio)
                    print(" ".join(line), flush=True)
    heads = [Column("layer", right=False), Column("order", right=False)]
    heads += map(Column, ("threads", "ours, ms", "PyTorch", "ratio", "runs"))
    print("\n" + "\n".join(table(heads, lines)))
    print(f"geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
