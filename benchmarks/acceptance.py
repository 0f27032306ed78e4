"""All that is asked of the one-line call with a number, measured on this machine: python -m benchmarks.acceptance

    python -m benchmarks.acceptance [PART ...] [--out DIR] [--seconds 3600] [--gpus 2] [--only TEXT] [--list]

Each part runs in a process of its own, so that a failure does not affect the others. With several GPUs, one part per
GPU runs at a time; parts that time the host run alone. DIR/acceptance.jsonl gets a line for each unit that was
measured: a row in a type, a model, a folder of tests. Units that it has already, of the same sources and device, are
left out, so a run that stopped is continued by the same command. At the end, a table has every requirement, the
measured value, and whether it is met.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from statistics import geometric_mean
from typing import Any, NamedTuple

from benchmarks.acceptance_parts import MODES, PARTS, ROOT, Values
from benchmarks.ship_records import read
from tilewright.report.table import Column, table

LINES = "acceptance.jsonl"
_GRACE = 30
"""Seconds that a part may take beyond its time, to finish a unit."""


class Must(NamedTuple):
    """A requirement: a bound, from below or above, on a value over some units of a part."""

    part: str
    what: str
    sign: str
    bound: float
    units: Callable[[str], bool]
    value: Callable[[Values], float]
    over: Callable[[list[float]], float]

    def is_met(self, measured: float) -> bool:
        """Whether a value satisfies it."""
        return measured >= self.bound if self.sign == "≥" else measured <= self.bound

    def ratio(self, measured: float) -> float | None:
        """How far a value is from the bound: 1 or more if it is met; None for a bound of 0."""
        if not self.bound or not measured:
            return None
        return measured / self.bound if self.sign == "≥" else self.bound / measured


def _named(*names: str) -> Callable[[str], bool]:
    """Units with all of these words in their name."""
    return lambda unit: set(names) <= set(unit.split())


def _usual(mode: str) -> Callable[[str], bool]:
    """The depthwise and 1-D rows of a mode, without the largest window."""
    return lambda unit: unit.startswith(f"{mode} ") and not unit.split()[1].startswith(("grouped", "replk"))


def _grouped(mode: str) -> Callable[[str], bool]:
    return lambda unit: unit.startswith(f"{mode} grouped")


def _every(unit: str) -> bool:
    return True


def _of(name: str) -> Callable[[Values], float]:
    return lambda values: values[name]


def _copies(values: Values) -> float:
    return values["tuned_us"] / values["copy_us"]


def _mean(values: list[float]) -> float:
    return geometric_mean(values) if min(values) > 0 else 0.0


def _rows() -> Iterable[Must]:
    """Yield the requirements on rows: PyTorch's time over ours as shipped, and as the best of a search."""
    shipped = {"float32": (2.45, 1.0), "float16": (2.0, 1.0), "bfloat16": (1.6, 0.95), "float16/NHWC": (1.5, 0.95)}
    tuned = {"float32": 2.7, "float16": 2.4, "bfloat16": 2.0, "float16/NHWC": 2.0}
    large, line, window = "convnext-b128-dw96x56", "dw1d-12288x16384-k4", "replk-b32-dw128x56-k31"
    for mode in MODES:
        mean, least = shipped[mode]
        yield Must("rows", f"depthwise, 1-D, {mode}: mean", "≥", mean, _usual(mode), _of("untuned"), _mean)
        yield Must("rows", f"depthwise, 1-D, {mode}: least", "≥", least, _usual(mode), _of("untuned"), min)
        yield Must("rows", f"grouped, {mode}: least", "≥", 1.3, _grouped(mode), _of("untuned"), min)
    yield Must("rows", f"{large}, float16", "≥", 2.5, _named("float16", large), _of("untuned"), min)
    for mode in ("float32", "float16"):
        yield Must("rows", f"{line}, {mode}", "≥", 4.0, _named(mode, line), _of("untuned"), min)
    yield Must("rows", f"{window}, float32", "≥", 3.0, _named("float32", window), _of("untuned"), min)
    fused = _of("fused")
    yield Must("rows", "with bias and relu ÷ without: most", "≤", 1.03, _every, fused, max)
    for mode in MODES:
        yield Must("tuned", f"depthwise, 1-D, {mode}: mean", "≥", tuned[mode], _usual(mode), _of("tuned"), _mean)
        yield Must("tuned", f"grouped, {mode}: least", "≥", 2.0, _grouped(mode), _of("tuned"), min)
    yield Must("tuned", "depthwise, 1-D, float32: least", "≥", 1.05, _usual("float32"), _of("tuned"), min)
    yield Must("tuned", f"{large}, float16", "≥", 3.0, _named("float16", large), _of("tuned"), min)
    for mode in ("float32", "float16"):
        yield Must("tuned", f"{line}, {mode}: time ÷ copy", "≤", 1.2, _named(mode, line), _copies, max)
    yield Must("tuned", f"{window}, float32", "≥", 4.0, _named("float32", window), _of("tuned"), min)


