"""Layers of every kind on a CPU, our kernel as shipped beside PyTorch's: python -m benchmarks.cpu_layers [--only TEXT]

The layers are of known networks, or drawn (`benchmarks.drawn_layers`), in both memory orders. The libraries run in
turns on one thread, by its processor time, so other programs disturb little. With `--threads N`, they run on N threads
by wall-clock time, which needs idle processors. Both allocate their result. Results are compared with PyTorch's in
float64 first. `--rivals FILE` writes both times into a table of decisions:
`python -m benchmarks.cpu_layers --rivals tilewright/functional/planning/records/rivals.jsonl`.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.cpu_calls import KEEPS_MEMORY
from benchmarks.drawn_layers import drawn_layers
from benchmarks.one_call import CONVNEXT, MOBILENET, conv
from benchmarks.ship_records import write_rivals
from benchmarks.untuned import LIMITS
from tilewright.functional.arguments.problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSED, WEIGHT_GRADIENT, Problem
from tilewright.functional.planning.decision import Decision, Side
from tilewright.functional.planning.plans import CallPlan, plan_for
from tilewright.functional.planning.rivals import cpu_device, reason_for_rival
from tilewright.functional.pytorch import launches as torch_launches
from tilewright.functional.pytorch import native as torch_native
from tilewright.functional.pytorch.threads import program_of
from tilewright.functional.pytorch.timing import tensors
from tilewright.report.table import Column, table
from tilewright.runtime.device import cpu
from tilewright.topi.templates.processor import instruction_set

Clock = Callable[[], float]
SECONDS = 0.2
"""The approximate time for the rounds of a layer."""
SHORT = 10e-6
"""Seconds below which a time is mostly Python's, and decides nothing."""
DENSE = [((1, 3, 224, 224), 64, 7, 2), ((1, 64, 56, 56), 64, 3, 1), ((1, 128, 28, 28), 128, 3, 1),
         ((1, 256, 14, 14), 256, 3, 1), ((1, 512, 7, 7), 512, 3, 1), ((1, 64, 56, 56), 256, 1, 1),
         ((1, 256, 56, 56), 128, 1, 2), ((1, 16, 28, 28), 32, 3, 1), ((1, 8, 64, 64), 8, 3, 1),
         ((1, 3, 64, 64), 16, 3, 1), ((8, 32, 16, 16), 32, 3, 1), ((1, 32, 20, 20), 8, 5, 1)]  # fmt: skip
"""Shape, filters, window, step."""
GROUPED = [((1, 128, 56, 56), 128, 3, 32), ((1, 256, 14, 14), 256, 3, 32), ((1, 32, 28, 28), 32, 3, 4)]
"""Shape, filters, window, groups."""
UP = [((1, 64, 28, 28), 32, 2, 2, 0, 1), ((1, 128, 14, 14), 64, 4, 2, 1, 1), ((1, 16, 32, 32), 16, 3, 2, 1, 1),
      ((1, 64, 28, 28), 64, 4, 2, 1, 64), ((1, 96, 28, 28), 96, 7, 1, 3, 96)]  # fmt: skip
"""Shape, filters, window, step, padding, groups of transposed convolutions."""
POOLS = [(MAX_POOL, (1, 64, 112, 112), 3, 2, 1), (MAX_POOL, (8, 32, 64, 64), 2, 2, 0),
         (AVG_POOL, (1, 64, 56, 56), 2, 2, 0), (AVG_POOL, (1, 512, 7, 7), 7, 1, 0),
         (AVG_POOL, (1, 64, 56, 56), 3, 1, 1)]  # fmt: skip


