"""Hostile cases in child processes, with limits of time and memory: a crash or a hang costs one case.

A child runs cases one after the other and reports each before and after it, so that the case at fault is known; after
a crash or a hang the next child goes on behind it.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.measure.programs import patient
from tests.paths import python_path

ROOT = Path(__file__).parents[2]
SECONDS = 30.0
"""The time that one case may take; longer on a machine that does other things meanwhile."""
_START = "the start of a child"
_START_SECONDS = 120.0
_BYTES = 4 << 30


@dataclass(frozen=True)
class Fault:
    """A case that ended as none may."""

    kind: str
    seed: int
    number: int
    case: str
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.hostile {self.kind} --seed {self.seed} --from {self.number} --count 1"
        return f"{self.case}\n    {self.what}\n    again: {again}"


class NoStartError(Exception):
    """A child ends before its first case, and again when it is started anew: no case is at fault."""


def run(kind: str, seed: int, first: int, count: int) -> Iterator[Fault | None]:
    """The outcome of each of `count` cases, in order: None, or a fault; NoStartError where no child begins one."""
    number, last = first, first + count
    failed = ""
    while number < last:
        for outcome in _child(kind, seed, number, last - number):
            if outcome is not None and outcome.case == _START:
                if failed:
                    raise NoStartError(f"{failed}\nand again: {outcome.what}")
                failed = outcome.what
                break
            failed = ""
            number += 1
            yield outcome


def _child(kind: str, seed: int, first: int, count: int) -> Iterator[Fault | None]:
    command = [sys.executable, "-m", "tests.hostile.children", kind, str(seed), str(first), str(count)]
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "stderr", "w+b") as errors:
        child = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": python_path(), "TILEWRIGHT_NUM_THREADS": "1"},
        )  # fmt: skip
        number, case = first, _START
        try:
            for message in _messages(child):
                if message is None:
                    yield Fault(kind, seed, number, case, f"hangs: no end within {SECONDS:g} s")
                    return
                if "case" in message:
                    case = message["case"]
                    continue
                yield Fault(kind, seed, number, message["shown"], message["what"]) if message["what"] else None
                number += 1
            child.wait()
            if number < first + count:
                errors.seek(max(0, errors.tell() - 400))
                how = f"ends its process ({child.returncode}): {errors.read().decode(errors='replace')[-400:]}"
                yield Fault(kind, seed, number, case, how)
        finally:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _messages(child: subprocess.Popen[bytes]) -> Iterator[dict[str, str] | None]:
    """What a child says, line by line; None where it has said nothing for too long."""
    assert child.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + patient(_START_SECONDS)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                yield None
                return
            read = os.read(child.stdout.fileno(), 1 << 16)
            if not read:
                return
            pending += read
            *lines, pending = pending.split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)
            deadline = time.monotonic() + patient(SECONDS)


def main(kind: str, seed: int, first: int, count: int) -> None:
    """Run cases in this process."""
    from tests.hostile.calls import Call
    from tests.hostile.commands import Line
    from tests.hostile.logs import Mutated
    from tests.hostile.modules import Mutation
    from tests.hostile.world import TARGET

    say = os.fdopen(os.dup(1), "w", buffering=1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for the rest of the process
    if TARGET == "llvm":  # a GPU's driver reserves more addresses than there is memory
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    make = {"calls": Call, "commands": Line, "modules": Mutation, "logs": Mutated}[kind]
    print(json.dumps({"case": "the making of a case"}), file=say)
    for number in range(first, first + count):
        case = make(seed, number)
        print(json.dumps({"case": case.name}), file=say)
        what = case.run()
        print(json.dumps({"shown": case.shown, "what": what}), file=say)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
