"""Tune the layers of common networks, for the records that ship: python -m benchmarks.networks --out DIR [NETWORK ...]

All processors compile `--trials` configurations of each layer: the choice of a call, and the favourites of each
strategy's cost model. Each is checked against float64 on poisoned output and timed. The two fastest, the one that a
call would use and PyTorch's kernel are then timed in turns. DIR/layers.jsonl gets a line for each layer: the record of
the best one, PyTorch's time, and all others. A run of `--seconds` continues the last one: layers that the file has
already are left out. Layers with a shipped record are also left out, unless `--again` is given. `--ship` then puts the
contents of DIR into the package.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from benchmarks.likely_configurations import compiled_otherwise, drawn
from benchmarks.network_layers import NETWORKS, layers
from benchmarks.ship_records import read, ship
from benchmarks.timed_rows import TOLERANCE
from tilewright.core.errors import TVMError
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import TRANSPOSED, Problem
from tilewright.functional.planning import rivals
from tilewright.functional.planning.compiler import Selection, compiled, default_selection, strategies_of
from tilewright.functional.planning.shipped import RECORDS
from tilewright.functional.programs.executable import Executable
from tilewright.measure.outcome import MeasureResult
from tilewright.report.table import Column, table
from tilewright.topi.templates import Epilogue, PackagedTemplate, named
from tilewright.tune.records.format import MeasureInput, encode
from tilewright.tune.records.log import load_from_file

CONV2D_GEMM = named("topi/conv2d.gemm")
CONV2D_MMA = named("topi/conv2d.mma")

LAYERS, FAILED = "layers.jsonl", "failed.jsonl"
TARGET = Target("cuda -arch=sm_90")
_HOPELESS = 1.5
"""How many times as fast PyTorch may be expected to be for a layer to be worth tuning."""
_SOUND = {**TOLERANCE, "float32": 2e-6}
"""Largest relative L2 error of dense layers in float32: they add products of parts of their operands."""


def worth_tuning(names: list[str], again: bool = False) -> list[Problem]:
    """Return the layers without a record, or all, the most profitable first, network by network.

    Dense layers are last: fewer of them gain, and they take longer to compile.
    """
    measured = [one for one in rivals.table() if not one.device.startswith("cpu")]
    gains: dict[str, list[tuple[float, Problem]]] = {name: [] for name in names}
    own = {problem: often for problem, often in layers().items() if not gains.keys().isdisjoint(often)}
    for problem in own if again else without_record(own):
        expected = rivals.estimate(problem, measured)
        ratio = 1.0 if expected is None else expected.ratio
        for network, often in own[problem].items():
            if network in gains and ratio < _HOPELESS:
                gains[network].append((often / ratio / problem.shape[0] ** 0.5, problem))
    queues = [[p for _, p in sorted(each, key=lambda pair: -pair[0])] for each in gains.values()]
    longest = max(map(len, queues), default=0)
    found = dict.fromkeys(queue[i] for i in range(longest) for queue in queues if i < len(queue))
    return sorted(found, key=lambda problem: problem.groups == 1)


def without_record(problems: Iterable[Problem]) -> list[Problem]:
    """Return the layers without a shipped record."""
    known = {(inp.task.name, tuple(inp.task.args)) for inp, _ in _shipped()}
    found = []
    for problem in problems:
        able, workload = strategies_of(problem, TARGET)
        if not any((template.name, tuple(workload.args)) in known for template in able):
            found.append(problem)
    return found


def _shipped() -> Iterator[Any]:
    for path in RECORDS.glob("*.log"):
        yield from load_from_file(path, [])


def candidates_of(problem: Problem, trials: int, again: bool = False) -> list[Selection]:
    """Return the choice of a call, then the favourites of the strategies' models, in turns.

    With `again`, every other one is the first of them, compiled otherwise.
    """
    start = default_selection(problem, TARGET)
    found = {(start.template.name, start.config.index): start}
    able, of = strategies_of(problem, TARGET)
    if CONV2D_MMA in able and CONV2D_GEMM in able:
        able.remove(CONV2D_GEMM)  # GEMM is slower, and as exact
    likes = [_liked(template, of, trials) for template in able]
    if again:
        likes.insert(0, ((start.template, i) for i in compiled_otherwise(start.template, of, start.config, trials)))
    for each in (each for turn in zip_longest(*likes) for each in turn):
        if each is not None and len(found) < trials:
            template, index = each
            config = template.strategy(TARGET).space(of).get(index)
            found.setdefault((template.name, index), Selection(template, of, config, "tried"))
    return list(found.values())


def _liked(template: PackagedTemplate[Any], of: Any, trials: int) -> Iterator[tuple[PackagedTemplate[Any], int]]:
    """Yield the configurations that the model of a strategy likes."""
    strategy = template.strategy(TARGET)
    likes: Iterator[int] = iter(())
    if template.name.endswith(".direct"):
        likes = drawn(template, of, trials)
    elif strategy.rank(of):
        likes = (strategy.nearest(of, choices).index for choices in strategy.rank(of))
    return ((template, index) for index in likes)


class Tried(NamedTuple):
    """A configuration of a layer, compiled: the template's name, the index, and the kernel."""

    template: str
    index: int
    executable: Executable


