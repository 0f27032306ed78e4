"""Time whole models of timm: PyTorch, `torch.compile`, `accelerate`, both, and `torch.compile(backend="tilewright")`.

    python -m benchmarks.whole_models [--only NAME] [--sides eager compile accelerate both backend] [--warm 8]
    python -m benchmarks.whole_models --further --together --sides eager compile backend

Each side runs in a CUDA graph, in turns with the others. Weights are random with a seed, and batch norms have the
statistics of one batch, so that activations stay finite. Results are compared with the model in float32. With
`--warm N`, N processes at a time compile first, into empty caches, and print their times; this process then starts from
the caches. With `--together`, models compile at the same time, each in a process, on all visible GPUs. They are timed
one after another when all are ready, or when the time is up. The last lines are the table; before it, one line of JSON
per model. `OUT` may name a folder for these lines.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import partial
from statistics import geometric_mean, median
from threading import Lock, Semaphore
from typing import Any, NamedTuple

import torch

from tilewright.report.table import Column, table

SIDES = ("eager", "compile", "accelerate", "both", "backend")
ROUNDS = 15
READY = "ready\n"
BOUNDS = {torch.float32: 1e-4, torch.float16: 2e-2}


class Case(NamedTuple):
    """A model, its type, batch and memory order, and the factor over `torch.compile` that it must reach."""

    model: str
    dtype: str
    batch: int
    last: bool
    must: float = 0.98

    @property
    def name(self) -> str:
        """One line for people."""
        return f"{self.model} {self.dtype} {self.batch} {'channels last' if self.last else 'NCHW'}"


CASES = (
    Case("convnext_tiny", "float16", 32, True, 1.32),
    Case("efficientnet_b0", "float16", 32, True, 1.3),
    Case("mobilenetv4_conv_medium", "float16", 32, True, 1.25),
    Case("resnext50_32x4d", "float16", 32, True, 1.15),
    Case("convnext_tiny", "float32", 32, False, 1.2),
    Case("efficientnet_b0", "float32", 1, False, 1.2),
    Case("mobilenetv3_large_100", "float16", 1, False, 1.3),
    Case("resnet50", "float16", 1, True, 1.45),
    Case("repvit_m1", "float16", 32, False, 1.2),
)
_FURTHER = (
    "mobilenetv2_100", "efficientnetv2_rw_t", "regnety_032", "rexnet_100", "ghostnet_100", "tf_efficientnet_lite0",
    "mixnet_s", "densenet121", "fastvit_t8", "inception_next_tiny",
)  # fmt: skip
FURTHER = tuple(Case(name, *how) for name in _FURTHER for how in (("float16", 32, False), ("float32", 1, False)))


def built(case: Case, device: str) -> tuple[Any, list[Any]]:
    """Return the model in float32 and evaluation mode, and its inputs, of eight images or more.

    The first input is timed. The error of a single image depends on chance.
    """
    import timm

    torch.manual_seed(0)
    model = timm.create_model(case.model).to(device)
    inputs = [torch.randn(case.batch, 3, 224, 224, device=device) for _ in range(max(1, 8 // case.batch))]
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    model.eval()
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        model(torch.randn(8, 3, 224, 224, device=device))
    for norm in norms:
        norm.momentum = 0.1
    return model.eval(), inputs


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process of this benchmark is here: timings need a quiet GPU."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    with open(f"{tempfile.gettempdir()}/tilewright-whole-models-{gpu}.lock", "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def side(which: str, model: Any, x: Any, report: Any = None) -> Callable[[Any], Any]:
    """Return the model of one side; `both` compiles a model that was accelerated before."""
    from tilewright.nn import accelerate, dynamo_backend

    if which == "accelerate":
        with alone():
            done = accelerate(model, x, cuda_graph=True)
        if report is not None:
            report(done)
    if which in ("compile", "both"):
        model = torch.compile(model)
    if which == "backend":
        model = torch.compile(model, backend=dynamo_backend, options={"report": report} if report else {})
    made: Callable[[Any], Any] = model
    return made


def prepared(case: Case, device: str = "cuda") -> tuple[Any, list[Any], Any]:
    """Return the model and the inputs in their type and order, and the expected results."""
    model, inputs = built(case, device)
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        expected = torch.cat([model(x) for x in inputs])
    dtype, order = getattr(torch, case.dtype), torch.channels_last if case.last else torch.contiguous_format
    inputs = [x.to(dtype).to(memory_format=order) for x in inputs]
    return model.to(dtype).to(memory_format=order), inputs, expected


def measure(case: Case, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time the sides of a model in turns; yield the row after each side, since a later one may fail."""
    report = print if given.report else None
    from tilewright.functional.pytorch.graphs import TorchGraphTimer

    run_of = {"device": torch.cuda.get_device_name(), "driver": None, "date": time.strftime("%Y-%m-%d")}
    run_of["commit"] = _commit()
    found: dict[str, Any] = {"run": run_of, "row": case.name, "model": case._asdict()}
    found |= {"ms": {}, "spread": {}, "error": {}, "first call s": {}}
    timers: dict[str, Any] = {}
    accelerated = None
    for which in given.sides:
        model, inputs, expected = prepared(case)  # a separate copy, because `accelerate` changes it
        began = time.perf_counter()
        if which == "both":
            if accelerated is None:
                side("accelerate", model, inputs[0], report)
            model = accelerated or model
        run = side(which, model, inputs[0], report)
        with alone() if which == "eager" else nullcontext():  # cuDNN's choices by time
            first = run(inputs[0])
            torch.cuda.synchronize()
        accelerated = model if which == "accelerate" else accelerated
        found["first call s"][which] = round(time.perf_counter() - began, 2)
        result = torch.cat([first, *map(run, inputs[1:])])
        error = float((result.double() - expected.double()).norm() / expected.double().norm())
        found["error"][which] = float(f"{error:.1e}")
        # The compiled code owns folded weights, so Dynamo must not be reset while the graphs are in use.
        timers[which] = TorchGraphTimer(partial(run, inputs[0]))
        timers[which](1)
        if given.profile:
            print(f"-- {case.name}, {which}", *kernels(partial(run, inputs[0])), sep="\n")
        _time(timers, found)
        yield found
    if given.wait:
        print(READY, end="", flush=True)
        sys.stdin.readline()
        _time(timers, found)
        yield found


