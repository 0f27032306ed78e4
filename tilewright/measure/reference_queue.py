"""References while candidates are measured: computed once per workload, tried again if that fails.

A candidate waits for the reference of its workload. If one configuration yields none, another one is tried. If none
does, the present candidates run unchecked and are recorded so, and later ones try again.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .pool import Died, WorkerPool

_log = logging.getLogger("autotvm")
_COMPUTATION_SECONDS = 120.0
_ATTEMPTS = 3
"""The most failed computations per round; each uses another configuration if there is one."""
_MOST_OVERDUE = 2
"""The most computations that may run out of time: one configuration may hang; after two, the workload is too large."""
_ROUNDS = 4
_IDLE_SECONDS = 600.0
"""A reference that was not used for this long may be removed if the disk is full: no candidate waits for it."""
_UNCHECKED_CANDIDATES = 16
"""Candidates that run unchecked between the first failed round and the next; each failure doubles their number."""


@dataclass
class _Failed:
    """Why a workload has no reference, and for how many candidates (`left`) none is computed."""

    reason: str = ""
    rounds: int = 0
    left: int = 0
    final: bool = False


class References:
    """The file of each workload's reference, or the reason for its absence. Calls of `measure` share one object.

    The files of a session that lives for long, as a worker's, take no more than half of the available space. Beyond
    that, the least recently used ones are removed, and computed again when their workload returns.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._files: dict[Any, str] = {}  # in the order of their last use
        self._used: dict[Any, float] = {}
        self._now = now
        self._failed: dict[Any, _Failed] = {}

    def file(self, workload: Any) -> str:
        """Return the file of a workload's reference; empty if there is none."""
        path = self._files.pop(workload, "")
        if path:
            self._files[workload] = path
            self._used[workload] = self._now()
        return path

    def reason(self, workload: Any) -> str:
        """Return the reason why a workload has no reference; empty if there is a reference, or nobody asked for it."""
        failed = self._failed.get(workload)
        return failed.reason if failed is not None else ""

    def wanted(self, workload: Any) -> bool:
        """Return whether the reference should be computed, now that a candidate needs it."""
        if workload in self._files:
            return False
        failed = self._failed.get(workload)
        if failed is None:
            return True
        failed.left -= 1
        return failed.left < 0 and not failed.final

    def keep(self, workload: Any, path: str) -> None:
        """Keep the file of a reference that was computed."""
        self._files[workload] = path
        self._used[workload] = self._now()
        self._failed.pop(workload, None)
        self._make_room(Path(path).parent)

    def drop(self, workload: Any, path: str) -> None:
        """Forget a file that cannot be read any more."""
        if self._files.get(workload) == path:
            del self._files[workload], self._used[workload]

    def _make_room(self, folder: Path) -> None:
        """Remove files that were not used for long, while the files take more than the disk has left."""
        with suppress(OSError):
            taken, left = sum(map(_size, self._files.values())), shutil.disk_usage(folder).free
            for workload, path in list(self._files.items()):
                if taken <= left or self._now() - self._used[workload] < _IDLE_SECONDS:
                    return
                size = _size(path)
                Path(path).unlink(missing_ok=True)
                taken, left = taken - size, left + size
                self.drop(workload, path)

    def fail(self, workload: Any, reason: str, final: bool) -> None:
        """Note that a round of attempts ended without a reference."""
        failed = self._failed.setdefault(workload, _Failed())
        failed.reason = reason
        failed.left = _UNCHECKED_CANDIDATES << failed.rounds
        failed.rounds += 1
        failed.final = final or failed.rounds >= _ROUNDS


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:  # somebody has removed the file
        return 0


@dataclass
class _Round:
    """The attempts at one reference, and the built jobs that wait for it."""

    waiting: deque[int] = field(default_factory=deque)
    tried: list[int] = field(default_factory=list)
    overdue: int = 0
    underway: bool = False


class ReferenceQueue:
    """Has references computed, one at a time.

    `compute` runs in a child, and returns the file of a job's reference, or why there is none. It is called with the
    number of the job, or with the value that `given` maps it to.
    """

    def __init__(
        self,
        references: References,
        compute: Callable[[Any], tuple[str, str]],
        given: Callable[[int], Any] | None = None,
    ) -> None:
        self.references = references
        self.pool = WorkerPool(compute, 1, _COMPUTATION_SECONDS, given)
        self._rounds: dict[Any, _Round] = {}
        self._asked: dict[int, Any] = {}  # job → the workload of the reference that is computed from it

    def expect(self, workload: Any, index: int) -> None:
        """Begin the reference of a workload from a job that is not built yet."""
        if workload not in self._rounds and self.references.wanted(workload):
            self._ask(workload, self._rounds.setdefault(workload, _Round()), index)

    def hold(self, workload: Any, index: int) -> bool:
        """Keep a built job until its workload's reference is ready; False if it need not wait."""
        if workload not in self._rounds and not self.references.wanted(workload):
            return False
        one = self._rounds.setdefault(workload, _Round())
        one.waiting.append(index)
        if not one.underway:
            self._ask(workload, one, index)
        return True

    def advance(self, more_to_come: bool) -> list[int]:
        """Receive computed references; return the jobs that need not wait any more.

        `more_to_come`: whether other configurations are about to be built, which a failed attempt can wait for.
        """
        released: list[int] = []
        for index, result in self.pool.advance():
            workload = self._asked.pop(index)
            one = self._rounds[workload]
            one.underway = False
            path, failure = self._understood(one, result)
            if path:
                self.references.keep(workload, path)
                released += self._rounds.pop(workload).waiting
            elif len(one.tried) >= _ATTEMPTS or one.overdue >= _MOST_OVERDUE:
                self.references.fail(workload, failure, one.overdue >= _MOST_OVERDUE)
                _log.warning("outputs are not checked, as there is no reference to compare them with: %s", failure)
                released += self._rounds.pop(workload).waiting
        for workload, one in self._rounds.items():
            fresh = next((index for index in reversed(one.waiting) if index not in one.tried), None)
            if not one.underway and (fresh is not None or not more_to_come):
                self._ask(workload, one, one.tried[-1] if fresh is None else fresh)
        self.pool.start()
        return released

    def _understood(self, one: _Round, result: tuple[str, str] | Died) -> tuple[str, str]:
        """The result of an attempt: a file, or the reason for its absence."""
        if not isinstance(result, Died):
            return result
        one.overdue += result.overdue
        how = f"took more than {_COMPUTATION_SECONDS:g} s" if result.overdue else f"failed: its process {result.how}"
        return "", f"computing it {how}"

    def _ask(self, workload: Any, one: _Round, index: int) -> None:
        one.tried.append(index)
        one.underway = True
        self._asked[index] = workload
        self.pool.submit([index])
