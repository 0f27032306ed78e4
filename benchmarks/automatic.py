"""Automatic schedules beside torch.compile: python -m benchmarks.automatic [--target llvm] [--trials 64] [--only NAME]

Each program of `benchmarks.automatic_fused` and `automatic_programs` is scheduled by `tw.auto_schedule` without a
measurement, and with `--trials` by as many. Its results are checked against PyTorch in float64 before it is timed.
Ratios are the time of torch.compile, in its fastest mode, divided by ours. Plain products are compared with cuBLAS.
Both are timed in turns, by CUDA graphs on a GPU, and by the processor's time on one thread of a CPU. On a CPU, both
are functions of PyTorch's tensors that allocate their results, on PyTorch's threads; memory that is freed is used
again. A copy moves as many bytes as the program has inputs and outputs. A program that fails is a row with its error,
and counts as none in the geometric means. Without a GPU, the target "cuda" compiles the programs and times nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.automatic_fused import FUSED, PAGE
from benchmarks.automatic_programs import LAYER, PRODUCTS, Program, error_of
from benchmarks.reductions import graph_of
from benchmarks.stored_runs import run_of, write
from tilewright.core.target import Target
from tilewright.report.table import Column, table

GROUPS = {"fused programs": FUSED, "products": PRODUCTS, "the tutorial's layer": (LAYER,), "the page": PAGE}
RUNS, ROUNDS, CPU_SECONDS = 20, 7, 0.3
Timer = Callable[[], float]
"""Runs a program and returns its seconds."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""
_numbers = itertools.count()


@dataclass
class Bench:
    """The conditions of the measurements."""

    target: Target
    threads: int
    trials: int
    modes: Sequence[str]
    rivals: bool
    log: str | None = None
    device: Any = field(init=False)

    def __post_init__(self) -> None:
        self.device = tw.cuda() if self.target.is_gpu else tw.cpu()

    @property
    def sizes(self) -> str:
        return "gpu" if self.target.is_gpu else "cpu"


@dataclass
class Figures:
    """The measurements of a program, in seconds; None for one that failed or was not asked for.

    `spread` holds the quartiles of PyTorch's time divided by ours.
    """

    scheduling: float | None = None
    ranked: float | None = None
    tuned: float | None = None
    rival: float | None = None
    copy: float | None = None
    spread: tuple[float, float] | None = None
    error: float | None = None
    failure: str = ""


