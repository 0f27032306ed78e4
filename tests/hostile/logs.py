"""Hostile logs: valid ones, mutated, through all that reads logs: `python -m tests.hostile.logs --count 2000`."""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import logging
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tilewright as tw
from tests.hostile.children import ROOT, Fault
from tests.hostile.children import run as run_cases
from tests.tune import fakes
from tilewright import autotvm
from tilewright.autotvm.record import encode, load_from_buffer, load_from_file, merge, pick_best, split_workload
from tilewright.cli import log as command
from tilewright.core.errors import UserError
from tilewright.tune.records.format import Notes
from tilewright.tune.search.simple import RandomSearch
from tilewright.tune.session.campaign import Entrant
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.options import SearchOptions

_CODE = "__import__('os').system('touch executed')"
_VALUES = (
    None, True, False, -1, 0, 0.5, 2**63, 10**60, 10**300, 10**4200, 1e308, float("nan"), float("inf"), "", "x",
    "\ud800", "\udcff\x1b[2J\0", "9" * 400, _CODE, [], {}, [[]], {"a": 1}, [None], [-1, 0], ["a", "b"], [[[[1]]]],
    "opencl", "cuda", "llvm -mcpu=" + "x" * 500, [1.0] * 1000,
)  # fmt: skip
_CONV = {"shape": (1, 4, 8, 8), "filters": 8, "kernel": 3}


@cache
def valid() -> list[str]:
    """The lines of logs as they should be: those of the legacy system, and ours of two templates."""
    lines = []
    for path in sorted((ROOT / "tests/tune/legacy").glob("*.json")):
        lines += path.read_text(encoding="utf-8").splitlines()[:4]
    packaged = autotvm.templates.conv2d.task("opencl", **_CONV)
    for task in (fakes.add_task(), packaged):
        for index in range(6):
            inp = autotvm.MeasureInput(task.target, task, task.config_space.get(index * 7))
            error = index % 3 == 2
            notes = Notes(compiler="", reason="B[3] is 7" * error, flop=task.flop, checked=index != 1)
            result = autotvm.MeasureResult((1e-3 * (index + 1),), 5 * error, 0.5, 1700000000.0 + index)
            lines.append(encode(inp.noted(notes), result))
    return lines


# Mutations: of lines, of the JSON in them, and of the bytes of the whole file.


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place within JSON data, as the container and the key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _replaced(rng: random.Random, lines: list[str]) -> bytes:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        for _ in range(rng.randrange(3)):
            owner, key = rng.choice(list(_places(row)))
            owner[key] = copy.deepcopy(rng.choice(_VALUES))
    return "\n".join(json.dumps(row) if rng.random() < 0.5 else _raw(row) for row in rows).encode()


def _raw(row: Any) -> str:
    """JSON with as few escapes as bytes can hold."""
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _removed(rng: random.Random, lines: list[str]) -> bytes:
    rows = [json.loads(line) for line in lines]
    for row in rows:
        owner, key = rng.choice(list(_places(row)))
        del owner[key]
    return "\n".join(map(json.dumps, rows)).encode()


def _swapped(rng: random.Random, lines: list[str]) -> bytes:
    """Parts of one record in another."""
    rows = [json.loads(line) for line in lines]
    for row in rows:
        owner, key = rng.choice(list(_places(row)))
        other, there = rng.choice(list(_places(rng.choice(rows))))
        owner[key] = json.loads(json.dumps(other[there]))
    return "\n".join(map(json.dumps, rows)).encode()


def _nested(rng: random.Random, lines: list[str]) -> bytes:
    depth = rng.choice([10, 63, 64, 65, 300, 700, 950, 20_000])
    left, right = rng.choice([("[", "]"), ('{"a":', "}"), ("[[1],", "]")])
    deep = left * depth + "1" + right * (depth if rng.random() < 0.8 else depth - 1)
    row = json.loads(rng.choice(lines))
    owner, key = rng.choice(list(_places(row)))
    owner[key] = "HERE"
    return "\n".join([*lines, json.dumps(row).replace('"HERE"', deep)]).encode()


def _flipped(rng: random.Random, lines: list[str]) -> bytes:
    data = bytearray("\n".join(lines).encode())
    for _ in range(rng.choice([1, 3, 30, 300])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _cut(rng: random.Random, lines: list[str]) -> bytes:
    data = "\n".join(lines).encode()
    begin = rng.randrange(len(data))
    return data[begin : rng.randrange(begin, len(data) + 1)] if rng.random() < 0.5 else data[:begin]


def _spliced(rng: random.Random, lines: list[str]) -> bytes:
    data = "\n".join(lines).encode()
    parts = []
    for _ in range(rng.randrange(2, 12)):
        begin = rng.randrange(len(data))
        parts.append(data[begin : begin + rng.randrange(1, 400)] * rng.choice([1, 1, 1, 50]))
    return rng.choice([b"", b"\n", b"\0", b"\r", b"\xff"]).join(parts)


def _encoded(rng: random.Random, lines: list[str]) -> bytes:
    text = rng.choice(["\n", "\r\n", "\r", "\u2028", "\n\ufeff"]).join(lines).replace("a", rng.choice(["a", "é", "变"]))
    return text.encode(
        rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "utf-7"]), "replace"
    )


