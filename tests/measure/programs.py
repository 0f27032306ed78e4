"""Candidates for B[i] = 2 A[i] + 1, good ones and ones with every kind of fault, for each kind of device.

On OpenCL and CUDA the kernels are written by hand and the fault is in the kernel; without any device, the host code of
a program without kernels plays the kernel, on the host's memory.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.codegen import programs as p
from tilewright import te
from tilewright.codegen.abi import ArrayArgument, CompiledProgram, EntryPoint
from tilewright.codegen.program import compile_program
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.expr.nodes import Var
from tilewright.loops.nodes import Allocate, Function, seq
from tilewright.measure.job import Job
from tilewright.measure.outcome import (
    BuildFailed,
    Measured,
    Outcome,
    Refused,
    RunFailed,
    TimedOut,
    WrongAnswer,
)


def patient(seconds: float) -> float:
    """A time limit on a machine that does other things meanwhile: longer by how many processes share a core."""
    sharing = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    return seconds * min(max(1.0, 2 * sharing), 20.0)


SIZE = 4096
ASTRAY = 300_000
"""Elements; 1.2 MB behind the array."""
FAR = 1 << 30
"""Elements; 4 GiB behind an array of 16 KiB nothing is mapped."""

FAULTS: dict[str, tuple[type[Outcome], int, str]] = {
    "loops": (TimedOut, 7, "still compiling or at its first run after"),
    "loops later": (TimedOut, 7, "still running after"),
    "near": (RunFailed, 4, r"writes outside of B, 1 byte after its last element"),
    "astray": (RunFailed, 4, r"writes outside of B, 1,\d\d\d,\d\d\d bytes after its last element"),
    "far": (RunFailed, 4, "SIGSEGV|ILLEGAL_ADDRESS|INVALID_ADDRESS_SPACE|INVALID_COMMAND_QUEUE|OUT_OF_RESOURCES"),
    "wrong": (WrongAnswer, 5, r"B\[0\] is .*, expected .*; (4,096 of 4,096|(\d) of \2 compared) elements are wrong"),
    "unwritten": (WrongAnswer, 5, r"B\[\d+\] was never written, expected"),
    "gap": (WrongAnswer, 5, r"B\[1234\] is 0.0, expected .*; 1 of [\d,]+ (compared )?elements are wrong"),
    "hole": (WrongAnswer, 5, r"B\[1234\] was never written.*; 1 of [\d,]+ (compared )?elements are wrong"),
    "input": (RunFailed, 4, "writes to its input A"),
    "exits": (RunFailed, 4, "the process that ran it exited with status 7"),
    "crashes": (RunFailed, 4, "the process that ran it was killed by SIGSEGV"),
    "killed": (RunFailed, 8, "the process that ran it was killed by SIGKILL"),
    "build raises": (BuildFailed, 1, "KeyError: 'no such knob'"),
    "build refuses": (Refused, 1, "too many threads"),
    "build exits": (BuildFailed, 2, "the process that built it exited with status 3"),
    "build crashes": (BuildFailed, 2, "the process that built it was killed by SIGSEGV"),
    "build killed": (BuildFailed, 8, "the process that built it was killed by SIGKILL"),
    "build loops": (TimedOut, 6, "still building after"),
}
"""Fault → what is recorded for it: the outcome, its legacy number, and what its reason says."""


@dataclass(frozen=True)
class Candidate:
    """`fault` is a key of `FAULTS`, or "" for a good one; `number` makes programs differ."""

    fault: str
    number: int = 0
    signs_in: Path | None = None
    """Where the process that runs it writes its number, for whoever wants to kill it."""
    tally: Path | None = None
    """A file that gets a line with its number each time that a process begins to run it."""
    roll: Path | None = None
    """A folder where every process that runs a candidate notes its number, and which earlier ones it finds alive."""

    def job(self, target: str) -> Job:
        """The candidate for a session."""
        return Job(self.instantiate, self, Target(target))

    def instantiate(self) -> tuple[Any, list[Any]]:
        """In the process that builds it."""
        _BUILD_FAULTS.get(self.fault, lambda: None)()
        a = te.placeholder((SIZE,), name="A")
        b = te.compute((SIZE,), lambda i: a[i] * 2.0 + 1.0, name="B")
        return self, [a, b]

    def too_hasty(self, outcome: Outcome) -> bool:
        """Whether a time limit ended it that it would not have reached, had it had the processor to itself."""
        if not isinstance(outcome, TimedOut):
            return False
        kind, _, reason = FAULTS.get(self.fault, (Measured, 0, ""))
        return kind is not TimedOut or re.search(reason, outcome.reason) is None

    def expect(self, outcome: Outcome) -> None:
        """Check what is recorded for it."""
        if not self.fault:
            assert isinstance(outcome, Measured), outcome
            assert outcome.checked
            return
        kind, number, reason = FAULTS[self.fault]
        assert type(outcome) is kind, (self, outcome)
        assert outcome.error_no == number, (self, outcome)
        assert re.search(reason, outcome.reason), (self, outcome)  # type: ignore[attr-defined]

    @cached_property
    def function(self) -> Function:
        """Its kernel, finished."""
        a, b = p.buf("A", SIZE), p.buf("B", SIZE)
        bx, tx, k, j = Var("blockIdx.x"), Var("threadIdx.x"), Var("k"), Var("j")
        block = 1 << (self.number % 6 + 3)
        i = bx * block + tx
        value = p.at(a, i) * 2.0 + 1.0
        body = {
            "near": seq(p.put(b, i, value), p.put(b, i + 1, p.c(5.0))),
            "astray": seq(p.put(b, i, value), p.put(b, i + ASTRAY, p.c(5.0))),
            "far": p.put(b, i + FAR, value),
            "wrong": p.put(b, i, p.at(a, i) * 2.0),
            "unwritten": p.put(b, i, value),
            "input": seq(p.put(b, i, value), p.put(a, i, p.c(7.0))),
        }.get(self.fault, p.put(b, i, value))
        if self.fault in ("loops", "killed"):
            local = p.buf("acc", 1, scope="local")
            endless = p.put(local, 0, p.at(local, 0) * p.at(a, i) + 1.0)
            turns = p.loop(k, 2**31 - 1, p.loop(j, 2**31 - 1, endless))
            body = Allocate(local, seq(p.put(local, 0, p.c(0.0)), turns, p.put(b, i, p.at(local, 0))))
        blocks = SIZE // block - (self.fault == "unwritten")
        if self.fault in ("loops", "killed"):
            blocks = 1  # the others would keep all processors of an OpenCL device busy until the time limit
        return Function("main", (a, b), p.launch(body, blockIdx_x=(bx, blocks), threadIdx_x=(tx, block)))

    def compile(self, target: Target) -> CompiledProgram:
        """Its program, with the faults of the host in its host code."""
        if target.kind == "llvm":
            return self._host_program()
        program = compile_program((self.function,), target)
        (entry,) = program.entries
        head, line_end, rest = entry.source.partition(":\n")
        lines = "".join(f"    {line}\n" for line in self._host_lines(_HOST_FAULTS))
        return replace(program, entries=(replace(entry, source=head + line_end + lines + rest),))

    def _host_lines(self, faults: dict[str, list[str]]) -> list[str]:
        lines = ["import ctypes, os, signal, time"]
        if self.signs_in is not None:
            lines.append(f"open({str(self.signs_in)!r}, 'w').write(str(os.getpid()))")
        if self.tally is not None:
            note = f"os.write(os.open({str(self.tally)!r}, os.O_WRONLY | os.O_APPEND), b'{self.number}\\n')"
            lines.append(f"globals().get('noted') or {note}")
            lines.append("globals()['noted'] = True")
        if self.roll is not None:
            lines += [line.format(roll=str(self.roll)) for line in _ROLL_CALL]
        return lines + faults.get(self.fault, [])

    def _host_program(self) -> CompiledProgram:
        good = ["time.sleep(0.001)", "B.copyfrom(A.numpy() * 2.0 + 1.0)"]
        lines = self._host_lines({**_HOST_FAULTS, **_PLAYED_FAULTS, "": []}) + good * (self.fault in _PLAYED_RIGHT)
        source = "def main(A, B):\n" + "".join(f"    {line}\n" for line in lines)
        arguments = tuple(ArrayArgument(name, "float32", (SIZE,)) for name in "AB")
        return CompiledProgram("llvm", (EntryPoint("main", arguments, source, "main"),), (), "")


def compile_candidate(handle: Any, tensors: list[Any], target: Target) -> CompiledProgram:
    """The `build_func` of these tests."""
    if handle.fault == "build refuses":
        raise UserError("too many threads")
    program: CompiledProgram = handle.compile(target)
    return program


def _raises() -> None:
    raise KeyError("no such knob")


def _kill(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


_BUILD_FAULTS: dict[str, Callable[[], None]] = {
    "build raises": _raises,
    "build exits": lambda: os._exit(3),
    "build crashes": _kill(signal.SIGSEGV),
    "build killed": _kill(signal.SIGKILL),
    "build loops": lambda: time.sleep(1000),
}
_HOST_FAULTS = {
    "loops later": ["while 'ran' in globals(): time.sleep(1)", "globals()['ran'] = True"],
    "exits": ["os._exit(7)"],
    "crashes": ["os.kill(os.getpid(), signal.SIGSEGV)"],
    # The worker of a fleet has a candidate process, which has a server, which has the process that runs this.
    "kills its worker": [
        "above = lambda pid: int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])",
        "os.kill(above(above(above(os.getpid()))), signal.SIGKILL)",
        "time.sleep(1000)",
    ],
}
_ROLL_CALL = [
    "me = str(os.getpid())",
    "others = [n for n in os.listdir({roll!r}) if n.isdigit() and n != me and os.path.exists('/proc/' + n)]",
    "alive = [n for n in others if open('/proc/' + n + '/stat').read().rpartition(')')[2].split()[0] != 'Z']",
    "open(os.path.join({roll!r}, me), 'w').close()",
    "if alive: open(os.path.join({roll!r}, 'alive'), 'a').write(me + ' beside ' + ' '.join(alive) + '; ')",
]
_PLAYED_FAULTS = {
    "loops": ["while True: time.sleep(1)"],
    "killed": ["while True: time.sleep(1)"],
    "near": ["ctypes.memset(int(B.handle) + B.nbytes, 1, 4)"],
    "astray": ["ctypes.memset(int(B.handle) + 4 * ASTRAY, 1, 4)".replace("ASTRAY", str(ASTRAY))],
    "far": ["ctypes.memset(8, 1, 4)"],
    "wrong": ["B.copyfrom(A.numpy() * 2.0)"],
    "gap": ["v = A.numpy() * 2.0 + 1.0", "v[1234] = 0", "B.copyfrom(v)"],
    "hole": [
        "v = (A.numpy() * 2.0 + 1.0).tobytes()",
        "ctypes.memmove(int(B.handle), v, 4936)",
        "ctypes.memmove(int(B.handle) + 4940, v[4940:], B.nbytes - 4940)",
    ],
    "unwritten": ["ctypes.memmove(int(B.handle), (A.numpy() * 2.0 + 1.0).tobytes(), B.nbytes - 4)"],
    "input": ["ctypes.memset(int(A.handle), 1, 4)"],
}
_PLAYED_RIGHT = ("", "near", "astray", "input", "loops later")
