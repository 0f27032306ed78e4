"""The parts of `benchmarks.acceptance`, each with units and a generator of measuring functions.

A unit is the smallest piece of a part that is measured by itself; its values are numbers, by name. Parts import their
modules when they run, so that one can be listed or run if modules of others are missing.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import timeit
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.convolution_rows import DENSE, SMALL_DEPTHWISE, WORKLOADS

ROOT = Path(__file__).parents[1]
MODES = ("float32", "float16", "bfloat16", "float16/NHWC")
BATCHES = (1, 32, 128)
TRIALS = 60
"""Configurations that tuning a row may try."""
Values = dict[str, float]
Measures = Iterator[tuple[str, Callable[[], Values]]]


class Part(NamedTuple):
    """A part.

    Attributes
    ----------
    about : str
        The measured quantity, as a clause.
    units : callable
        Returns the names of its units.
    prepare : callable
        Prepares the units that it is given, and yields each with its measuring function.
    on_gpu : bool
        Whether it needs a GPU.
    alone : bool
        Whether nothing else may run meanwhile: it times the host.
    """

    about: str
    units: Callable[[], list[str]]
    prepare: Callable[[list[str]], Measures]
    on_gpu: bool = True
    alone: bool = False


# Rows of `benchmarks.convolution_sweep`


def rows() -> list[str]:
    """Name each row in each mode that it has, but dense ones."""
    names = [name for name in WORKLOADS if not name.startswith(DENSE)]
    return [f"{mode} {name}" for mode in MODES for name in names if mode != "float16/NHWC" or "conv1d" not in name]


def shipped_rows(units: list[str]) -> Measures:
    """Our kernel as a call runs it without tuning, with and without bias and relu, and PyTorch's faster order."""
    yield from _swept(units, trials=1, fused=True)


def tuned_rows(units: list[str]) -> Measures:
    """The best of `TRIALS` configurations, the record that ships among them."""
    yield from _swept(units, trials=TRIALS, fused=False)


def _swept(units: list[str], trials: int, fused: bool) -> Measures:
    from benchmarks.convolution_sweep import compiled

    fresh = multiprocessing.get_context("forkserver")  # this process has looked at its GPU, which no fork can do then
    with ProcessPoolExecutor(mp_context=fresh) as pool, tempfile.TemporaryDirectory() as folder:
        try:
            drawn = pool.map(partial(_jobs, trials=trials, fused=fused), units)
            compiling = [[pool.submit(compiled, job) for job in jobs] for jobs in drawn]
            for unit, jobs in zip(units, compiling, strict=True):
                yield unit, partial(_row, unit, [job.result() for job in jobs], Path(folder) / "records.log")
        finally:
            pool.shutdown(cancel_futures=True)