def _time(timers: dict[str, Any], found: dict[str, Any]) -> None:
    times: dict[str, list[float]] = {which: [] for which in timers}
    with alone():
        for _ in range(ROUNDS):
            for which, timer in timers.items():
                times[which].append(timer(1) * 1e3)
    for which, each in times.items():
        found["ms"][which] = round(median(each), 4)
        found["spread"][which] = round((max(each) - min(each)) / median(each), 3)


def _commit() -> str:
    made = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return made.stdout.strip()


def kernels(run: Callable[[], Any], most: int = 14) -> list[str]:
    """Return the slowest kernels: their time in µs, how often they run, and their name."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        run()
        torch.cuda.synchronize()
    rows = sorted(seen.key_averages(), key=lambda row: -row.device_time_total)
    whole = sum(row.device_time_total for row in rows)
    lines = [f"{row.device_time_total:8.1f} {row.count:4}  {row.key[:100]}" for row in rows[:most]]
    return [f"{whole:8.1f} µs in {sum(row.count for row in rows)} kernels", *lines]


def compiled_first(cases: list[Case], sides: list[str], workers: int) -> dict[str, float]:
    """Compile in processes of their own; return the seconds of each first call by case and side."""

    def one(job: tuple[Case, str]) -> tuple[str, float]:
        case, which = job
        made = subprocess.run(
            [sys.executable, "-m", "benchmarks.whole_models", "--first", case.name, "--sides", which],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = made.stdout.strip().splitlines()
        if made.returncode or not lines:
            print(case.name, which, made.stderr[-1500:], file=sys.stderr)
            return f"{case.name}: {which}", 0.0
        return f"{case.name}: {which}", float(lines[-1])

    jobs = [(case, which) for case in cases for which in sides if which in ("compile", "backend")]
    with ThreadPoolExecutor(workers) as pool:
        return dict(pool.map(one, jobs))


class Child:
    """A process that compiles one model, waits until the GPU is quiet, and times the model."""

    def __init__(
        self, case: Case, command: list[str], slots: Semaphore, env: dict[str, str], keep: Callable[[Any], None]
    ) -> None:
        self.lines: list[str] = []
        self.ready = False
        self._command, self._slots, self._env, self._keep = [*command, case.name], slots, env, keep
        self.process: subprocess.Popen[str] | None = None
        self.stopped = False

    def compile(self) -> None:
        """Start the process as soon as cores are free, and follow it until it is ready."""
        with self._slots:
            if self.stopped:
                return
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self.process = subprocess.Popen(self._command, env=self._env, text=True, **pipes)
            for line in self.process.stdout or ():
                self.ready = line == READY
                if self.ready:
                    return
                self.lines.append(line)
                if line.startswith("{"):
                    self._keep(json.loads(line))

    def stop(self) -> None:
        """End the process unless it is ready."""
        self.stopped = True
        if self.process is not None and not self.ready:
            self.process.kill()

    def row(self) -> dict[str, Any] | None:
        """Have the model timed; return its last row, and print all other lines."""
        if self.process is None:
            return None
        if self.ready and self.process.stdin and self.process.stdout:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
            self.lines.append(self.process.stdout.readline())
            self.process.kill()  # a regular end takes seconds
        rows = [line for line in self.lines if line.startswith("{")]
        print(*[line for line in self.lines if line.startswith(("--", "  ", "ours", "kept"))], sep="", end="")
        return json.loads(rows[-1]) if rows else None


def measured_together(
    cases: list[Case], given: argparse.Namespace, keep: Callable[[Any], None]
) -> Iterator[dict[str, Any]]:
    """Compile each model in a process of its own, as many at a time as there are cores, and time one after another.

    `keep` gets the rows of models that are not ready yet.
    """
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    gpus = gpus if gpus != [""] else [str(place) for place in range(torch.cuda.device_count())]
    cores = len(os.sched_getaffinity(0))
    workers = max(1, min(len(cases), cores))
    env = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": str(max(1, cores // workers)), "OUT": ""}
    flags = [f"--{name}" for name in ("further", "profile", "report") if getattr(given, name)]
    command = [sys.executable, "-m", "benchmarks.whole_models", *flags, "--wait", "--sides", *given.sides, "--only"]
    slots = Semaphore(workers)
    children = [
        Child(case, command, slots, {**env, "CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)]}, keep)
        for place, case in enumerate(cases)
    ]
    with ThreadPoolExecutor(len(children)) as pool:
        wait([pool.submit(child.compile) for child in children], timeout=given.seconds)
        for child in children:
            child.stop()
    print(f"compiled: {sum(child.ready for child in children)} of {len(cases)}", flush=True)
    for child in children:
        if (row := child.row()) is not None:
            yield row


def row_of(found: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    case, ms = Case(**found["model"]), found["ms"]
    best = ms["compile"] / ms["backend"] if {"compile", "backend"} <= ms.keys() else 0.0
    # With TF32, or in float16 with many layers, PyTorch itself may be further from float32 than the bound.
    theirs = max(found["error"].get(which, 0.0) for which in ("eager", "compile"))
    bound = max(BOUNDS[getattr(torch, case.dtype)], 2 * theirs)
    wrong = max(found["error"].values(), default=0.0) > bound
    return [
        case.name, *[f"{ms[which]:.3f}" if which in ms else "–" for which in SIDES],
        f"{best:.2f}", f"{case.must:.2f}", f"{max(found['spread'].values(), default=0.0):.0%}",
        "wrong" if wrong else f"{found['error'].get('backend', 0.0):.1e}",
    ]  # fmt: skip


def measured(cases: list[Case], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time models one after another, and begin none after the given time."""
    until = time.perf_counter() + given.seconds
    for case in cases:
        if time.perf_counter() < until:
            try:
                yield from measure(case, given)
            except Exception as error:  # the other models are worth having
                print(f"{case.name}: {type(error).__name__}: {error}"[:500], file=sys.stderr)


