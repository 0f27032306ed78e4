"""Time our kernel and PyTorch's for one problem, in turns, in this process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch

from . import cuda_kernels, torch_native
from .plans import OURS, CallPlan, Decision
from .problem import WEIGHT_GRADIENT, Problem
from .torch_graphs import TorchGraphTimer
from .torch_tensors import launch
from .torch_threads import lost, program_of

if TYPE_CHECKING:
    from ..runtime.device import Device
    from .executable import Executable

_RUNS, _WARM = 10, cuda_kernels.QUICK_AFTER
ROUNDS = 7
"""How often each piece of work is timed."""
_ENOUGH = 2e-3
"""Seconds that a round takes at least."""
_LONG = 10e-3
"""Seconds that a graph of several runs takes at most."""
Work = Callable[[], Any]
Around = Callable[[], AbstractContextManager[Any]]


def both(problem: Problem, on: Device, executable: Executable) -> tuple[float, float]:
    """The seconds of one run of our kernel and of PyTorch's, on random data in the memory order of the problem."""
    if on.kind == "cpu" and lost():  # PyTorch's loops have threads in a thread that this fork starts
        with ThreadPoolExecutor(1) as apart:
            return apart.submit(both, problem, on, executable).result()
    with torch.cuda.device(on.index if on.kind == "cuda" else -1):  # events and graphs are the current GPU's
        return _both(problem, on, executable)


def _both(problem: Problem, on: Device, executable: Executable) -> tuple[float, float]:
    x, weight, bias, residual = tensors(problem, on)
    program = program_of(CallPlan(problem, on, Decision(OURS), executable, "measured"))
    last = problem.layout == "NHWC" and problem.op != WEIGHT_GRADIENT
    made = torch.empty(problem.made_shape, dtype=x.dtype, device=x.device)
    made = made.to(memory_format=torch.channels_last) if last else made
    given = [a.data_ptr() for a in (x, weight, bias, residual, made) if a is not None]

    def ours() -> None:
        launch(program, given, x)

    compute = torch_native.computed(problem, "conv2d", None, 4, on.kind == "cuda")
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):  # which would cast the arguments of PyTorch's
        works: list[Work] = [ours, lambda: compute(x, weight, bias, residual)]
        # Other programs on a CPU only make times longer, so the least one is nearest to the kernel's own.
        times = in_turns(works, True) if on.kind == "cuda" else in_turns(works, False, chosen=min)
    return times[0], times[1]


def tensors(problem: Problem, on: Device) -> list[Any]:
    """Return random x, weight (or the argument in its place), bias and residual of a problem; None if absent."""
    place = f"cuda:{on.index}" if on.kind == "cuda" else "cpu"
    dtype = getattr(torch, problem.dtype)
    own = torch.Generator(place)  # a call that times kernels leaves the random numbers of its caller alone
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


def in_turns(
    works: list[Work],
    on_gpu: bool,
    around: list[Around] | None = None,
    eager: bool = False,
    rounds: int = ROUNDS,
    chosen: Callable[[list[float]], float] = statistics.median,
) -> list[float]:
    """The median seconds of one run of each piece of work, or the `chosen` statistic of all rounds, measured in turns.

    On a GPU, runs are recorded in a graph, which excludes the host's time; `eager` includes it. The context that
    `around` has for a piece of work is entered for each of its measurements, and not timed.
    """
    within: list[Around] = around or [nullcontext for _ in works]
    prepared = []
    for work, enter in zip(works, within, strict=True):
        with enter():
            prepared.append(_graph(work) if on_gpu and not eager else _repeated(work, on_gpu))
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for measure, enter, into in zip(prepared, within, times, strict=True):
            with enter():
                into.append(measure())
    return [chosen(one) for one in times]


def _repeated(work: Work, on_gpu: bool) -> Callable[[], float]:
    """Return the seconds of one run, the host's time included, averaged over enough runs."""
    wait = torch.cuda.synchronize if on_gpu else _nothing
    clock = time.perf_counter if on_gpu or torch.get_num_threads() > 1 else time.thread_time

    def seconds(number: int) -> float:
        wait()
        began = clock()
        for _ in range(number):
            work()
        wait()
        return (clock() - began) / number

    for _ in range(_WARM if on_gpu else 1):  # until the compiled launcher is in use
        work()
    number = max(1, min(1000, int(_ENOUGH / max(seconds(1), 1e-7))))
    return lambda: seconds(number)


def _nothing() -> None:
    """Wait for nothing: the host has always finished."""


def _graph(work: Work) -> Callable[[], float]:
    """Seconds of one run on the GPU, of a CUDA graph of several."""
    timer = TorchGraphTimer(work)
    runs = max(1, min(_RUNS, int(_LONG / timer(1))))
    timer.graph(runs).replay()
    return lambda: timer(runs) / runs