def _jobs(unit: str, trials: int, fused: bool) -> list[Any]:
    """The shipped configuration and its neighbours, then as many of each strategy with a model, whether a call takes it
    or not."""
    from benchmarks.convolution_sweep import TARGET, jobs_of
    from benchmarks.timed_rows import FAMILIES, workload_of

    mode, name = unit.split()
    family, of = FAMILIES[WORKLOADS[name][0]], workload_of(name, mode)
    able = [template for template in family.strategies if template.covers(of, TARGET)] if trials > 1 else []
    names = [template.name for template in able if template.strategy(TARGET).rank(of)]
    share = max(1, trials // (len(names) + 1))
    drawn = [jobs_of(name, mode, share, fused, {}, shipped=True, near=trials > 1)]
    drawn += [jobs_of(name, mode, share, fused, {}, shipped=True, strategy=which) for which in names]
    return list(dict.fromkeys(job for jobs in drawn for job in jobs))[: max(trials, 2)]


def _row(unit: str, programs: list[Any], log: Path) -> Values:
    from benchmarks.convolution_sweep import measure
    from benchmarks.timed_rows import Row

    failures = [program for _, program in programs if isinstance(program, str)]
    if len(failures) == len(programs):
        raise RuntimeError(f"no program of {unit} compiles: {failures[:1]}")
    mode, name = unit.split()
    row = Row(name, mode)
    return {**_ratios(measure(row, programs, log)), **_copy(row)}


def _ratios(line: dict[str, Any]) -> Values:
    """PyTorch's time over ours, 0 if ours is wrong; the cost of an epilogue, infinity likewise; times in µs.

    All are means over places in memory, except `fused_most`: the largest cost of an epilogue.
    """
    found = {"pytorch": line["pytorch"]}
    for who in ("untuned", "tuned"):
        us = line.get(who)
        found |= {f"{who}_us": us or 0.0, who: line["pytorch"] / us if us else 0.0}
    found["fused"] = line["fused"] / line["untuned"] if line.get("fused") and line.get("untuned") else inf
    found["fused_most"] = found["fused"]
    if {"fused", "untuned"} <= line.get("places", {}).keys():
        pairs = zip(line["places"]["fused"], line["places"]["untuned"], strict=True)
        found["fused_most"] = max(with_bias / plain for with_bias, plain in pairs)
    return found


def _copy(row: Any) -> Values:
    """The time of a copy of the input, if the result has as many elements, in µs."""
    if row.data.shape != row.out.shape:
        return {}
    from tilewright.functional.pytorch.timing import in_turns

    (seconds,) = in_turns([lambda: row.out.copy_(row.data)], True)
    return {"copy_us": seconds * 1e6}


# Calls


def never_tuned(units: list[str]) -> Measures:
    """The error of a shape beside the allowed one, and PyTorch's time over our kernel's and the call's."""
    from benchmarks.one_call import compile_all
    from benchmarks.untuned import SHAPES

    own = {str(problem): problem for problem in SHAPES if str(problem) in units}
    compile_all(list(own.values()), ("",))
    for unit, problem in own.items():
        yield unit, partial(_never_tuned, problem)


def _never_tuned(problem: Any) -> Values:
    from benchmarks.untuned import LIMITS, measured

    found = measured(problem)
    kernel = found["theirs"] / found["ours"]
    call = kernel if found["runs"] == "ours" else 1.0
    return {"error": found["error"] / LIMITS[problem.dtype], "kernel": kernel, "call": call}


def shapes() -> list[str]:
    """Name the shapes that no record was tuned for."""
    from benchmarks.untuned import SHAPES

    return [str(problem) for problem in SHAPES]


def host_units() -> list[str]:
    """Name the layers that are called from Python."""
    return ["depthwise 3x3, 1x32x14x14", "the same with a bias", "depthwise 3x3, 8x64x7x7", "depthwise 3x3, stride 2"]


def host(units: list[str]) -> Measures:
    """Microseconds per call of the host, output allocated, and of PyTorch's `conv2d`."""
    for unit in units:
        yield unit, partial(_host, unit)


def _host(unit: str) -> Values:
    from benchmarks.one_call import host_times

    times = host_times(unit)
    ours, theirs = times["ours"], times["PyTorch"]
    return {"ours_us": ours * 1e6, "pytorch_us": theirs * 1e6, "part": ours / theirs}


def numpy_call(units: list[str]) -> Measures:
    """Microseconds per call on small NumPy arrays."""
    import numpy as np

    import tilewright as tw

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape, dtype="float32") for shape in ((1, 4, 8, 8), (4, 1, 3, 3)))
    call = partial(tw.conv2d, x, w, None, 1, 1, 1, 4)
    call()
    for unit in units:
        yield unit, lambda: {"us": min(timeit.repeat(call, number=1000, repeat=20)) * 1e3}


def model_units() -> list[str]:
    """Name the models with their types and batches."""
    names = ("ConvNeXt-T", "MobileNetV2")
    return [f"{name} {dtype} {batch}" for name in names for dtype in ("float32", "float16") for batch in BATCHES]


def models(units: list[str]) -> Measures:
    """How many times as fast a model becomes by `accelerate`, which proves that its results agree."""
    from benchmarks.one_call import compile_models

    settings = [(name, dtype, int(batch)) for name, dtype, batch in map(str.split, units)]
    compile_models(settings)
    for unit, setting in zip(units, settings, strict=True):
        yield unit, partial(_model, *setting)


def _model(name: str, dtype: str, batch: int) -> Values:
    from benchmarks.one_call import accelerated

    done, _, _ = accelerated(name, dtype, batch)
    replaced = sum(row.replaced for row in done.rows)
    graph, eager = 1.0, 1.0  # if it undoes everything
    if replaced:
        graph, eager = done.before / done.after, done.eager_before / done.eager_after
    return {"graph": graph, "eager": eager, "replaced": float(replaced)}