def compile_layer(problem: Problem, trials: int, again: bool) -> tuple[Problem, list[Tried]]:
    """Compile the configurations of a layer, that of a call first."""
    found = []
    warnings.simplefilter("ignore")  # a configuration that crowds registers is merely slow
    for each in candidates_of(problem, trials, again):
        try:
            found.append(Tried(each.template.name, each.config.index or 0, compiled(each, TARGET, Epilogue())))
        except TVMError:
            continue
    return problem, found


class Bench:
    """A layer on the device: its tensors, and the expected result."""

    def __init__(self, problem: Problem) -> None:
        import torch

        from tilewright.functional.pytorch import native as torch_native
        from tilewright.functional.pytorch.timing import tensors
        from tilewright.runtime.device import device

        self.torch, self.problem, self.on = torch, problem, device(TARGET)
        self.x, self.weight, *_ = tensors(problem, self.on)
        self.out = torch.empty(problem.out_shape, dtype=self.x.dtype, device=self.x.device)
        if problem.layout == "NHWC":
            self.out = self.out.to(memory_format=torch.channels_last)
        name = "conv_transpose2d" if problem.op == TRANSPOSED else "conv2d"
        self.compute = torch_native.computed(problem, name, None, 4, on_gpu=True)
        with torch.backends.cudnn.flags(enabled=False), torch.no_grad():
            self.right = self.compute(self.x.double(), self.weight.double(), None, None)

    def theirs(self) -> None:
        """Run PyTorch's kernel."""
        with self.torch.no_grad():
            self.compute(self.x, self.weight, None, None)

    def ours(self, executable: Executable) -> Callable[[], None]:
        """Return a function that runs one of our kernels."""
        from tilewright.functional.planning.decision import Decision, Side
        from tilewright.functional.planning.plans import CallPlan
        from tilewright.functional.pytorch.launches import launch
        from tilewright.functional.pytorch.threads import program_of

        program = program_of(CallPlan(self.problem, self.on, Decision(Side.OURS), executable, "measured"))
        given = [a.data_ptr() for a in (self.x, self.weight, self.out)]
        return lambda: launch(program, given, self.x)

    def is_right(self, run: Callable[[], None]) -> bool:
        """Whether a kernel writes all results, within the tolerance."""
        self.out.fill_(float("nan"))
        run()
        error = (self.out.double() - self.right).norm() / self.right.norm()
        dense = self.problem.groups == 1
        return float(error) <= (_SOUND if dense else TOLERANCE)[self.problem.dtype]


def measure(problem: Problem, programs: list[Tried], folder: Path) -> str:
    """Time the configurations of a layer, and keep the best one; returns a line for people."""
    from tilewright.functional.pytorch.timing import in_turns

    began = time.perf_counter()
    bench = Bench(problem)
    on_gpu = bench.on.kind == "cuda"
    runs = [bench.ours(tried.executable) for tried in programs]
    right = [at for at, run in enumerate(runs) if bench.is_right(run)]
    if not right:
        return f"{problem}: none of {len(programs)} configurations is right"
    checked = time.perf_counter()
    times = {at: in_turns([runs[at]], on_gpu)[0] for at in right}
    timed = time.perf_counter()
    finalists = dict.fromkeys((right[0], *sorted(right, key=times.__getitem__)[:2]))
    *ours, theirs = in_turns([*(runs[at] for at in finalists), bench.theirs], on_gpu)
    times.update(zip(finalists, ours, strict=True))
    best = min(finalists, key=times.__getitem__)
    first, fastest, took = times[right[0]], times[best], time.perf_counter()
    row = {"problem": problem.description(), "device": bench.on.name, "ours": fastest, "theirs": theirs}
    tried = [(programs[at].template, programs[at].index, seconds) for at, seconds in times.items()]
    line = json.dumps({**row, "record": _record(problem, programs[best], fastest), "tried": tried})
    _append(folder / LAYERS, line)
    shown = f"{theirs / fastest:6.2f} {first * 1e6:9.2f} {fastest * 1e6:9.2f} {theirs * 1e6:9.2f}"
    spent = f"{checked - began:5.2f} {timed - checked:5.2f} {took - timed:5.2f} s of {len(right)}"
    wrong = f" ({len(runs) - len(right)} wrong)" if len(right) < len(runs) else ""
    return f"{shown}  {programs[best].template[5:]:16} {spent}{wrong}  {problem}"


