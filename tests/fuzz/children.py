"""Cases in child processes with a limit of time: a crash or a hang costs one case, and a device's doubtful answers are
asked for once more.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fuzz.automatic import draw_automatic
from tests.fuzz.cases import Case, computations, draw, primitives
from tests.fuzz.engines import Verdict
from tests.fuzz.shrink import shrunk
from tests.fuzz.worker import decoded
from tests.paths import python_path

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
"""The time that one case may take, on a machine that does other things meanwhile; shrinking it may take twice that."""
AT_ONCE = 400
"""Cases of one process, whose memory grows with what it has compiled."""


class Children:
    """Judges cases on the given engines, each in one of a sequence of processes.

    `only` takes cases with threads ("kernels") or without ("programs"); no case begins after `until`. With `auto`,
    the cases have automatic schedules for that target, or for "any".
    """

    def __init__(
        self,
        engines: tuple[str, ...],
        every: int = 1,
        only: str | None = None,
        until: float = math.inf,
        auto: str | None = None,
    ) -> None:
        self.engines, self.every, self.only, self.until, self.auto = engines, every, only, until, auto

    def run(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """What became of each case, in order."""
        at, last = first, first + count
        while at < last and time.monotonic() < self.until:
            some = min(AT_ONCE, last - at)
            end = at + some
            for message in self._some(at, some):
                verdict = message["verdict"]
                broken = verdict["where"] == "cuda" and verdict["outcome"] != "right"  # as may be the process's GPU
                if broken or verdict["outcome"] in ("hang", "slow", "crash"):  # or the process has ended
                    end = message["case"]["seed"] + 1
                yield self._settled(message)
                if broken:
                    break
            at = end

    def _some(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """Cases that one process judges, until it ends."""
        seed, where = first, "interpreter"
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "stderr", "w+b") as errors:
            arguments = ["--first", str(first), "--count", str(count), "--every", str(self.every)]
            child = self._start([*arguments, *self._chosen()], folder, errors)
            try:
                for message in _messages(child, self.until):
                    if "family" in message:
                        yield message
                    seed, where = message.get("seed", seed), message.get("where", where)
                return
            except TimeoutError:
                outcome = "slow" if where == "opencl" else "hang"  # PoCL takes minutes for a long kernel
            except EOFError:
                outcome = "crash"
            finally:
                child.kill()
                child.wait()
            errors.seek(0)
            detail = errors.read().decode(errors="replace")[-2000:]
        if outcome == "crash" and child.returncode > 0:  # the worker's own fault
            raise RuntimeError(f"case {seed}: the worker fails:\n{detail}")
        sign = signal.Signals(-child.returncode).name if outcome == "crash" else ""
        case = draw_automatic(seed, self.auto) if self.auto else draw(seed)
        yield _message(case, Verdict(outcome, where, sign))

    def _chosen(self) -> list[str]:
        """The worker's arguments that choose cases."""
        return [*(["--only", self.only] if self.only else []), *(["--auto", self.auto] if self.auto else [])]

    def _start(self, arguments: list[str], folder: str, errors: Any, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.fuzz.worker", "--engines", ",".join(self.engines), *arguments]
        environment = {**os.environ, "PYTHONPATH": python_path(), "TILEWRIGHT_NUM_THREADS": "2", **variables}
        piped = subprocess.PIPE
        return subprocess.Popen(command, cwd=folder, stdin=piped, stdout=piped, stderr=errors, env=environment)

    def _one(self, case: Case, **variables: str) -> Verdict:
        """The verdict on one case, in a process of its own."""
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, "wb") as errors:
            child = self._start(["--case"], folder, errors, **variables)
            try:
                out, _ = child.communicate(json.dumps(asdict(case)).encode(), timeout=8 * SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                return Verdict("hang", "opencl")
        if child.returncode:
            return Verdict("crash", "opencl", signal.Signals(-child.returncode).name if child.returncode < 0 else "")
        found = json.loads(out.splitlines()[-1])
        return Verdict(found["outcome"], found["where"], found["detail"])

    def _settled(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message, or if a device is at fault rather than the kernel, one that says so; shrunk if not."""
        held = message["verdict"]
        verdict = Verdict(held["outcome"], held["where"], held["detail"])
        if verdict.outcome == "hang":  # or the machine has done other things
            case = decoded(message["case"])
            return _message(case, self._one(case))
        if verdict.where != "opencl" or not verdict.is_fault:
            return message
        case = decoded(message["case"])
        # PoCL 3.0 miscompiles a few kernels in a hundred in one of its two ways to run the threads of a block.
        if self._one(case, POCL_WORK_GROUP_METHOD="workitemrepl").outcome == "right":
            return _message(case, Verdict("unlike", "opencl", verdict.detail))
        return _message(*shrunk(case, verdict, self._one))


def _message(case: Case, verdict: Verdict) -> dict[str, Any]:
    return {
        "verdict": {**asdict(verdict), "kind": verdict.kind},
        "engines": [],
        "family": case.family,
        "primitives": primitives(case.lines),
        "refused": [],
        "computations": sorted(computations(case.lines)),
        "case": asdict(case),
    }


def _messages(child: subprocess.Popen[bytes], last: float) -> Iterator[dict[str, Any]]:
    """The lines that a child writes before the time `last`; TimeoutError where none comes in time, EOFError where it
    dies.
    """
    assert child.stdout is not None
    pending, done = b"", False
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        until = time.monotonic() + 4 * SECONDS  # the first case waits for the start
        while not done:
            if not selector.select(max(0.0, min(until, last) - time.monotonic())):
                if time.monotonic() >= last:
                    return
                raise TimeoutError
            read = os.read(child.stdout.fileno(), 1 << 16)
            if not read:
                break
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                message = json.loads(line)
                until = time.monotonic() + SECONDS * (3 if message.get("shrinking") else 1)
                done = bool(message.get("done"))
                if not done:
                    yield message
    if not done:
        child.wait()
        raise EOFError