def _is_numpy(unit: str) -> bool:
    return unit.startswith("NumPy")


def _is_torch(unit: str) -> bool:
    return not _is_numpy(unit)


MUSTS = [
    Must("records", "layers of networks with a record: least part", "≥", 1.0, _every,
         lambda values: values["recorded"] / values["layers"], min),
    Must("startup", "known kernel in a new process, NumPy, ms", "≤", 50, _is_numpy, _of("ms"), max),
    Must("startup", "known kernel in a new process, CUDA, ms", "≤", 50, _is_torch, _of("ms"), max),
    Must("host", "host time ÷ PyTorch's: most", "≤", 0.85, _every, _of("part"), max),
    Must("numpy", "host time, µs", "≤", 3.0, _every, _of("us"), max),
    *_rows(),
    Must("untuned", "error ÷ allowed error: most", "≤", 1.0, _every, _of("error"), max),
    Must("untuned", "the call: mean", "≥", 1.5, _every, _of("call"), _mean),
    Must("untuned", "the call: least", "≥", 0.95, _every, _of("call"), min),
    Must("models", "gain in a graph: least", "≥", 1.0, _every, _of("graph"), min),
    Must("models", "gain without a graph: least", "≥", 1.0, _every, _of("eager"), min),
    Must("tests", "tests that fail", "≤", 0, _every, _of("failed"), sum),
    Must("cpu", "channels last, one thread: least", "≥", 1.0, _named("one", "thread:"), _of("ratio"), min),
    Must("cpu", "channels last, all threads: least", "≥", 1.0, _named("all", "threads:"), _of("ratio"), min),
    Must("release", "environments in which the wheel fails", "≤", 0, _every, _of("failed"), sum),
]  # fmt: skip


def verdicts(found: dict[tuple[str, str], Values], parts: Iterable[str]) -> list[list[str]]:
    """Return a row of the table for each requirement of the parts; it is open until all of its units are measured."""
    rows = []
    for must in MUSTS:
        if must.part not in parts:
            continue
        wanted = [unit for unit in PARTS[must.part].units() if must.units(unit)]
        values = [found[must.part, unit] for unit in wanted if (must.part, unit) in found]
        cells = [must.part, must.what, f"{must.sign} {must.bound:g}", "–", "open", f"{len(values)} of {len(wanted)}"]
        if values:
            measured = must.over([must.value(each) for each in values])
            ratio = must.ratio(measured)
            judged = "open" if len(values) < len(wanted) else "met" if must.is_met(measured) else "missed"
            cells[3] = f"{measured:.4g}"
            cells[4] = judged if ratio is None else f"{judged} ({ratio:.2f})"
        rows.append(cells)
    return rows


def stamp() -> dict[str, str]:
    """The key of figures: the sources, by their content, and the device; the commit, if there is one."""
    sources = hashlib.sha256()
    for path in sorted((*ROOT.glob("tilewright/**/*.*"), *ROOT.glob("benchmarks/*.py"))):
        if path.suffix in (".py", ".log", ".jsonl"):
            sources.update(path.read_bytes())
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    return {"sources": sources.hexdigest()[:12], "commit": commit, "device": _device()}


def _device() -> str:
    from tilewright.runtime.device import cuda

    return cuda().name if cuda().exist else f"{os.cpu_count()} processors"