class Run:
    """A program on a device: its arrays, and PyTorch's tensors of the same values."""

    def __init__(self, program: Program, bench: Bench) -> None:
        self.program, self.bench = program, bench
        self.held: list[Any] = []
        sizes = program.sizes_for(bench.sizes)
        self.inputs, self.outputs = program.declare(**sizes)
        self.given = program.arrays(self.inputs, sizes)
        poison = [np.full([int(n) for n in t.shape], -7, str(t.dtype)) for t in self.outputs]
        self.bytes = sum(array.nbytes for array in (*self.given, *poison))
        self.arrays = [tw.nd.array(array, bench.device) for array in (*self.given, *poison) if bench.device.exist]

    def built(self, trials: int) -> tuple[Any, float]:
        """The function of an automatic schedule, and the seconds that the schedule took.

        It is a module on a GPU, and an operator of PyTorch's on a CPU.
        """
        tensors = [*self.inputs, *self.outputs]
        options = {"trials": trials, "log": self.bench.log} if trials else {}
        began = time.perf_counter()
        s = tw.auto_schedule(tensors, self.bench.target, **options)
        took = time.perf_counter() - began
        if self.bench.target.is_gpu:
            return tw.build(s, tensors, self.bench.target), took
        return tw.torch_operator(f"automatic::program{next(_numbers)}", s, tensors, target=self.bench.target), took

    def tensors(self, wide: bool = False) -> list[Any]:
        """The inputs as PyTorch's tensors, or in float64."""
        import torch

        device = "cuda" if self.bench.target.is_gpu else "cpu"
        found = [torch.from_numpy(array).to(device) for array in self.given]
        return [t.double() if wide and t.is_floating_point() else t for t in found]

    def error(self, function: Any) -> float:
        """The error of a call, the largest of all outputs."""
        import torch

        if self.bench.target.is_gpu:
            function(*self.arrays)
            found = [array.numpy() for array in self.arrays[len(self.inputs) :]]
        else:
            made = function(*self.tensors())
            found = [each.numpy() for each in (made if isinstance(made, (tuple, list)) else [made])]
        expected = self.program.expected(torch, self.tensors(wide=True))
        return max(error_of(ours, right.cpu().numpy()) for ours, right in zip(found, expected, strict=True))

    def ours(self, function: Any) -> Timer:
        """A timer of our program."""
        if not self.bench.target.is_gpu:
            tensors = self.tensors()
            return self._timer(lambda: function(*tensors))
        timed = function.time_evaluator(function.entry_name, self.bench.device, number=RUNS, repeat=1)
        return lambda: float(timed(*self.arrays).median)

    def rivals(self) -> dict[str, Timer]:
        """A timer for each mode of torch.compile, or of PyTorch's library if the program is one of its functions."""
        import torch

        torch._dynamo.reset()
        program, tensors = self.program, self.tensors()
        call = program.library or program.reference
        if program.is_library:
            return {"library": self._timer(lambda: call(torch, *tensors))}
        found = {}
        for mode in self.bench.modes:
            compiled = torch.compile(lambda *given: call(torch, *given), mode=mode, dynamic=False)
            found[mode] = self._timer(lambda compiled=compiled: compiled(*tensors))  # type: ignore[misc]
        return found

    def copy(self) -> Timer:
        """A timer of a copy that moves as many bytes as the program."""
        import torch

        source = torch.zeros(self.bytes // 2, dtype=torch.int8, device="cuda" if self.bench.target.is_gpu else "cpu")
        target = torch.empty_like(source)
        return self._timer(lambda: target.copy_(source))

    def _timer(self, call: Callable[[], Any]) -> Timer:
        call()
        self.held.append(call)  # a graph does not keep the tensors that it reads
        return graph_of(call) if self.bench.target.is_gpu else lambda: self._seconds(call)

    def _seconds(self, call: Callable[[], Any]) -> float:
        """The seconds of a call: of the processor for one thread, which other processes do not change much."""
        clock = time.process_time if self.bench.threads == 1 else time.perf_counter
        began = clock()
        call()
        return clock() - began


def keep_memory() -> None:
    """Let glibc keep memory that is freed: pages that the system clears in each call hide the time of the programs."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)


def in_turns(timers: dict[str, Timer], enough: float) -> dict[str, list[float]]:
    """The seconds of each timer, run in turns; more rounds until `enough` seconds have passed."""
    found: dict[str, list[float]] = {name: [] for name in timers}
    for timer in timers.values():
        timer()
    began = time.perf_counter()
    while len(next(iter(found.values()))) < ROUNDS or time.perf_counter() - began < enough:
        for name, timer in timers.items():
            found[name].append(timer())
    return found


def measured(program: Program, bench: Bench) -> Figures:
    """Check and time a program. A failure of ours or of PyTorch's becomes part of the figures."""
    figures, timers, rivals = Figures(), dict[str, Timer](), dict[str, Timer]()
    run = Run(program, bench)
    for name, trials in {"ranked": 0, "tuned": bench.trials}.items() if bench.trials else [("ranked", 0)]:
        try:
            function, took = run.built(trials)
            figures.scheduling = took if not trials else figures.scheduling
            if not bench.device.exist:
                continue
            figures.error = run.error(function)
            if not figures.error <= program.error:
                raise ValueError(f"wrong: the error is {figures.error:.1e}")
            timers[name] = run.ours(function)
        except Exception as failure:
            figures.failure = figures.failure or _line(failure)
    if bench.device.exist and bench.rivals:
        try:
            rivals = run.rivals()
            timers |= {**rivals, "copy": run.copy()}
        except Exception as failure:
            figures.failure = figures.failure or f"PyTorch: {_line(failure)}"
    if timers:
        found = in_turns(timers, 0.0 if bench.target.is_gpu else CPU_SECONDS)
        if theirs := [found.pop(name) for name in rivals if name in found]:
            found["rival"] = min(theirs, key=statistics.median)
        for name, times in found.items():
            setattr(figures, name, statistics.median(times))
        if "ranked" in found and "rival" in found:
            pairs = zip(found["rival"], found["ranked"], strict=True)
            low, _, high = statistics.quantiles((rival / ours for rival, ours in pairs), n=4)
            figures.spread = low, high
    run.held.clear()
    return figures


def _line(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}".splitlines()[0][:90]


def _ratio(rival: float | None, ours: float | None) -> float | None:
    return rival / ours if rival and ours else None


def _cells(program: Program, figures: Figures) -> list[str]:
    def shown(value: float | None, scale: float, digits: int) -> str:
        return "" if value is None else f"{value * scale:.{digits}f}"

    times = [figures.ranked, figures.tuned, figures.rival, figures.copy]
    ratios = [_ratio(figures.rival, ours) for ours in (figures.ranked, figures.tuned)]
    error = "" if figures.error is None else f"{figures.error:.0e}"
    spread = "" if figures.spread is None else "{:.2f}–{:.2f}".format(*figures.spread)
    return [
        program.name, shown(figures.scheduling, 1e3, 0), *(shown(t, 1e6, 1) for t in times),
        *(shown(r, 1, 2) for r in ratios), spread, error, figures.failure,
    ]  # fmt: skip


def _stored(program: Program, figures: Figures, bench: Bench) -> dict[str, Any]:
    """The row of benchmarks/data, in µs."""
    sides = {side: getattr(figures, side) for side in ("ranked", "tuned", "rival", "copy")}
    found = {side: round(seconds * 1e6, 2) for side, seconds in sides.items() if seconds is not None}
    ratios = [] if figures.spread is None else [round(each, 2) for each in figures.spread]
    threads = {} if bench.target.is_gpu else {"threads": bench.threads}
    return {"row": program.name, **threads, **found, "spread": ratios, "failure": figures.failure}


def _means(name: str, every: Sequence[Figures]) -> Iterator[str]:
    """Lines with the geometric means of a group."""
    for title in ("ranked", "tuned"):
        ratios = [r for f in every if (r := _ratio(f.rival, getattr(f, title))) is not None]
        if ratios:
            mean, least = statistics.geometric_mean(ratios), min(ratios)
            yield f"{name}, {title}: geometric mean {mean:.2f}, least {least:.2f}, of {len(ratios)} of {len(every)}"
    times = sorted(f.scheduling for f in every if f.scheduling is not None)
    if times:
        yield f"{name}: scheduling takes {statistics.median(times):.2f} s in the median, {times[-1]:.2f} s at most"


def show(bench: Bench, only: Sequence[str], until: float, store: Callable[[dict[str, Any]], None]) -> None:
    """Measure the programs and print a table, then the means; no program begins after `until`. Stores each row."""
    heads = ["schedule ms", "ours µs", f"{bench.trials} trials µs", "compile µs", "copy µs", "ratio", "tuned"]
    heads += ["quartiles", "error"]
    lines: list[list[str]] = []
    means: list[str] = []
    for name, group in GROUPS.items():
        chosen = [p for p in group if not only or any(each.lower() in p.name.lower() for each in only)]
        if bench.sizes == "cpu":  # a processor has no instructions for products of float16
            chosen = [p for p in chosen if "product" not in p.name]
        every = []
        for program in chosen:
            if time.monotonic() > until:
                break
            figures = measured(program, bench)
            every.append(figures)
            store(_stored(program, figures, bench))
            lines.append(_cells(program, figures))
            print("  ".join(cell for cell in lines[-1] if cell), flush=True)
        means += _means(name, every)
    print(f"\n{bench.target} on {bench.device.name if bench.device.exist else 'no device'}, threads {bench.threads}")
    print("\n".join(table([Column("program", right=False), *map(Column, heads), Column("", right=False)], lines)))
    print("\n".join(means))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of a CPU: a table for each number")
    parser.add_argument("--only", nargs="+", default=[], help="parts of the names of programs")
    parser.add_argument(
        "--modes", nargs="+", default=["default", "max-autotune-no-cudagraphs"],
        help="of torch.compile; the fastest counts",
    )  # fmt: skip
    parser.add_argument("--no-rivals", action="store_true", help="time our programs alone")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no program later than that")
    parser.add_argument("--log", help="a log of measurements to resume from")
    parser.add_argument("--store", help="a name in benchmarks/data under which to store the run: automatic-cpu")
    given = parser.parse_args()
    target, until = Target.parse(given.target), time.monotonic() + given.seconds
    rows: list[dict[str, Any]] = []

    def store(row: dict[str, Any]) -> None:
        rows.append(row)
        if given.store:
            write(given.store, made, rows)

    if not target.is_gpu:
        keep_memory()
    device = tw.cuda() if target.is_gpu else tw.cpu()
    made = run_of(f"python -m benchmarks.automatic --target {target.kind}", device.name if device.exist else "none")
    for threads in [1] if target.is_gpu else given.threads:
        if not target.is_gpu:
            import torch

            torch.set_num_threads(threads)
        bench = Bench(target, threads, given.trials, given.modes, not given.no_rivals, given.log)
        show(bench, given.only, until, store)


if __name__ == "__main__":
    main()
