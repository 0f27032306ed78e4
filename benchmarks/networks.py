"""Tune the layers of common networks, for the records that ship: python -m benchmarks.networks --out DIR [NETWORK ...]

All processors compile up to `--trials` configurations of each layer: the one that a call would use, and what the cost
model of each strategy likes. Each is checked against float64 on poisoned output and timed. The best one goes into
DIR/networks.log, and its time beside PyTorch's, in turns, into DIR/rivals.jsonl. Layers that those files have already
are left out, so a run of `--seconds` continues where the last one ended; so are layers with a record that ships.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.convolution_sweep import TOLERANCE, _drawn, _of_small_images
from benchmarks.network_layers import NETWORKS, layers
from tilewright.core.errors import TVMError
from tilewright.core.target import Target
from tilewright.functional import rivals
from tilewright.functional.compiler import Selection, candidate, compiled, strategies_of
from tilewright.functional.executable import Executable
from tilewright.functional.problem import Problem
from tilewright.functional.shipped import RECORDS
from tilewright.measure.outcome import MeasureResult
from tilewright.topi.templates import CONV2D_GEMM, CONV2D_MMA, DEPTHWISE, Epilogue
from tilewright.tune.records.format import MeasureInput, encode
from tilewright.tune.records.log import load_from_file

TARGET = Target("cuda -arch=sm_90")
_HOPELESS = 1.5
"""How many times as fast PyTorch may be expected to be for a layer to be worth tuning."""
_SOUND = {**TOLERANCE, "float32": 2e-6}
"""Largest relative L2 error of dense layers in float32: they add products of parts of their operands."""


def worth_tuning(names: list[str]) -> list[Problem]:
    """Return the layers without a record, those first that networks gain most from, network by network."""
    known = {(inp.task.name, tuple(inp.task.args)) for inp, _ in _shipped()}
    table = [one for one in rivals.table() if not one.device.startswith("cpu")]
    gains: dict[str, list[tuple[float, Problem]]] = {name: [] for name in names}
    for problem, networks in layers().items():
        able, workload = strategies_of(problem, TARGET)
        if any((template.name, tuple(workload.args)) in known for template in able):
            continue
        expected = rivals.estimate(problem, table)
        ratio = 1.0 if expected is None else expected.ratio
        for network, often in networks.items():
            if network in gains and ratio < _HOPELESS:
                gains[network].append((often / ratio / problem.shape[0] ** 0.5, problem))
    queues = [[p for _, p in sorted(own, key=lambda pair: -pair[0])] for own in gains.values()]
    longest = max(map(len, queues), default=0)
    return list(dict.fromkeys(queue[i] for i in range(longest) for queue in queues if i < len(queue)))


def _shipped() -> Iterator[Any]:
    for path in RECORDS.glob("*.log"):
        yield from load_from_file(path, [])


def candidates_of(problem: Problem, trials: int) -> Iterator[Selection]:
    """Return what a call would use, then what the model of each strategy likes."""
    start = candidate(problem, TARGET)
    found = {(start.template.name, start.config.index): start}
    able, of = strategies_of(problem, TARGET)
    for template in able:
        if template is CONV2D_GEMM and CONV2D_MMA in able:
            continue  # which is faster, and as exact
        strategy = template.strategy(TARGET)
        likes: Iterator[Any] = iter(())
        if template.name.endswith(".direct"):
            likes = _drawn(template, of, trials)
        elif strategy.order(of):
            likes = (strategy.nearest(of, choices).index for choices in islice(strategy.order(of), trials))
        elif template is DEPTHWISE and of.layout == "NCHW" and prod(of.shape[2:]) <= 400:
            likes = _of_small_images(of, trials // 2)
        for index in islice(likes, trials):
            config = strategy.space(of).get(index)
            found.setdefault((template.name, index), Selection(template, of, config, "tried"))
    yield from islice(found.values(), 2 * trials)


def compile_layer(job: tuple[Problem, int]) -> list[tuple[str, int, Executable]]:
    """Compile the configurations of a layer."""
    problem, trials = job
    found = []
    warnings.simplefilter("ignore")  # a configuration that crowds registers is merely slow
    for each in candidates_of(problem, trials):
        try:
            made = compiled(each, TARGET, Epilogue())
        except TVMError:
            continue
        found.append((each.template.name, each.config.index or 0, made))
    return found


class Bench:
    """A layer on the device: its tensors, and what is right."""

    def __init__(self, problem: Problem) -> None:
        import torch

        from tilewright.functional import torch_native
        from tilewright.functional.torch_timing import tensors
        from tilewright.runtime.device import device

        self.torch, self.problem, self.on = torch, problem, device(TARGET)
        self.x, self.weight, *_ = tensors(problem, self.on)
        self.out = torch.empty(problem.out_shape, dtype=self.x.dtype, device=self.x.device)
        if problem.layout == "NHWC":
            self.out = self.out.to(memory_format=torch.channels_last)
        with torch.backends.cudnn.flags(enabled=False), torch.no_grad():
            compute = torch_native.computed(problem, "conv2d", None)
            self.right = compute(self.x.double(), self.weight.double(), None, None)

    def seconds(self, executable: Executable) -> float:
        """Return the time of a kernel; infinity where its result is wrong."""
        from tilewright.functional.plans import OURS, Decision, Plan
        from tilewright.functional.running import program_of
        from tilewright.functional.torch_tensors import launch
        from tilewright.functional.torch_timing import in_turns

        program = program_of(Plan(self.problem, self.on, Decision(OURS), executable, "measured"))
        given = [a.data_ptr() for a in (self.x, self.weight, self.out)]

        def run() -> None:
            launch(program, given, self.x)

        self.out.fill_(float("nan"))
        run()
        error = (self.out.double() - self.right).norm() / self.right.norm()
        dense = self.problem.groups == 1
        if not float(error) <= (_SOUND if dense else TOLERANCE)[self.problem.dtype]:
            return float("inf")
        return in_turns([run], self.on.kind == "cuda")[0]


def measure(problem: Problem, programs: list[tuple[str, int, Executable]], folder: Path) -> str:
    """Time the configurations of a layer, and keep the best one; returns a line for people."""
    from tilewright.functional.torch_timing import both

    bench = Bench(problem)
    times = [bench.seconds(executable) for *_, executable in programs]
    best = min(range(len(times)), key=times.__getitem__, default=None)
    if best is None or times[best] == float("inf"):
        return f"{problem}: none of {len(programs)} configurations is right"
    name, index, executable = programs[best]
    ours, theirs = both(problem, bench.on, executable)
    able, of = strategies_of(problem, TARGET)
    template = next(t for t in able if t.name == name)
    config = template.strategy(TARGET).space(of).get(index)
    result = MeasureResult((ours,), 0, 0.0, time.time())
    with (folder / "networks.log").open("a", encoding="utf-8") as file:
        file.write(encode(MeasureInput(TARGET, template.task(of, TARGET), config), result) + "\n")
    row = {"problem": problem.described(), "device": bench.on.name, "ours": ours, "theirs": theirs}
    with (folder / "rivals.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    first = times[0] * 1e6
    return f"{theirs / ours:6.2f} {first:9.2f} {ours * 1e6:9.2f} {theirs * 1e6:9.2f}  {name[5:]:16} {problem}"


def _tried(problem: Problem, programs: list[tuple[str, int, Executable]], folder: Path) -> str:
    """As `measure`, with PyTorch as it is at its fastest; a failure becomes a line."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return measure(problem, programs, folder)
    except (RuntimeError, TVMError) as failure:
        return f"{problem}: {failure}"


def main() -> None:
    """Tune the layers of the networks that are named, or of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=[], metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--out", type=Path, default=Path("networks"))
    parser.add_argument("--trials", type=int, default=10, help="configurations of each strategy")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="tune layers in whose description this stands: float32")
    parser.add_argument("--compile-only", type=int, metavar="N", help="compile so many layers, and stop")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + given.seconds
    done = given.out / "rivals.jsonl"
    lines = done.read_text(encoding="utf-8").splitlines() if done.exists() else []
    had = {Problem.read(json.loads(line)["problem"]) for line in lines}
    problems = [p for p in worth_tuning(given.networks or list(NETWORKS)) if p not in had]
    problems = [p for p in problems if given.only in str(p)]
    print(f"{len(problems)} layers", flush=True)
    jobs = [(problem, given.trials) for problem in problems[: given.compile_only]]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        for problem, programs in zip(problems, pool.map(compile_layer, jobs), strict=False):
            if given.compile_only is not None:
                print(len(programs), problem, flush=True)
            elif time.monotonic() > ends:
                break
            else:
                print(_tried(problem, programs, given.out), flush=True)
        pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
