"""Traces of a candidate in the process that ran it: child processes, and changed global state.

A process that runs candidates adopts the orphans below it (it is their "subreaper"), so that a candidate's processes
stay findable, and ends with it. A process with surroundings changed by a candidate runs no other candidate.
"""

from __future__ import annotations

import builtins
import ctypes
import gc
import locale
import logging
import math
import os
import re
import resource
import signal
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 8
"""How often the descendants of a process are listed anew while they are being stopped."""
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_STATUS = re.compile(rb"^(Threads|VmRSS|Umask|SigIgn|SigCgt|SigBlk):\s*(\S+)", re.M)
_STREAMS = (0, 1, 2)
_LIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})
_libc = ctypes.CDLL(None)
THREADS, FILES = "threads", "open files"
_OOM = "/proc/self/oom_score_adj"
_WATCHED = (builtins, math, np, os, time)
"""Modules in which a replaced function would affect the next work. A check of their 1,000 names takes 40 µs."""
LARGEST_GROWTH = 256 << 20
"""Bytes that a process may gain before another one takes its place."""


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def has_children() -> bool:
    """Whether this process has children, ended ones included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def spare_descriptors() -> int:
    """How many descriptors this process may still open."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    try:
        return limit - len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def descendants(pid: int) -> list[int]:
    """The processes below one, parents first."""
    below: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                parent = int(_read(f"/proc/{entry}/stat").rpartition(b")")[2].split()[1])
                below.setdefault(parent, []).append(int(entry))
    found, left = [], [pid]
    while left:
        children = below.get(left.pop(), [])
        found += children
        left += children
    return found


def kill_descendants(pid: int) -> None:
    """Kill all descendants of a process. It must start no more meanwhile: it is stopped, or it is this process."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):  # stopped processes start no others, so the list comes to an end
        fresh = [one for one in descendants(pid) if one not in stopped]
        if not fresh:
            break
        for one in fresh:
            _send(one, signal.SIGSTOP)
        stopped.update(fresh)
    for one in stopped:
        _send(one, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def kill_family(pid: int) -> None:
    """Kill a child of this process, which has not been waited for, and all processes below it."""
    _send(pid, signal.SIGSTOP)
    kill_descendants(pid)
    _send(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Surroundings:
    """The state of a process that outlives a piece of work, so that the next one would find it changed.

    Python's state per context (targets, pass contexts, NumPy's treatment of floating-point errors) is not here. Each
    piece of work runs in a context of its own. Replaced attributes are detected in the modules of `_WATCHED` only.
    """

    named: dict[str, object]
    threads: int
    files: int
    bytes: int

    @classmethod
    def now(cls) -> Surroundings:
        """The state of this process."""
        status = dict(_STATUS.findall(_read("/proc/self/status")))
        return cls(
            {
                "working directory": _folder(),
                "environment": _environment(),
                "signal handlers": (status[b"SigIgn"], status[b"SigCgt"], status[b"SigBlk"]),
                "signal timers": any(signal.getitimer(which)[0] for which in _TIMERS),
                "resource limits": tuple(map(resource.getrlimit, _LIMITS)),
                "file mode mask": status.get(b"Umask"),
                "standard streams": tuple(map(_identity, _STREAMS)),
                "priority": (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0), _read(_OOM)),
                "process group": os.getpgrp(),
                "locale": locale.setlocale(locale.LC_ALL),
                "interpreter": _interpreter(),
                "modules": _modules(),
            },
            int(status[b"Threads"]),
            _next_descriptor(),
            int(status[b"VmRSS"]) << 10,
        )

    def changed(self, strictly: bool = True) -> set[str]:
        """The names of the changed parts. `strictly`: threads, open files and memory count as well."""
        now = Surroundings.now()
        found = {name for name, value in self.named.items() if now.named[name] != value}
        if strictly:
            counted = ((THREADS, now.threads - self.threads, 0), (FILES, now.files - self.files, 0),
                       ("memory", now.bytes - self.bytes, LARGEST_GROWTH))  # fmt: skip
            found.update(name for name, more, allowed in counted if more > allowed)
        return found


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _folder() -> tuple[int, int]:
    try:
        found = os.stat(".")
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _identity(descriptor: int) -> tuple[int, int] | None:
    """The identity of an open file; None if the descriptor is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _environment() -> tuple[bytes, ...]:
    """Return the environment variables that libraries read; `os.putenv` and `os.environ` both change them."""
    first = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
    found: list[bytes] = []
    while first and (one := first[len(found)]) is not None:
        found.append(one)
    return tuple(found)


def _next_descriptor() -> int:
    """The descriptor of the next opened file, which leaked descriptors push up."""
    try:
        found = os.open("/", os.O_PATH)
    except OSError:
        return sys.maxsize
    os.close(found)
    return found


@cache
def _watched() -> tuple[tuple[dict[str, object], tuple[str, ...]], ...]:
    """The watched modules with their names at the first call: some modules gain names when they are used."""
    return tuple((vars(module), tuple(vars(module))) for module in _WATCHED)


def _modules() -> list[list[int]]:
    """The values of modules' names."""
    return [list(map(id, map(names.get, known))) for names, known in _watched()]


def _interpreter() -> tuple[object, ...]:
    """Settings of the whole interpreter that a program may change."""
    return (
        sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits(), tuple(sys.path),
        sys.stdout, sys.stderr, sys.gettrace(), sys.getprofile(), sys.excepthook,
        gc.isenabled(), gc.get_threshold(), logging.root.manager.disable,
        [rule for rule in warnings.filters if rule[0] == "error"],
    )  # fmt: skip
