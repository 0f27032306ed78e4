"""Random layers on a CPU, the one-line call beside PyTorch's: python -m benchmarks.random_layers [--count N] [--seed S]

Operators, sizes, windows, types and memory orders are drawn at random, sizes by their logarithm. Both sides run on one
thread on the same tensors, in turns, by the processor time of that thread: medians of 11 rounds. Layers on which
PyTorch takes less than 20 µs are drawn anew. A layer with a call below 0.9 of PyTorch's speed is measured twice more;
it is slow if it is below 0.9 each time. The command names slow layers and ends with their share.

`--jobs N` measures on N processors at once. `--kernels` also times our kernel if the call runs PyTorch's. `--out FILE`
writes all times, a line of JSON per layer, from which `benchmarks.fit_rates` makes the table of decisions.
`--vectors 32` leaves AVX-512 and AMX out on both sides. `--op weight_gradient` draws the weight gradients of layers
with small groups. `--training` times whole steps: the call, and the gradients of input, weights and bias.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from tilewright.cli.sample_layers import draw
from tilewright.functional.arguments.problem import CONV, MAX_POOL, TRANSPOSED, WEIGHT_GRADIENT, Problem

ROUNDS, SHORTEST, SLOW, REPEATS = 11, 20e-6, 0.9, 3
_ROUND = 60e-6
"""Seconds that a round takes at least."""
_SMALL_GROUP = 16
"""Channels of a group from which on PyTorch computes gradients without a comparison."""
Call = Callable[[], Any]


def prepare(vectors: int) -> None:
    """Make this process run one thread on both sides, and vectors of a limited number of bytes."""
    if vectors == 32:
        os.environ.update(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2")
    import torch

    from benchmarks.cpu_calls import keep_memory
    from tilewright.codegen.llvm import compile as llvm
    from tilewright.functional.programs import fingerprint

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    keep_memory()
    if vectors == 32:
        here = llvm.host_processor("x86-64-v3", "+fma,+avx2,+f16c")
        llvm.host_processor = lambda *_: here
        plain = fingerprint.machine
        fingerprint.machine = lambda on: f"{plain(on)} AVX2"


def calls(problem: Problem) -> tuple[Call, Call]:
    """The one-line call and PyTorch's, on the same tensors."""
    import torch
    from torch.nn import functional

    import tilewright as tw
    from tilewright.functional.pytorch import native as torch_native
    from tilewright.functional.pytorch.operators import registration  # noqa: F401  # the import registers operators
    from tilewright.functional.pytorch.timing import tensors
    from tilewright.runtime.device import cpu

    x, w, bias, _ = tensors(problem, cpu())
    (top, left, *_), (kernel, stride, apart) = problem.padding, (problem.kernel, problem.stride, problem.dilation)
    one, two = torch.nn.functional, tw
    if problem.op == WEIGHT_GRADIENT:
        options = problem.kernel, stride, problem.padding, apart, problem.groups
        compute = torch_native.computed(problem, "conv2d", None, 4, on_gpu=False)
        ours = torch.ops.tilewright.weight_gradient
        return partial(ours, x, w, "weight_gradient2d", *options, "NCHW"), partial(compute, x, w, None, None)
    if problem.op == CONV and problem.kernel[0] == problem.shape[2] == 1 and problem.layout == "NCHW":
        x, w = x.squeeze(2), w.squeeze(2)
        given = {"stride": stride[1], "padding": left, "dilation": apart[1], "groups": problem.groups}
        return partial(two.conv1d, x, w, bias, **given), partial(one.conv1d, x, w, bias, **given)
    if problem.op == CONV:
        given = {"stride": stride, "padding": (top, left), "dilation": apart, "groups": problem.groups}
        return partial(two.conv2d, x, w, bias, **given), partial(one.conv2d, x, w, bias, **given)
    if problem.op == TRANSPOSED:
        given = {"stride": stride, "padding": (top, left), "groups": problem.groups}
        return partial(two.conv_transpose2d, x, w, bias, **given), partial(one.conv_transpose2d, x, w, bias, **given)
    given = {"stride": stride, "padding": (top, left)}
    given |= {"dilation": apart} if problem.op == MAX_POOL else {}
    name = "max_pool2d" if problem.op == MAX_POOL else "avg_pool2d"
    return partial(getattr(two, name), x, kernel, **given), partial(getattr(functional, name), x, kernel, **given)


def steps(problem: Problem) -> tuple[Call, Call]:
    """A training step with the one-line call, and with PyTorch's; each returns the gradients."""
    import torch

    grad = torch.randn_like(calls(problem)[1]())

    def step(call: Any) -> Any:
        given = [a.requires_grad_() for a in call.args if a is not None]
        return torch.autograd.grad(call(), given, grad)

    ours, theirs = calls(problem)
    return partial(step, ours), partial(step, theirs)


def drawn(rng: random.Random, given: argparse.Namespace) -> Problem:
    """Draw a layer of the wanted kind."""
    wanted = CONV if given.training or given.op == WEIGHT_GRADIENT else given.op
    while True:
        found = draw(rng, rng.choice(given.types) if given.types else "")
        if wanted in ("", found.op) and given.op != WEIGHT_GRADIENT:
            return found
        if wanted == found.op and found.shape[1] // found.groups < _SMALL_GROUP:
            return found._replace(op=WEIGHT_GRADIENT, bias=False)


