"""Many configurations of the packaged templates at once, by the order of their cost model, against PyTorch.

    python -m benchmarks.convolution_sweep --modes float32 float16 float16/NHWC --trials 24 --out DIR [NAME ...]

All processors compile `--trials` configurations of every workload. Each is checked against float64 on poisoned output,
and timed. Calls without a log use the first configuration; the best goes into a log. One process then times the first,
the best and PyTorch's kernels (both memory orders, `benchmark=True`) in turns, in CUDA graphs. Small tensors lie at
several places in memory; `timed_rows` has the reason.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import pickle
import statistics
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.convolution_rows import DENSE, WORKLOADS
from benchmarks.likely_configurations import TARGET, compiled_otherwise, drawn, neighbours
from benchmarks.timed_rows import FAMILIES, TOLERANCE, Row, in_places, workload_of
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.errors import TVMError
from tilewright.driver import build
from tilewright.functional.planning.compiler import recorded_selection
from tilewright.measure.outcome import MeasureResult
from tilewright.topi.templates import ALL, Epilogue, PackagedTemplate, named
from tilewright.tune.records.format import MeasureInput, encode
from tilewright.tune.space.config import Config

DEPTHWISE = named("topi/depthwise")

FINALISTS, FIRST_PLACES = 5, 3
"""How many of the fastest configurations are timed in turns, and in how many places each is timed before."""
Job = tuple[str, str, str, int, bool]
"""The row and the mode, the template's name, the configuration's index, and whether it has an epilogue."""
Seeds = dict[str, list[tuple[str, dict[str, Any]]]]
"""Templates and the wanted choices of their knobs, by row and mode."""
Start = tuple[PackagedTemplate[Any], Config]
"""A configuration that others are like, which are tried as well."""


def jobs_of(
    name: str,
    mode: str,
    trials: int,
    fused: bool,
    seeds: Seeds,
    shipped: bool = False,
    epilogue: bool = False,
    strategy: str = "",
    near: bool = False,
) -> Iterator[Job]:
    """The configurations to compile for a row: the first one, `seeds`, and the model's favourites, in turns.

    With `shipped`, the first configuration is that of the record that ships for the layer or the nearest one. With
    `epilogue`, all but that have an epilogue, and it has one as well. With the name of a `strategy`, that is drawn from
    before the one that is chosen without measurements. With `near`, neighbours of the shipped one and of `seeds` come
    before the model's favourites.
    """
    family, of = FAMILIES[WORKLOADS[name][0]], workload_of(name, mode)
    able = [t for t in family.strategies if t.covers(of, TARGET)]
    template, first = family.choose(of, TARGET)
    known = recorded_selection(able, of, TARGET) if shipped else None
    if known is not None:
        template, first = known.template, known.config
    fused_known = recorded_selection(able, of, TARGET, fused=True) if shipped else None
    starts = [(template, first)]
    if fused_known is not None and epilogue:
        starts.append((fused_known.template, fused_known.config))
    starts += [
        (named(which), named(which).strategy(TARGET).nearest(of, choices))
        for which, choices in seeds.get(f"{name} {mode}", ())
    ]
    most = max(trials, 1)
    if not shipped and family is DEPTHWISE and of.layout == "NCHW" and prod(of.shape[2:]) <= 400:
        most *= 2  # if no model knows the good ones
    found = _tried(family, of, starts, trials, strategy, near, epilogue)
    for at, (which, index) in enumerate(list(found)[:most]):
        if epilogue and at == 0:
            yield name, mode, which, index, False
        yield name, mode, which, index, epilogue
    if fused and not epilogue:
        if fused_known is not None:
            template, first = fused_known.template, fused_known.config
        yield name, mode, template.name, first.index, True


def _tried(
    family: PackagedTemplate[Any], of: Any, starts: list[Start], trials: int, strategy: str, near: bool, fused: bool
) -> dict[tuple[str, int], None]:
    """The configurations of a row, the best first: names of templates, and indices."""
    (template, first), *others = starts
    able = [t for t in family.strategies if t.covers(of, TARGET)]
    found: dict[tuple[str, int], None] = {}

    def add(which: PackagedTemplate[Any], indices: Iterable[int]) -> None:
        found.update(dict.fromkeys((which.name, index) for index in indices))

    for each, config in starts:
        add(each, [config.index])
    for each, config in others:
        add(each, compiled_otherwise(each, of, config, trials, fused))
    for other in able:
        add(other, [other.default_config(of, TARGET).index])
    if near:
        beside = ([(each, i) for i in neighbours(each, of, config, trials // 2, fused)] for each, config in starts)
        for turn in zip_longest(*beside):
            for each, index in filter(None, turn):
                add(each, [index])
    for other in able:
        if other.name == strategy:
            add(other, drawn(other, of, trials, fused))
    add(template, compiled_otherwise(template, of, first, trials, fused))
    add(template, drawn(template, of, trials, fused))
    return found


def named(name: str) -> PackagedTemplate[Any]:
    """The packaged template of that name."""
    return next(t for t in ALL if t.name == name)


def compiled(job: Job) -> tuple[Job, CompiledProgram | str]:
    """A program, or why there is none."""
    name, mode, which, index, fused = job
    of = workload_of(name, mode)
    template = named(which)
    config = template.strategy(TARGET).space(of).get(index)
    try:
        program = template.program(config, of, TARGET, _EPILOGUE if fused else Epilogue())
        return job, build(*program, TARGET).program
    except TVMError as failure:
        return job, str(failure).splitlines()[0]


_EPILOGUE = Epilogue(bias=True, activation="relu")


def measure(
    row: Row, programs: list[tuple[Job, CompiledProgram | str]], log: Path, epilogue: bool = False
) -> dict[str, Any]:
    """Check and time everything of a row: a line of the table; the best one with or without an epilogue is kept.

    The times of a line are means over `Row.places`.
    """
    timed: dict[str, CompiledProgram] = {}
    able: list[tuple[float, Job, CompiledProgram]] = []
    for at, (job, program) in enumerate(programs):
        row.times.append(_once(row, job, program))
        if isinstance(program, str) or "us" not in row.times[-1]:
            continue
        if at == 0:
            timed["untuned"] = program
        if job[4]:
            timed.setdefault("fused", program)
        if job[4] == epilogue:
            able.append((row.times[-1]["us"], job, program))
    finalists = sorted(able, key=lambda each: each[0])[:FINALISTS]
    timers = {who: row.timers(program, who == "fused") for who, program in timed.items()}
    timers |= {f"finalist {at}": row.timers(program, job[4]) for at, (_, job, program) in enumerate(finalists)}
    timers |= {f"PyTorch {how}": own for how, own in row.theirs_in_places().items()}
    places = in_places(timers)
    line = {who: statistics.fmean(own) for who, own in places.items()}
    if finalists:
        microseconds = [line.pop(f"finalist {at}") for at in range(len(finalists))]
        line["tuned"] = min(microseconds)
        best = microseconds.index(line["tuned"])
        places["tuned"] = places[f"finalist {best}"]
        keep(finalists[best][1], line["tuned"] * 1e-6, log)
    known = {"row": row.name, "mode": row.mode, "device": row.torch.cuda.get_device_name(), "flop": row.of.flop}
    pytorch = min(us for who, us in line.items() if who.startswith("PyTorch"))
    own = {who: us for who, us in places.items() if who in line}
    return {**known, **line, "pytorch": pytorch, "bytes": row.bytes, "places": own}


def _once(row: Row, job: Job, program: CompiledProgram | str) -> dict[str, Any]:
    """The result of a configuration that ran alone: no time for one that failed or is wrong."""
    found: dict[str, Any] = {"template": job[2], "index": job[3], "fused": job[4]}
    if isinstance(program, str):
        return {**found, "failure": program}
    _, error = row.ours(program, job[4])
    resources = max(program.resources.values(), key=lambda each: each.registers)
    found |= {"error": error, "registers": resources.registers, "spills": resources.spill_store_bytes}
    found["config"] = [list(map(str, pair)) for pair in _config(job).items()]
    if error > TOLERANCE[row.of.dtype]:
        return {**found, "failure": f"wrong: {error}"}
    return {**found, "us": statistics.fmean(map(_alone, row.timers(program, job[4], FIRST_PLACES))) * 1e6}


def _alone(timer: Any) -> float:
    """Seconds of a run, timed alone for about three milliseconds."""
    runs = max(4, min(256, int(1e-3 / (timer(8) / 8))))
    return statistics.median(timer(runs) / runs for _ in range(3))


def _config(job: Job) -> Config:
    name, mode, which, index, _ = job
    template = named(which)
    return template.strategy(TARGET).space(workload_of(name, mode)).get(index)


def record_of(job: Job, seconds: float) -> str:
    """A line of a log that says how long a configuration takes."""
    task = named(job[2]).task(workload_of(job[0], job[1]), TARGET)
    return encode(MeasureInput(TARGET, task, _config(job)), MeasureResult((seconds,), 0, 0.0, time.time()))


def keep(job: Job, seconds: float, log: Path) -> None:
    """Append the best configuration to the log."""
    with log.open("a", encoding="utf-8") as file:
        file.write(record_of(job, seconds) + "\n")


def shown(line: dict[str, Any]) -> str:
    """A line of the table."""
    untuned, tuned, theirs = line.get("untuned"), line.get("tuned"), line["pytorch"]
    cells = [f"{line['row']:24} {line['mode']:13}"]
    cells += [f"{us:9.2f}" if us else "        –" for us in (untuned, tuned, line.get("fused"), theirs)]
    cells += [f"{theirs / us:6.2f}" if us else "     –" for us in (untuned, tuned)]
    cells += [f"{line['fused'] / untuned:6.2f}" if untuned and "fused" in line else "     –"]
    cells.append(f"{line['bytes'] / 4.25e6:8.1f}")
    return " ".join(cells)


def geomeans(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each mode, over the depthwise and 1-D rows."""
    for mode in dict.fromkeys(line["mode"] for line in lines):
        for who in ("untuned", "tuned"):
            ratios = [
                line["pytorch"] / line[who]
                for line in lines
                if line["mode"] == mode and line.get(who) and not line["row"].startswith(("grouped", "replk", *DENSE))
            ]
            if ratios:
                mean = prod(ratios) ** (1 / len(ratios))
                yield f"{mode:14} {who:8} geomean {mean:5.2f} over {len(ratios)}, least {min(ratios):.2f}"


Programs = dict[Job, CompiledProgram | str]


def read_programs(path: Path | None) -> Programs:
    """The output of `--compile-only`."""
    return pickle.loads(gzip.decompress(path.read_bytes())) if path else {}


def write_programs(path: Path, programs: Programs) -> None:
    """Write programs, or why there are none, for another machine."""
    path.write_bytes(gzip.compress(pickle.dumps(programs), 1))


def main() -> None:
    """Measure the rows and modes that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--modes", nargs="+", default=["float32"], help="types and layouts: float16/NHWC")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this many")
    parser.add_argument("--fused", action="store_true", help="also the first configuration with bias and relu")
    parser.add_argument("--epilogue", action="store_true", help="tune kernels with bias and relu, for a log of theirs")
    parser.add_argument("--shipped", action="store_true", help="begin with the shipped record, if there is one")
    parser.add_argument("--strategy", default="", help="the template to draw from: topi/conv2d.grouped_rows")
    parser.add_argument("--near", action="store_true", help="try neighbours of the shipped configurations first")
    parser.add_argument("--seeds", type=Path, help="a file of configurations to measure too, by row and mode")
    parser.add_argument("--compile-only", action="store_true", help="measure nothing, and write OUT/programs")
    parser.add_argument("--programs", type=Path, help="the output of --compile-only, so that little is compiled here")
    parser.add_argument("--out", type=Path, default=Path("convolution-sweep"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    seeds: Seeds = json.loads(given.seeds.read_text()) if given.seeds else {}
    log = "epilogues.log" if given.epilogue else "records.log"
    rows = [name for name in WORKLOADS if any(name.startswith(n) for n in given.names or [""])]
    rows = [name for name in rows if given.names or not name.startswith(DENSE)]
    pairs = [(name, mode) for mode in given.modes for name in rows if workload_of(name, mode) is not None]
    options = (given.trials, given.fused, seeds, given.shipped, given.epilogue, given.strategy, given.near)
    jobs = [job for pair in pairs for job in jobs_of(*pair, *options)]
    had = read_programs(given.programs)
    lines: list[dict[str, Any]] = []
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        done = pool.map(compiled, [job for job in jobs if job not in had], chunksize=1)
        for name, mode in pairs:
            own = [job for job in jobs if job[:2] == (name, mode)]
            programs = [(job, had[job]) if job in had else next(done) for job in own]
            if given.compile_only:
                had.update(programs)
                write_programs(given.out / "programs", had)
                failed = [program for _, program in programs if isinstance(program, str)]
                print(f"{name:24} {mode:13} {len(own)} programs, {len(failed)} failed {failed[:1]}", flush=True)
                continue
            if time.perf_counter() - began > given.seconds:
                print(f"{name} {mode}: no time left", flush=True)
                continue
            try:
                row = Row(name, mode)
                lines.append(measure(row, programs, given.out / log, given.epilogue))
                lines[-1]["trials"] = row.times
                print(shown(lines[-1]), flush=True)
            except (RuntimeError, TVMError) as failure:
                print(f"{name} {mode}: {type(failure).__name__}: {failure}", flush=True)
            (given.out / "sweep.json").write_text(json.dumps(lines))
        pool.shutdown(cancel_futures=True)
    heads = " ".join(f"{head:>9}" for head in ("untuned", "tuned", "fused", "PyTorch"))
    print(f"{time.perf_counter() - began:.0f} s\n{'':38} {heads} ÷untun ÷tuned  fused     copy")
    for line in lines:
        print(shown(line))
    print("\n".join(geomeans(lines)))


if __name__ == "__main__":
    main()