def _long(rng: random.Random, lines: list[str]) -> bytes:
    size = rng.choice([1 << 16, 1 << 22, 1 << 25])
    return "\n".join([lines[0], rng.choice('x[ \0"9') * size, lines[-1]]).encode()


_MUTATIONS: tuple[Callable[[random.Random, list[str]], bytes], ...] = (
    _replaced, _replaced, _replaced, _removed, _swapped, _nested, _flipped, _cut, _spliced, _encoded, _long,
)  # fmt: skip


# What reads logs.


def _apply(path: str) -> None:
    history = autotvm.apply_history_best(path)
    for target in ("opencl", "llvm"):
        with history, tw.target.Target(target):
            fakes.add(4096)
            autotvm.templates.conv2d(**_CONV)
    repr(history)


def _resume(path: str) -> None:
    task = fakes.add_task()
    entrant, measurer = Entrant(task, RandomSearch(task.config_space, 0)), fakes.FakeMeasurer(lambda i: 1e-3 * (i + 1))
    search = LayerSearch([entrant], measurer, SearchOptions(3))
    search.resume(load_from_file(path))
    search.go()
    autotvm.tuner.RandomTuner(task).load_history(load_from_file(path))


def _buffer(path: str) -> None:
    if not Path(path).is_file():  # whoever opens a pipe waits for it
        return
    for mode in ({"mode": "rb"}, {"mode": "r", "encoding": "utf-8"}, {"mode": "r", "encoding": "latin-1"}):
        with open(path, **mode) as file:
            list(load_from_buffer(file))


_READERS: dict[str, Callable[[str], Any]] = {
    "load": lambda path: [repr(pair) for pair in load_from_file(path)],
    "load_from_buffer": _buffer,
    "apply": _apply,
    "resume": _resume,
    "pick_best": lambda path: pick_best(path, "out.log"),
    "split": lambda path: split_workload(path),
    "merge": lambda path: (merge([path, "good.log"], "out.log"), list(load_from_file("out.log"))),
    "show": lambda path: command.show(Path(path)),
    "best": lambda path: command.best(Path(path)),
    "merge command": lambda path: command.merge_logs(Path("fresh.log"), [Path(path), Path("good.log")]),
}
_SPECIAL = ("fifo", "/dev/zero", "/dev/null", ".", "missing", "sparse", "/proc/self/environ")


class Mutated:
    """Log number `number` of a seed: how it was made, and what comes of reading it in some way."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(seed * 1_000_003 + number + 11)
        self.reader = self.rng.choice(list(_READERS))
        self.special = self.rng.choice(_SPECIAL) if self.rng.random() < 0.05 else ""
        self.how = self.rng.choice(_MUTATIONS)
        self.name = self.shown = f"{self.special or self.how.__name__.strip('_')} log, {self.reader}"

    def run(self) -> str:
        """Empty where the log is read or refused; else what went wrong."""
        logging.getLogger("autotvm").setLevel(logging.CRITICAL)
        for left in Path().glob("*.log*"):
            left.unlink()
        good = self.rng.sample(valid(), 4)
        Path("good.log").write_text("\n".join(good) + "\n", encoding="utf-8")
        path = self._made(good)
        try:
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
                _READERS[self.reader](path)
        except UserError:
            pass
        except BaseException as error:  # whatever reading raises is its outcome
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {str(error)[:200]!r} at {at.filename}:{at.lineno}"
        return "it ran code" if Path("executed").exists() else ""

    def _made(self, good: list[str]) -> str:
        if self.special == "fifo" and not Path("fifo").exists():
            os.mkfifo("fifo")
        if self.special == "sparse":
            with open("sparse", "wb") as file:
                file.truncate(1 << 29)
        if self.special:
            return self.special
        lines = [*good, *self.rng.sample(valid(), 4)]
        Path("bad.log").write_bytes(self.how(self.rng, lines))
        return "bad.log"


def run(n: int, seed: int, first: int = 0) -> list[Fault]:
    """The faults of `n` mutated logs, each read in a child process with limits of time and memory."""
    return [fault for fault in run_cases("logs", seed, first, n) if fault is not None]


def main() -> int:
    """Run the command; 1 where a log ended as none may."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.logs", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    faults = run(given.count, given.seed, given.first)
    for fault in {fault.what: fault for fault in reversed(faults)}.values():
        print(fault)
    print(f"{given.count} logs, {len(faults)} faults, {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