def start(units: list[str]) -> Measures:
    """Milliseconds of `import tilewright` and the first call of a kernel on disk, in a new process."""
    from benchmarks.startup import known_kernel_seconds

    for unit in units:
        yield unit, lambda unit=unit: {"ms": statistics.median(known_kernel_seconds(unit)) * 1e3}


def cpu_units() -> list[str]:
    """Name the depthwise rows that take no more than a second, for one thread and for all."""
    threads = sorted({1, len(os.sched_getaffinity(0))})
    return [f"{_threads(count)}: {name}" for count in threads for name in SMALL_DEPTHWISE]


def _threads(count: int) -> str:
    return "one thread" if count == 1 else "all threads"


def cpu(units: list[str]) -> Measures:
    """PyTorch's time over that of the call, channels last."""
    from benchmarks.cpu_calls import keep_memory

    keep_memory()
    for unit in units:
        threads, _, name = unit.partition(": ")
        count = 1 if threads == _threads(1) else len(os.sched_getaffinity(0))
        yield unit, partial(_cpu, name, count)


def _cpu(name: str, threads: int) -> Values:
    import torch

    from benchmarks.cpu_calls import row

    with torch.inference_mode():
        _, ratio = row(name, last=True, threads=threads, seconds=1.0, chain=False)
    return {"ratio": ratio}


# The package


def record_units() -> list[str]:
    """Name the networks with records of their layers."""
    from benchmarks.network_layers import NETWORKS

    return list(NETWORKS)


def records(units: list[str]) -> Measures:
    """How many layers of a network there are, and how many have a record of their own."""
    from benchmarks.network_layers import layers
    from benchmarks.networks import without_record

    for unit in units:
        own = [problem for problem, networks in layers().items() if unit in networks]
        yield unit, lambda own=own: {"layers": len(own), "recorded": len(own) - len(without_record(own))}


def test_units() -> list[str]:
    """Name the folders with tests that need a GPU."""
    files = (ROOT / "tests").glob("*/test_*.py")
    return sorted({f"tests/{file.parent.name}" for file in files if "mark.cuda" in file.read_text(encoding="utf-8")})


def tests(units: list[str]) -> Measures:
    """How many tests passed, failed and were skipped."""
    for unit in units:
        yield unit, partial(_tests, unit)


def _tests(folder: str) -> Values:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        options = ["-q", "-p", "no:cacheprovider", "-m", "cuda", f"--junitxml={report}", folder]
        done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, stdout=subprocess.DEVNULL)
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode}")
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    count, *unlike = (float(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped"))
    failures, errors, skipped = unlike
    return {"passed": count - sum(unlike), "failed": failures + errors, "skipped": skipped}


def release(units: list[str]) -> Measures:
    """Whether a wheel of the tree, in a new environment, runs the programs of the README."""
    for unit in units:
        yield unit, _release


def _release() -> Values:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "tools/release.py", "--out", folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr.strip())
    return {"failed": float(done.returncode != 0)}


PARTS = {
    "records": Part("layers of networks with a record", record_units, records, on_gpu=False),
    "startup": Part("a kernel on disk in a new process", lambda: ["NumPy", "PyTorch, CUDA"], start, False, alone=True),
    "host": Part("host time of a call", host_units, host, alone=True),
    "numpy": Part("a call on NumPy arrays", lambda: ["depthwise 3x3, 1x4x8x8"], numpy_call, False, alone=True),
    "rows": Part("rows of benchmarks.convolutions as shipped", rows, shipped_rows),
    "untuned": Part("forty shapes without records", shapes, never_tuned),
    "models": Part("accelerate on models", model_units, models),
    "tests": Part("tests that need a GPU", test_units, tests),
    "tuned": Part(f"rows of benchmarks.convolutions, {TRIALS} trials", rows, tuned_rows),
    "cpu": Part("depthwise rows on the CPU", cpu_units, cpu, on_gpu=False, alone=True),
    "release": Part("a wheel in a new environment", lambda: ["wheel"], release, on_gpu=False),
}