def main() -> None:
    """Measure the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="models with one of these texts in their line")
    parser.add_argument("--sides", nargs="*", default=list(SIDES), choices=SIDES)
    parser.add_argument("--further", action="store_true", help="ten more models, each in two types")
    parser.add_argument("--warm", type=int, default=0, help="processes at a time that compile first")
    parser.add_argument("--report", action="store_true", help="print each graph's convolutions")
    parser.add_argument("--profile", action="store_true", help="print the slowest kernels")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin or compile no model after this time; a timing takes a second"
    )
    parser.add_argument("--together", action="store_true", help="compile models at the same time, in processes")
    parser.add_argument("--wait", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU")
    began = time.perf_counter()
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    every = FURTHER if given.further else CASES
    if given.first:
        case = next(case for case in (*CASES, *FURTHER) if case.name == given.first)
        model, inputs, _ = prepared(case)
        start = time.perf_counter()
        side(given.sides[0], model, inputs[0])(inputs[0])
        torch.cuda.synchronize()
        print(time.perf_counter() - start)
        return
    cases = [case for case in every if any(text in case.name for text in given.only)]
    if given.warm:
        for name, seconds in compiled_first(cases, given.sides, given.warm).items():
            print(f"first process: {seconds:6.1f} s  {name}", flush=True)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)
    by_name: dict[str, Any] = {}
    lock = Lock()

    def keep(found: dict[str, Any]) -> None:
        out = os.environ.get("OUT")
        with lock:
            by_name[found["row"]] = found
            if out:
                with open(f"{out}/whole_models{'_further' * given.further}.jsonl", "w", encoding="utf-8") as file:
                    file.writelines(f"{json.dumps(each)}\n" for each in by_name.values())

    for found in measured_together(cases, given, keep) if given.together else measured(cases, given):
        keep(found)
        print(json.dumps(found), flush=True)
    rows = list(by_name.values())
    if not rows:
        sys.exit("error: no model was measured")
    heads = ["model", *SIDES, "compile ÷ backend", "must", "spread", "error"]
    print("\n".join(table([Column(heads[0], right=False), *map(Column, heads[1:])], [row_of(each) for each in rows])))
    gains = [
        each["ms"]["compile"] / each["ms"]["backend"] for each in rows if {"compile", "backend"} <= each["ms"].keys()
    ]
    if gains:
        print(f"geometric mean of compile ÷ backend: {geometric_mean(gains):.3f}; least {min(gains):.3f}")


if __name__ == "__main__":
    main()