def known(folder: Path, by: dict[str, str]) -> dict[tuple[str, str], Values]:
    """Return the figures in a folder for these sources on this device."""
    same = [one for one in read(folder / LINES) if all(one[key] == by[key] for key in ("sources", "device"))]
    return {(one["part"], one["unit"]): one["values"] for one in same}


def measure(part: str, folder: Path, seconds: float, only: str) -> None:
    """Measure the missing units of a part, in this process, until the time is over."""
    by, ends = stamp(), time.monotonic() + seconds
    had = known(folder, by)
    units = [unit for unit in PARTS[part].units() if (part, unit) not in had and only in unit]
    for unit, run in PARTS[part].prepare(units) if units else ():
        if time.monotonic() > ends:
            break
        try:
            values = run()
        except Exception as failure:  # others are worth having
            print(f"{part:8} {unit}: {type(failure).__name__}: {failure}", flush=True)
            continue
        line = json.dumps({"part": part, "unit": unit, "values": values, **by, "time": time.time()})
        with (folder / LINES).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        shown = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        print(f"{part:8} {unit}: {shown}", flush=True)


def run_all(parts: list[str], given: Any) -> None:
    """Run each part in a process of its own: on the GPUs first, one each, then the parts that must run alone."""
    ends = time.monotonic() + given.seconds
    gpus: SimpleQueue[int] = SimpleQueue()
    for index in range(given.gpus):
        gpus.put(index)

    def run(part: str) -> None:
        gpu, left = gpus.get(), ends - time.monotonic()
        try:
            if left > 0:
                _child(part, given, left, gpu if given.gpus > 1 else None)
        finally:
            gpus.put(gpu)

    with ThreadPoolExecutor(given.gpus) as pool:
        list(pool.map(run, [part for part in parts if not PARTS[part].alone]))
    for part in parts:
        if PARTS[part].alone:
            run(part)


def _child(part: str, given: Any, seconds: float, gpu: int | None) -> None:
    options = ["--here", "--out", str(given.out), "--seconds", str(seconds), "--only", given.only]
    env = dict(os.environ) if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
    command = [sys.executable, "-m", "benchmarks.acceptance", part, *options]
    child = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)
    try:
        if status := child.wait(seconds + _GRACE):
            print(f"{part}: ended with {status}", flush=True)
    except subprocess.TimeoutExpired:
        print(f"{part}: its time was over", flush=True)
    finally:
        with suppress(ProcessLookupError):  # the child, and the processes that it started
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def prepare() -> None:
    """Have PyTorch as it is at its fastest in full precision."""
    try:
        import torch
    except ImportError:
        return
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def main(arguments: list[str] | None = None) -> None:
    """Measure the named parts, or all; print the requirements that are met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("acceptance"))
    parser.add_argument("--seconds", type=float, default=3600, help="stop after this many")
    parser.add_argument("--gpus", type=int, default=1, help="run a part on each of this many GPUs")
    parser.add_argument("--only", default="", help="units with this text in their names: float16, convnext")
    parser.add_argument("--list", action="store_true", help="print the parts and their units, and measure nothing")
    parser.add_argument("--here", action="store_true", help="in this process, without the table")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        parser.error(f"there is no part {unknown[0]!r}; parts are {', '.join(PARTS)}")
    parts = given.parts or list(PARTS)
    if given.list:
        for part in parts:
            units = [unit for unit in PARTS[part].units() if given.only in unit]
            print(f"{part}: {PARTS[part].about}, {len(units)} units", *units, sep="\n    ")
        return
    given.out = given.out.absolute()
    given.out.mkdir(parents=True, exist_ok=True)
    by = stamp()
    able = [part for part in parts if not PARTS[part].on_gpu or not by["device"].endswith("processors")]
    if given.here:
        prepare()
        for part in able:
            measure(part, given.out, given.seconds, given.only)
        return
    run_all(able, given)
    heads = [Column("part", right=False), Column("what", right=False)]
    heads += [Column(head) for head in ("must", "measured", "met", "units")]
    print("\n" + "\n".join(table(heads, verdicts(known(given.out, by), parts))))
    print(f"{by['device']}, commit {by['commit'] or 'unknown'}, sources {by['sources']}")


if __name__ == "__main__":
    main()