def layers(dtype: str, layout: str, drawn: int) -> Iterator[Problem]:
    """All layers of a type and a memory order."""
    for channels, size, stride in MOBILENET:
        yield conv((1, channels, size, size), channels, 3, stride, 1, channels, dtype, layout)
    for channels, size in CONVNEXT:
        yield conv((1, channels, size, size), channels, 7, 1, 3, channels, dtype, layout)
    for shape, filters, kernel, stride in DENSE:
        yield conv(shape, filters, kernel, stride, kernel // 2, 1, dtype, layout)
    for shape, filters, kernel, groups in GROUPED:
        yield conv(shape, filters, kernel, 1, kernel // 2, groups, dtype, layout)
    for shape, filters, kernel, stride, zeros, groups in UP:
        taps, steps = (kernel, kernel), (stride, stride)
        yield Problem(TRANSPOSED, shape, filters, taps, steps, (zeros,) * 4, (1, 1), groups, dtype, layout)
    for op, shape, kernel, stride, zeros in POOLS:
        taps, steps = (kernel, kernel), (stride, stride)
        yield Problem(op, shape, shape[1], taps, steps, (zeros,) * 4, (1, 1), shape[1], dtype, layout)
    yield from drawn_layers(drawn, [(dtype, layout)])


def sides(problem: Problem) -> tuple[Callable[[], Any], Callable[[], Any], float]:
    """Functions that run our kernel and PyTorch's, each with a new result; and the relative error of ours."""
    x, weight, bias, residual = tensors(problem, cpu())
    ours = ours_alone(problem, x, weight, bias, residual)
    name = {CONV: "conv2d", TRANSPOSED: "conv_transpose2d"}.get(problem.op, problem.op)
    compute = torch_native.computed(problem, name, None, 4, on_gpu=False)
    exact = compute(*(None if a is None else a.double() for a in (x, weight, bias, residual)))
    error = float((ours().double() - exact).norm() / exact.norm())
    return ours, lambda: compute(x, weight, bias, residual), error


def ours_alone(problem: Problem, *given: Any) -> Callable[[], Any]:
    """A function that runs our kernel on given or random tensors, even if a call would run another one."""
    arrays = list(given) or tensors(problem, cpu())
    plan = plan_for(problem, cpu(), "")
    program = program_of(CallPlan(problem, cpu(), Decision(Side.OURS), plan.executable, "measured"))
    images = problem.layout == "NHWC" and problem.op != WEIGHT_GRADIENT
    last = torch.channels_last if images else torch.contiguous_format
    addresses = [a.data_ptr() for a in arrays if a is not None]

    def run() -> Any:
        made = torch.empty(problem.made_shape, dtype=getattr(torch, problem.made_dtype), memory_format=last)
        torch_launches.launch(program, [*addresses, made.data_ptr()], arrays[0])
        return made

    return run


def in_turns(ours: Callable[[], Any], theirs: Callable[[], Any], clock: Clock) -> tuple[float, float]:
    """The seconds that a run of each takes: medians of rounds, in turns."""
    once = min(seconds(ours, 1, clock), seconds(theirs, 1, clock))
    runs = max(1, min(500, int(1e-3 / once)))  # rounds of a millisecond
    times: tuple[list[float], list[float]] = ([], [])
    began = clock()
    while len(times[0]) < 5 or (clock() - began < SECONDS and len(times[0]) < 100):
        for run, into in zip((ours, theirs), times, strict=True):
            into.append(seconds(run, runs, clock))
    return statistics.median(times[0]), statistics.median(times[1])


def seconds(run: Callable[[], Any], runs: int, clock: Clock) -> float:
    """The seconds that one run takes."""
    start = clock()
    for _ in range(runs):
        run()
    return (clock() - start) / runs


def main() -> None:
    """Measure the layers with a text in their description, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--layouts", nargs="+", default=["NCHW", "NHWC"])
    parser.add_argument("--drawn", type=int, default=20, help="drawn layers for each type and memory order")
    parser.add_argument("--types", nargs="+", default=["float32"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rivals", type=Path, help="a table of decisions to write both times into")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)  # the number holds for both sides
    clock = time.thread_time if given.threads == 1 else time.perf_counter
    for option in KEEPS_MEMORY:
        ctypes.CDLL(None).mallopt(option, 1 << 30)
    rows: list[dict[str, Any]] = []
    kinds: dict[str, list[tuple[float, bool]]] = {}
    asked = [p for dtype in given.types for order in given.layouts for p in layers(dtype, order, given.drawn)]
    for problem in (each for each in asked if given.only in str(each)):
        with torch.inference_mode():
            ours, theirs, error = sides(problem)
            mine, their = in_turns(ours, theirs, clock)
        kept = not reason_for_rival(problem, cpu())
        note = ("" if kept else "PyTorch  ") + ("" if error <= LIMITS[problem.dtype] else f"WRONG, {error:.1e}  ")
        print(f"{their / mine:6.2f}{mine * 1e6:11.1f}{their * 1e6:11.1f}  {note}{problem}", flush=True)
        kinds.setdefault(kind(problem), []).append((their / mine, kept))
        if min(mine, their) >= SHORT:
            times = {"ours": float(f"{mine:.4g}"), "theirs": float(f"{their:.4g}")}
            rows.append({"problem": problem.description(), "device": cpu_device(instruction_set()), **times})
    if given.rivals is not None:
        write_rivals(given.rivals, rows)
    lines = [summary(what, own) for what, own in kinds.items()]
    heads = ("layers", "geomean", "least", "below 0.95", "the call", "least", "below 0.95")
    print("\n" + "\n".join(table([Column(f"threads: {given.threads}", right=False), *map(Column, heads)], lines)))


def kind(of: Problem) -> str:
    """The kind of a layer in the table."""
    what = "dense" if of.groups == 1 else "depthwise" if of.depthwise else "grouped"
    return f"{what if of.op == CONV else of.op} {of.dtype} {of.layout}"


def summary(what: str, own: list[tuple[float, bool]]) -> list[str]:
    """A line of the table: our kernel, and the kernel of a call, beside PyTorch's."""
    cells = [what, str(len(own))]
    for ratios in ([ratio for ratio, _ in own], [ratio if kept else 1.0 for ratio, kept in own]):
        cells += [f"{statistics.geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", str(sum(r < 0.95 for r in ratios))]
    return cells


if __name__ == "__main__":
    main()
