"""Put records and rows of decisions into the package: python -m benchmarks.ship_records DIR ...

Each DIR is an output of `benchmarks.convolution_sweep --shipped --out DIR`, with or without `--epilogue`. The output of
`benchmarks.networks --out DIR` is shipped by its `--ship`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.timed_rows import workload_of
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import rivals
from tilewright.functional.planning.shipped import RECORDS

_GAIN = 0.99
"""Part of the time of the record that ships that a new one may take at most, in one run."""
NETWORKS, SWEEPS, EPILOGUES = "h200_networks.log", "h200_convolutions.log", "h200_epilogues.log"
DEVICE = "NVIDIA H200"
_SAME_ORDER = {"NCHW": "PyTorch conv2d", "NHWC": "PyTorch conv2d, channels last"}
"""PyTorch's time in a sweep of the memory order that a call has."""
Record = dict[str, Any]
Line = dict[str, Any]


def ship(lines: list[Line], to: str = NETWORKS) -> str:
    """Merge measured layers into the package, and report the outcome in a line.

    A record replaces the record of its layer and strategy, and records of other strategies that other runs measured as
    faster. It also replaces slower records with an epilogue, because calls would prefer these. A record that is less
    than 1% faster than the shipped record is left out, and no decision depends on it. The comparison uses the times of
    the same run if it began with the shipped record, else the times in both records. Measurements of another kind of
    GPU are left out: the fastest configuration there was 1.12 times slower than the record here.
    """
    lines, others = _of_the_device(lines)
    logs = {path: read(path) for path in RECORDS.glob("*.log")}
    fastest: dict[str, Record] = {}
    for record in (record for path, own in logs.items() if path.name != EPILOGUES for record in own):
        here = workload_of_record(record)
        fastest[here] = min(fastest.get(here, record), record, key=seconds_of)
    pairs = [(line, fastest.get(workload_of_record(line["record"]))) for line in lines]
    better = [line["record"] for line, record in pairs if _is_better(line, record)]
    judged = [line for line, record in pairs if _is_better(line, record) or _began_with(line, record)]
    for path, own in logs.items():
        yields = _is_slower if path.name == EPILOGUES else gives_way
        left = [record for record in own if not any(yields(record, other) for other in better)]
        write(path, left + better if path.name == to else left)
    write_rivals(rivals.TABLE, [{key: line[key] for key in ("problem", "device", "ours", "theirs")} for line in judged])
    return f"{len(better)} records of {len(lines)} layers{others}"


def _of_the_device(lines: list[Line]) -> tuple[list[Line], str]:
    """Return the lines that were measured on the GPU of the records, and a sentence about the others."""
    own = [line for line in lines if line["device"] == DEVICE]
    others = len(lines) - len(own)
    return own, f"; {others} measured on other GPUs than {DEVICE} left out" if others else ""


def _is_better(line: Line, than: Record | None) -> bool:
    """Whether the best configuration of a layer is faster than the record that a call takes so far."""
    if than is None:
        return True
    before = line["tried"][0][2] if _began_with(line, than) else seconds_of(than)
    return bool(line["ours"] <= _GAIN * before)


def _began_with(line: Line, record: Record | None) -> bool:
    """Whether a run of a layer began with the configuration of a record."""
    template, index, _ = line["tried"][0]
    return record is not None and (template, index) == (record["input"][1], record["config"]["index"])


def gives_way(record: Record, to: Record) -> bool:
    """Whether a record gives way to a new one."""
    return workload_of_record(record) == workload_of_record(to) and (
        record["input"][1] == to["input"][1] or seconds_of(record) < seconds_of(to)
    )


def _is_slower(record: Record, than: Record) -> bool:
    """Whether a record of a layer with an epilogue takes longer than a new one without."""
    return workload_of_record(record) == workload_of_record(than) and seconds_of(record) > seconds_of(than)


def ship_epilogues(lines: list[Line]) -> str:
    """Merge the records of a sweep with an epilogue, and report the outcome in a line.

    A layer has one only if it is at least 1% faster than the configuration of the record without an epilogue. That
    which ships stays unless the new one is at least 1% faster.
    """
    lines, others = _of_the_device(lines)
    shipped = read(RECORDS / EPILOGUES)
    left, count = {workload_of_record(record): record for record in shipped}, 0
    for line in lines:
        here, record = workload_of_record(line["record"]), line["record"]
        took = [each["us"] for each in line["trials"] if "us" in each and each["fused"]]
        before = _time_of(left[here], line) if here in left else None
        if line["tuned"] > _GAIN * line["fused"]:
            left.pop(here, None)
        elif before is None or min(took) <= _GAIN * before:
            left[here], count = record, count + 1
    write(RECORDS / EPILOGUES, list(left.values()))
    return f"{count} records of {len(lines)} layers with an epilogue, {len(shipped)} before and {len(left)} now{others}"


def _time_of(record: Record, line: Line) -> float | None:
    """The time that a sweep measured for the configuration of a record, in microseconds."""
    which, index = record["input"][1], record["config"]["index"]
    same = [each for each in line["trials"] if (each["template"], each["index"]) == (which, index) and each["fused"]]
    return min((each["us"] for each in same if "us" in each), default=None)


def of_sweep(folder: Path, log: str) -> list[Line]:
    """Return the lines of a sweep, each with the record of its best configuration, as `ship` wants them."""
    records = {workload_of_record(record): record for record in read(folder / log)}
    found = []
    for line in json.loads((folder / "sweep.json").read_text(encoding="utf-8")):
        of = workload_of(line["row"], line["mode"])
        record = records.get(key_of(of))
        if record is not None and of.name != "conv1d":
            windows = (of.kernel, of.stride, of.padding, of.dilation)
            problem = Problem(CONV, of.shape, of.channels, *windows, of.groups, of.dtype, of.layout)
            first = (line["trials"][0]["template"], line["trials"][0]["index"], line.get("untuned", inf) * 1e-6)
            theirs = line[_SAME_ORDER[of.layout]] * 1e-6
            sides = {
                "problem": problem.description(),
                "device": line.get("device", DEVICE),
                "ours": line["tuned"] * 1e-6,
                "theirs": theirs,
            }
            found.append({**line, **sides, "record": record, "tried": [first]})
    return found


def key_of(of: Any) -> str:
    """The result of `workload_of_record` for the records of a workload."""
    return json.dumps([f"topi/{of.name}", of.args])


def workload_of_record(record: Record) -> str:
    """The operator and its arguments, for any strategy."""
    _, template, args, _ = record["input"]
    return json.dumps([template.partition(".")[0], args])


def seconds_of(record: Record) -> float:
    """The resources of its kernel in a record."""
    costs: list[float] = record["result"][0]
    return sum(costs) / len(costs)


def read(path: Path) -> list[Any]:
    """The lines of JSON in a file; none if the file is missing."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def write(path: Path, rows: list[Any]) -> None:
    """Write lines of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_rivals(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows into a table of decisions, in place of its rows of the same layers on that device."""
    write(path, [*{(Problem.read(row["problem"]), row["device"]): row for row in (*read(path), *rows)}.values()])


def main(folders: Iterable[Path]) -> None:
    """Ship the results of sweeps."""
    for folder in folders:
        if (folder / "records.log").exists():
            print(folder, ship(of_sweep(folder, "records.log"), SWEEPS))
        if (folder / "epilogues.log").exists():
            print(folder, ship_epilogues(of_sweep(folder, "epilogues.log")))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    main(parser.parse_args().folders)