def kernel_call(problem: Problem) -> tuple[Call, str]:
    """Our kernel by itself, even if the call runs another one; and why it is missing."""
    from benchmarks.cpu_layers import ours_alone
    from tilewright.core.errors import UserError

    try:
        return ours_alone(problem), ""
    except UserError as refused:
        return lambda: None, str(refused)


def medians(works: list[Call], rounds: int = ROUNDS) -> list[float]:
    """The median seconds of a run of each, in turns."""
    once = []
    for work in works:
        work()
        once.append(_seconds(work, 1))
    runs = [max(1, int(_ROUND / max(each, 1e-7))) for each in once]
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, count, into in zip(works, runs, times, strict=True):
            into.append(_seconds(work, count))
    return [statistics.median(each) for each in times]


def _seconds(work: Call, runs: int) -> float:
    began = time.thread_time()
    for _ in range(runs):
        work()
    return (time.thread_time() - began) / runs


def measured(problem: Problem, kernels: bool, training: bool = False) -> dict[str, Any] | None:
    """The times of a layer; None for one that is too short."""
    import torch

    from tilewright.functional.planning.decision import Side
    from tilewright.functional.planning.plans import plan_for
    from tilewright.functional.pytorch import tensors as torch_tensors
    from tilewright.runtime.device import cpu

    with nullcontext() if training else torch.inference_mode():
        call, theirs = steps(problem) if training else calls(problem)
        theirs()
        if min(_seconds(theirs, 1) for _ in range(3)) < SHORTEST:
            return None
        began = time.perf_counter()
        made = call()
        first, error = time.perf_counter() - began, _error(made, theirs())
        runs = plan_for(problem, cpu(), torch_tensors.RIVAL).choice
        own, refused = kernel_call(problem) if kernels and runs.side != Side.OURS else (call, "")
        mine, their, kernel = medians([call, theirs, own])
        for _ in range(REPEATS - 1):
            if mine <= their / SLOW:
                break
            again = medians([call, theirs])
            if their / mine < again[1] / again[0]:
                mine, their = again
        row: dict[str, Any] = {"problem": problem.description(), "call": mine, "theirs": their, "runs": runs.side}
        row |= {"ours": mine if runs.side == Side.OURS else kernel} if kernels and not refused else {}
        return {**row, "first": first, "error": error, "why": runs.why}


def _error(made: Any, wanted: Any) -> float:
    if isinstance(made, tuple):
        return max(map(_error, made, wanted))
    size = float(wanted.double().norm())
    return float((made.double() - wanted.double()).norm()) / size if 0 < size < math.inf else 0.0


def worker(job: int, jobs: int, given: argparse.Namespace, rows: Any) -> None:
    """Measure the share of one process."""
    if jobs > 1:
        cores = sorted({_siblings(each) for each in os.sched_getaffinity(0)})
        os.sched_setaffinity(0, {int(cores[job % len(cores)])})
    prepare(given.vectors)
    rng = random.Random(f"{given.seed} {job}")
    ends, left = time.perf_counter() + given.seconds, given.count // jobs + (job < given.count % jobs)
    while left and time.perf_counter() < ends:
        problem = drawn(rng, given)
        try:
            row = measured(problem, given.kernels, given.training)
        except Exception as failed:
            row = {"problem": problem.description(), "failed": f"{type(failed).__name__}: {failed}"}
        if row is not None:
            left -= 1
            rows.put(row)
    rows.put(None)


def _siblings(processor: int) -> int:
    """The first of the processors that share a core with one."""
    path = Path(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list")
    try:
        return int(re.split("[,-]", path.read_text())[0])
    except (OSError, ValueError):
        return processor


def results(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The rows of all processes as they come."""
    spawn = multiprocessing.get_context("spawn")
    rows: Any = spawn.Queue()
    team = [spawn.Process(target=worker, args=(job, given.jobs, given, rows)) for job in range(given.jobs)]
    for each in team:
        each.start()
    running = len(team)
    while running:
        row = rows.get()
        running -= row is None
        if row is not None:
            yield row


def main() -> None:
    """Measure, print slow layers, wrong ones and failures, and their share."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--types", nargs="+", default=[])
    parser.add_argument("--op", default="", help="the operator of all layers")
    parser.add_argument("--training", action="store_true", help="whole training steps of convolutions")
    parser.add_argument("--vectors", type=int, choices=(32, 64), default=64)
    parser.add_argument("--seconds", type=float, default=math.inf, help="ends the run, however many layers are left")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    ratios, ours, slow = [], 0, []
    out = given.out.open("a", encoding="utf-8") if given.out else None
    for row in results(given):
        if out:
            print(json.dumps(row), file=out, flush=True)
        problem = Problem.read(row["problem"])
        if "failed" in row:
            print(f"FAILED {problem}: {row['failed']}", flush=True)
            continue
        ratio = row["theirs"] / row["call"]
        ratios.append(ratio)
        ours += row["runs"] == "ours"
        limit = {"float32": 1e-4, "float64": 1e-10}.get(problem.dtype, 2e-2)
        if row["error"] > limit:
            print(f"WRONG {row['error']:.1e} {problem}", flush=True)
        if ratio < SLOW:
            slow.append(ratio)
            by = "ours" if row["runs"] == "ours" else "PyTorch's"
            print(f"slow {ratio:.2f} of {row['theirs'] * 1e6:.0f} µs, {by}: {problem}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} layers, ours on {ours}; slow: {len(slow)} ({100 * len(slow) / len(ratios):.2f}%)")
        print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main()
