"""Timing in turns, in this process, of our kernel and PyTorch's, or of a model before and after a change."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from ..arguments.problem import WEIGHT_GRADIENT, Problem
from ..planning.decision import Decision, Side
from ..planning.plans import CallPlan
from ..planning.timed_comparison import PARTS, Comparison, Verdict
from ..programs import cuda_kernels
from . import native
from .graphs import TorchGraphTimer
from .launches import launch
from .threads import lost, program_of

if TYPE_CHECKING:
    from ...runtime.device import Device
    from ..programs.executable import Executable

_MOST_RUNS = 10
"""The most runs in one graph."""
ROUNDS = 7
"""The number of times that each piece of work is timed."""
_LEAST_ROUNDS = {True: 2 * PARTS, False: 4 * PARTS}
_MOST_ROUNDS = {True: 8 * PARTS, False: 64 * PARTS}
"""The least and most rounds of a comparison, on a GPU (True) and on a CPU, if there is time."""
_ROUND_SECONDS = 2e-3
"""The least seconds of a round."""
_SHORT_ROUND_SECONDS = 5e-4
"""The least seconds per round of a comparison on a CPU. With many short rounds, other programs leave some
undisturbed."""
_GRAPH_SECONDS = 10e-3
"""The most seconds of a graph of several runs."""
Work = Callable[[], Any]
Around = Callable[[], AbstractContextManager[Any]]


def time_both(problem: Problem, on: Device, executable: Executable) -> tuple[float, float]:
    """Return the seconds of one run of our kernel and of PyTorch's, on random data in the memory order of the
    problem."""
    ours, theirs = _in_process(problem, on, executable, _seconds)
    return ours, theirs


def compared(
    problem: Problem, on: Device, executable: Executable, margin: float = 1.0, longest: float = 1.0
) -> Comparison:
    """Compare our kernel with PyTorch's on random data until one is faster, or for `longest` seconds.

    PyTorch runs with the settings of the user, such as `torch.backends.cudnn.allow_tf32`.
    """

    def decided(works: list[Work], on_gpu: bool) -> Comparison:
        return compare(works, on_gpu, margin=margin, longest=longest)

    found: Comparison = _in_process(problem, on, executable, decided, own_settings=True)
    return found


Measure = Callable[[list[Work], bool], Any]


def _in_process(
    problem: Problem, on: Device, executable: Executable, measure: Measure, own_settings: bool = False
) -> Any:
    """Measure our kernel and PyTorch's, on the problem's device, in a thread with working PyTorch loops."""
    if on.kind == "cpu" and lost():  # PyTorch's loops work in a new thread of this forked process
        with ThreadPoolExecutor(1) as apart:
            return apart.submit(_in_process, problem, on, executable, measure, own_settings).result()
    with torch.cuda.device(on.index if on.kind == "cuda" else -1):  # events and graphs belong to the current GPU
        x, weight, bias, residual = tensors(problem, on)
        program = program_of(CallPlan(problem, on, Decision(Side.OURS), executable, "measured"))
        last = problem.layout == "NHWC" and problem.op != WEIGHT_GRADIENT
        made = torch.empty(problem.made_shape, dtype=getattr(torch, problem.made_dtype), device=x.device)
        made = made.to(memory_format=torch.channels_last) if last else made
        given = [a.data_ptr() for a in (x, weight, bias, residual, made) if a is not None]

        def ours() -> None:
            launch(program, given, x)

        compute = native.computed(problem, "conv2d", None, 4, on.kind == "cuda" and not own_settings)
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):  # autocast would cast PyTorch's arguments
            return measure([ours, lambda: compute(x, weight, bias, residual)], on.kind == "cuda")


def _seconds(works: list[Work], on_gpu: bool) -> tuple[float, float]:
    # Other programs on a CPU only make times longer, so the least time is nearest to the kernel's own.
    ours, theirs = in_turns(works, True) if on_gpu else in_turns(works, False, chosen=min)
    return ours, theirs


def tensors(problem: Problem, on: Device) -> list[Any]:
    """Return random x, weight (or the argument in its place), bias and residual of a problem; None for missing ones."""
    place = f"cuda:{on.index}" if on.kind == "cuda" else "cpu"
    dtype = getattr(torch, problem.dtype)
    own = torch.Generator(place)  # timing does not change the caller's random state
    own.manual_seed(0)

    def random(shape: tuple[int, ...], last: bool) -> Any:
        made = torch.randn(shape, generator=own, device=place).to(dtype)
        return made.to(memory_format=torch.channels_last) if last else made

    images = problem.layout == "NHWC"
    second = images if problem.op == WEIGHT_GRADIENT else problem.weights == "OHWI"
    return [
        random(problem.shape, images),
        random(problem.second_shape, second) if problem.has_weights else None,
        random((problem.filters,), False) if "bias" in problem.extra_arguments else None,
        random(problem.out_shape, images) if problem.residual else None,
    ]


class Turns:
    """Functions that are timed in turns.

    On a GPU, runs are recorded in a graph, which excludes the host's time; `eager` includes it. `around` has a context
    for each piece of work. It is entered before each measurement, outside of the timed part.
    """

    def __init__(
        self,
        works: list[Work],
        on_gpu: bool,
        around: list[Around] | None = None,
        eager: bool = False,
        enough: float = _ROUND_SECONDS,
    ):
        self.times: list[list[float]] = [[] for _ in works]
        self._measured: list[tuple[Callable[[], float], Around]] = []
        for work, enter in zip(works, around or [nullcontext for _ in works], strict=True):
            with enter():
                self._measured.append(
                    (_graph(work) if on_gpu and not eager else _repeated(work, on_gpu, enough), enter)
                )

    def run(self, rounds: int) -> None:
        """Time each function once per round; every other round has the reverse order."""
        for _ in range(rounds):
            each = list(zip(self._measured, self.times, strict=True))
            for (measure, enter), into in reversed(each) if len(self.times[0]) % 2 else each:
                with enter():
                    into.append(measure())


def in_turns(
    works: list[Work],
    on_gpu: bool,
    eager: bool = False,
    rounds: int = ROUNDS,
    chosen: Callable[[list[float]], float] = statistics.median,
) -> list[float]:
    """Return the median seconds of one run of each function, or another statistic, `chosen`, of all rounds."""
    turns = Turns(works, on_gpu, eager=eager)
    turns.run(rounds)
    return [chosen(one) for one in turns.times]


def compare(
    works: list[Work],
    on_gpu: bool,
    around: list[Around] | None = None,
    eager: bool = False,
    margin: float = 1.0,
    longest: float = 4.0,
) -> Comparison:
    """Time two functions, ours and another, until one is faster, or for about `longest` seconds."""
    began = time.monotonic()
    turns = Turns(works, on_gpu, around, eager, _ROUND_SECONDS if on_gpu else _SHORT_ROUND_SECONDS)
    least = _LEAST_ROUNDS[on_gpu]
    while True:
        turns.run(PARTS)
        ours, theirs = map(tuple, turns.times)
        rounds, spent = len(ours), time.monotonic() - began
        is_late = spent * (1 + PARTS / rounds) > longest
        if rounds < least and not is_late:
            continue
        found = Comparison(ours, theirs, statistics.median if on_gpu else min)
        if found.verdict(margin) != Verdict.CLOSE or rounds >= _MOST_ROUNDS[on_gpu] or is_late:
            return found
        least = 2 * rounds


def _repeated(work: Work, on_gpu: bool, enough: float) -> Callable[[], float]:
    """Return a function that times one run in seconds, including the host's time, averaged over enough runs."""
    wait = torch.cuda.synchronize if on_gpu else _nothing
    clock = time.perf_counter if on_gpu or torch.get_num_threads() > 1 else time.thread_time

    def seconds(number: int) -> float:
        wait()
        began = clock()
        for _ in range(number):
            work()
        wait()
        return (clock() - began) / number

    for _ in range(cuda_kernels.QUICK_AFTER if on_gpu else 1):  # until the compiled launcher is in use
        work()
    number = max(1, min(1000, int(enough / max(min(seconds(1), seconds(1)), 1e-7))))
    return lambda: seconds(number)


def _nothing() -> None:
    """Do nothing: on a CPU, work is complete when its function returns."""


def _graph(work: Work) -> Callable[[], float]:
    """Return a function that times one run on the GPU, in seconds, inside a CUDA graph of several runs."""
    timer = TorchGraphTimer(work)
    runs = max(1, min(_MOST_RUNS, int(_GRAPH_SECONDS / timer(1))))
    timer.graph(runs).replay()
    return lambda: timer(runs) / runs
