"""The kernels of a layer to ship, without and with an epilogue: the fastest of two sweeps, each compiled both ways.

    python -m benchmarks.record_pairs PLAIN EPILOGUES [NAME ...] [--bound 1.03] [--compile-only] [--out DIR]

PLAIN and EPILOGUES are folders that `benchmarks.convolution_sweep` wrote, the latter with `--epilogue`. The fastest of
either, and the shipped one, are timed in turns in one process. Compilers order the instructions of a kernel with and
without a bias differently, so the two may differ by 25%. The fastest plain kernel and the fastest one with bias and
relu become the records. `--bound 1.03` limits the cost of the epilogue to 3%. If the fastest plain kernel breaks the
limit, a plain kernel that is up to 3% slower and keeps the limit replaces it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.convolution_sweep import Job, compiled, named, read_programs, record_of, write_programs
from benchmarks.likely_configurations import TARGET
from benchmarks.ship_records import DEVICE, EPILOGUES, SWEEPS, gives_way, key_of, read, workload_of_record, write
from benchmarks.timed_rows import TOLERANCE, Row, in_places, workload_of
from tilewright.codegen.abi import CompiledProgram
from tilewright.functional.planning import shipped

PLAIN, FUSED = 2, 3
"""How many of the fastest kernels without and with an epilogue are candidates."""
LOSS = 1.03
"""How much longer than the fastest plain kernel one may take that keeps an epilogue within a bound."""
Candidate = tuple[str, int]
"""A template's name and a configuration's index."""
Pair = dict[str, Any]
"""A row and a mode; `plain` and `fused`: a candidate each, with its microseconds."""
Record = dict[str, Any]


def candidates(
    plain: Mapping[str, Any], fused: Mapping[str, Any] | None, records: Mapping[Path, Any]
) -> list[Candidate]:
    """Return the configurations of a row that may ship, from lines of two sweeps, and from logs of records by path.

    Each is one with all that may be done to a bias.
    """
    found = [*_fastest(fused, True, FUSED)] if fused else []
    found += _fastest(plain, False, PLAIN)
    of = workload_of(plain["row"], plain["mode"])
    same = (record for own in records.values() for record in own if workload_of_record(record) == key_of(of))
    found += [(record["input"][1], record["config"]["index"]) for record in same]
    return list(dict.fromkeys(each for which, index in dict.fromkeys(found) for each in _by_bias(of, which, index)))


def _by_bias(of: Any, which: str, index: int) -> Iterator[Candidate]:
    """A configuration, and the ones that differ from it in the treatment of a bias."""
    yield which, index
    space = named(which).strategy(TARGET).space(of)
    at = next((place for place, knob in enumerate(space.knobs) if knob.name == "bias"), None)
    if at is not None:
        point = space.point(index)
        for choice in range(len(space.knobs[at])):
            yield which, space.index([*point[:at], choice, *point[at + 1 :]])


def _fastest(line: Mapping[str, Any], fused: bool, count: int) -> Iterator[Candidate]:
    timed = [each for each in line["trials"] if "us" in each and each["fused"] == fused]
    for each in sorted(timed, key=lambda each: float(each["us"]))[:count]:
        yield each["template"], each["index"]


def chosen(name: str, mode: str, us: Mapping[Job, float], bound: float = inf) -> Pair:
    """Return the pair that ships, of the microseconds of each candidate with and without an epilogue."""
    plain, fused = ({job: t for job, t in us.items() if job[4] == with_epilogue} for with_epilogue in (False, True))
    last, first = min(fused, key=lambda job: fused[job]), min(plain, key=lambda job: plain[job])
    able = [job for job, t in plain.items() if fused[last] <= bound * t and t <= LOSS * plain[first]]
    taken = min(able, key=lambda job: plain[job], default=first)
    sides = {"plain": [taken[2], taken[3], plain[taken]], "fused": [last[2], last[3], fused[last]]}
    return {"row": name, "mode": mode, **sides, "fastest": plain[first]}


def timed(name: str, mode: str, programs: list[tuple[Job, CompiledProgram]]) -> dict[Job, float]:
    """Microseconds of kernels, means over places, all in turns; of the same plain kernel once, and of no wrong one."""
    row, timers, known = Row(name, mode), dict[Job, list[Any]](), set[bytes | None]()
    for job, program in programs:
        if not job[4] and program.binary in known:
            continue
        known.add(None if job[4] else program.binary)
        if row.ours(program, job[4])[1] <= TOLERANCE[row.of.dtype]:
            timers[job] = row.timers(program, job[4])
    return {job: statistics.fmean(own) for job, own in in_places(timers).items()}


def ship(pairs: list[Pair]) -> str:
    """Put pairs into the package, in place of the records of their layers, and report the outcome in a line.

    Records of other strategies that are slower stay: calls that cannot use the fastest use them.
    """
    logs = {path: read(path) for path in shipped.RECORDS.glob("*.log")}
    for pair in pairs:
        plain, fused = (_record(pair["row"], pair["mode"], *pair[side]) for side in ("plain", "fused"))
        for path, own in logs.items():
            yields = _is_of_its_layer if path.name == EPILOGUES else gives_way
            logs[path] = [record for record in own if not yields(record, plain)]
        logs[shipped.RECORDS / SWEEPS].append(plain)
        if pair["plain"][:2] != pair["fused"][:2]:
            logs[shipped.RECORDS / EPILOGUES].append(fused)
    for path, own in logs.items():
        write(path, own)
    other = sum(pair["plain"][:2] != pair["fused"][:2] for pair in pairs)
    return f"{len(pairs)} pairs, {other} with two configurations"


def _is_of_its_layer(record: Record, other: Record) -> bool:
    return workload_of_record(record) == workload_of_record(other)


def _record(name: str, mode: str, which: str, index: int, us: float) -> Record:
    made: Record = json.loads(record_of((name, mode, which, index, False), us * 1e-6))
    return made


def _lines(folder: Path) -> dict[tuple[str, str], Any]:
    lines = json.loads((folder / "sweep.json").read_text(encoding="utf-8"))
    return {(line["row"], line["mode"]): line for line in lines}


def main() -> None:
    """Time the candidates of each row, and ship a pair of each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("plain", type=Path, metavar="PLAIN", help="the output of a sweep")
    parser.add_argument("epilogues", type=Path, metavar="EPILOGUES", help="the output of a sweep with --epilogue")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows with this text in their name and mode")
    parser.add_argument("--bound", type=float, default=inf, help="the allowed cost of an epilogue: 1.03")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no row after this many")
    parser.add_argument("--compile-only", action="store_true", help="measure nothing, and write OUT/programs")
    parser.add_argument("--programs", type=Path, help="the output of --compile-only, so that nothing is compiled here")
    parser.add_argument("--out", type=Path, default=Path("record-pairs"))
    given = parser.parse_args()
    for folder in (given.plain, given.epilogues):
        if not (folder / "sweep.json").exists():
            parser.error(f"{folder} has no sweep.json: give the output of `benchmarks.convolution_sweep --out DIR`")
    given.out.mkdir(parents=True, exist_ok=True)
    plain, fused = _lines(given.plain), _lines(given.epilogues)
    records = {path: read(path) for path in shipped.RECORDS.glob("*.log")}
    rows = [pair for pair in plain if not given.names or any(text in " ".join(pair) for text in given.names)]
    each = [((name, mode), candidates(plain[name, mode], fused.get((name, mode)), records)) for name, mode in rows]
    jobs = [(*row, *which, with_bias) for row, own in each for which in own for with_bias in (False, True)]
    if given.programs:
        made = read_programs(given.programs)
    else:
        with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
            made = dict(pool.map(compiled, jobs, chunksize=1))
    if given.compile_only:
        write_programs(given.out / "programs", made)
        print(f"{len(made)} programs of {len(rows)} rows")
        return
    began, pairs = time.perf_counter(), list[Pair]()
    for name, mode in rows:
        if time.perf_counter() - began > given.seconds:
            print(f"{name} {mode}: no time left", flush=True)
            continue
        own = [(job, made[job]) for job in jobs if job[:2] == (name, mode)]
        us = timed(name, mode, [(job, program) for job, program in own if not isinstance(program, str)])
        pairs.append(chosen(name, mode, us, given.bound))
        print(shown(pairs[-1]), flush=True)
        (given.out / "pairs.json").write_text(json.dumps(pairs))
    import torch

    device = torch.cuda.get_device_name()
    print(ship(pairs) if device == DEVICE else f"{len(pairs)} pairs left out: measured on {device}, not on {DEVICE}")


def shown(pair: Pair) -> str:
    """A line of the table: microseconds, the cost of the epilogue, and the distance of the plain one from the
    fastest."""
    (*_, plain), (*_, fused) = pair["plain"], pair["fused"]
    own = f"{plain:9.3f} {fused:9.3f} {fused / plain:6.3f} {plain / pair['fastest']:6.3f}"
    return f"{pair['row']:24} {pair['mode']:13} {own}"


if __name__ == "__main__":
    main()