def _record(problem: Problem, best: Tried, seconds: float) -> dict[str, Any]:
    """Return the record of a layer, as logs have it."""
    able, of = strategies_of(problem, TARGET)
    template = next(t for t in able if t.name == best.template)
    config = template.strategy(TARGET).space(of).get(best.index)
    result = MeasureResult((seconds,), 0, 0.0, time.time())
    found: dict[str, Any] = json.loads(encode(MeasureInput(TARGET, template.task(of, TARGET), config), result))
    return found


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _tried(problem: Problem, programs: list[Tried], folder: Path) -> str:
    """`measure` with PyTorch at its fastest; a failure becomes a line, unless the device is lost."""
    import torch

    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return measure(problem, programs, folder)
    except (RuntimeError, TVMError) as failure:
        _append(folder / FAILED, json.dumps({"problem": problem.description(), "why": str(failure)}))
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # fails if nothing else can run any more
        return f"{problem}: {failure}"


def summary(lines: list[dict[str, Any]]) -> list[str]:
    """A table of kinds of layers: PyTorch's time beside ours, and the first configuration's beside the best one's."""
    kinds: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        ratios = line["theirs"] / line["ours"], line["ours"] / line["tried"][0][2]
        kinds.setdefault(_kind(Problem.read(line["problem"])), []).append(ratios)
    rows = []
    for kind, own in sorted(kinds.items()):
        gains, parts = zip(*own, strict=True)
        cells = (geometric_mean(gains), min(gains), geometric_mean(parts), min(parts))
        rows.append([kind, str(len(own)), *(f"{cell:.2f}" for cell in cells), str(sum(gain < 1 for gain in gains))])
    heads = ("count", "PyTorch ÷ best", "least", "best ÷ first", "least", "below 1")
    return table([Column("layers", right=False), *map(Column, heads)], rows)


def _kind(of: Problem) -> str:
    line = " 1-D" if of.shape[2] == 1 else ""
    return f"{'dense' if of.groups == 1 else 'depthwise'}{line} {of.dtype} {of.layout}"


def main() -> None:
    """Tune the layers of the networks that are named, or of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("networks", nargs="*", default=[], metavar="NETWORK", help=", ".join(NETWORKS))
    parser.add_argument("--out", type=Path, default=Path("networks"))
    parser.add_argument("--trials", type=int, default=12, help="configurations of each layer")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", help="tune layers with this text in their descriptions: float32")
    parser.add_argument("--again", action="store_true", help="also layers with a record, from which the search begins")
    parser.add_argument("--compile-only", type=int, metavar="N", help="compile this many layers, and stop")
    parser.add_argument("--ship", action="store_true", help="measure nothing: put the contents of DIR into the package")
    given = parser.parse_args()
    if given.ship:
        lines = read(given.out / LAYERS)
        print("\n".join([*summary(lines), ship(lines)]))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    ends = time.monotonic() + given.seconds
    had = {Problem.read(row["problem"]) for name in (LAYERS, FAILED) for row in read(given.out / name)}
    problems = [p for p in worth_tuning(given.networks or list(NETWORKS), given.again) if p not in had]
    problems = [p for p in problems if given.only in str(p)][: given.compile_only]
    print(f"{len(problems)} layers", flush=True)
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        jobs = [pool.submit(compile_layer, problem, given.trials, given.again) for problem in problems]
        try:
            for at, job in enumerate(as_completed(jobs), 1):
                left = ends - time.monotonic()
                if left < 0:
                    break
                problem, programs = job.result()
                done = f"{len(programs)} {problem}" if given.compile_only else _tried(problem, programs, given.out)
                print(f"{at:3} {left:4.0f} {done}", flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    print("\n".join(summary(read(given.out / LAYERS))))


if __name__ == "__main__":
    main()
