"""Inspect many candidates at a time, in forked processes, so that a template can do no harm.

Valid configurations become jobs (`measure/job.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...core.target import Target
from ...measure.channel import wait
from ...measure.pool import Died, WorkerPool
from ..analysis.candidate import Inspection, inspect_candidate
from ..analysis.refuse import Refusal
from ..task import Task

_ATTEMPTS = 3


class Prefilter:
    """Inspects configurations of one task and caches the results; a context manager."""

    def __init__(self, task: Task, target: Target, kind: str, processes: int, timeout: float = 10.0) -> None:
        self.task = task
        self.target = target
        self.kind = kind
        self._seen: dict[int, Inspection] = {}
        self._killed: Counter[int] = Counter()
        self._pool = WorkerPool(self._inspect, processes, timeout)

    def __enter__(self) -> Prefilter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def rest(self) -> None:
        """End the processes that wait for more: others inspect in the meantime."""
        self._pool.renew()

    def inspect(self, indices: Sequence[int]) -> dict[int, Inspection]:
        """Inspect each configuration; returns the inspections in the order given."""
        self._pool.submit(i for i in dict.fromkeys(indices) if i not in self._seen)
        while self._pool.active:
            for index, found in self._pool.advance():
                if isinstance(found, Died) and found.killed and self._again(index):
                    continue
                self._seen[index] = _of_dead(found) if isinstance(found, Died) else found
            if self._pool.active:
                wait(self._pool.descriptors(), self._pool.deadline)
        return {i: self._seen[i] for i in indices}

    def _again(self, index: int) -> bool:
        """Inspect a candidate again, a few times, if its process was killed from outside, as when memory ran out."""
        self._killed[index] += 1
        if self._killed[index] < _ATTEMPTS:
            self._pool.submit([index])
            self._pool.start()
        return self._killed[index] < _ATTEMPTS

    def _inspect(self, index: int) -> Inspection:
        """Inspect one configuration, in a child process."""
        config = self.task.config_space.get(index)
        return inspect_candidate(self.task, config, self.target, self.kind, keep_lowered=True)


def _of_dead(found: Died) -> Inspection:
    why = f"making its loops takes longer than {found.seconds:.0f} s" if found.overdue else f"its template {found.how}"
    return Inspection(Refusal(why), seconds=found.seconds)
