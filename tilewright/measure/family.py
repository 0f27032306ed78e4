"""What a candidate leaves behind in the process that ran it: children of its own, and changed surroundings.

A process that runs candidates adopts the orphans below it (it is their "subreaper"), so that whatever a candidate
starts stays findable, and ends with it. A process whose surroundings a candidate changed runs no other candidate.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

_PR_SET_CHILD_SUBREAPER = 36
_ROUNDS = 8
"""How often the descendants of a process are listed anew while they are being stopped."""
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
THREADS = "threads"
LARGEST_GROWTH = 256 << 20
"""Bytes that a process may gain before another one takes its place."""


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


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
    """Kill all processes below one, which must not make more of them meanwhile: it is stopped, or this one."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):  # those that are stopped start no others, so the list comes to an end
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
    """What a process has that outlives a piece of work, and that the next one would find changed."""

    named: dict[str, object]
    threads: int
    bytes: int

    @classmethod
    def now(cls) -> Surroundings:
        """Those of this process."""
        status = dict(line.split(b":", 1) for line in _read("/proc/self/status").splitlines())
        return cls(
            {
                "working directory": _folder(),
                "environment": tuple(os.environb.items()),
                "signal handlers": (status[b"SigIgn"], status[b"SigCgt"], status[b"SigBlk"]),
                "signal timers": any(signal.getitimer(which)[0] for which in _TIMERS),
                "resource limits": _read("/proc/self/limits"),
                "file mode mask": status.get(b"Umask"),
                "interpreter": (sys.getrecursionlimit(), sys.stdout, sys.stderr, sys.gettrace(), sys.getprofile()),
            },
            int(status[b"Threads"]),
            int(status[b"VmRSS"].split()[0]) << 10,
        )

    def changed(self, strictly: bool = True) -> str:
        """What is another than it was (empty: nothing). `strictly`: threads and memory count as well."""
        now = Surroundings.now()
        found = [name for name, value in self.named.items() if now.named[name] != value]
        if strictly:
            found += [THREADS] * (now.threads > self.threads)
            found += ["memory"] * (now.bytes - self.bytes > LARGEST_GROWTH)
        return ", ".join(found)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _folder() -> tuple[int, int]:
    try:
        found = os.stat(".")
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino
