"""The inspection of candidates in parallel, in forked processes, so that a template cannot harm this process.

Valid configurations become jobs (`measure/job.py`). On platforms without forks, this process inspects them itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.system import FORKS
from ...core.target import Target
from ...measure.outcome import Refused
from ..analysis.candidate import Inspection, inspect_candidate
from ..task import Task

if TYPE_CHECKING:
    from ...measure.pool import Died, WorkerPool

_MOST_INSPECTIONS = 3


class Prefilter:
    """Inspects configurations of one task; a context manager."""

    def __init__(self, task: Task, target: Target, kind: str, processes: int, timeout: float = 10.0) -> None:
        self.task = task
        self.target = target
        self.kind = kind
        self._killed: Counter[int] = Counter()
        self._pool: WorkerPool | None = None
        if FORKS:
            from ...measure.pool import WorkerPool

            self._pool = WorkerPool(self._inspect, processes, timeout)

    def __enter__(self) -> Prefilter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def rest(self) -> None:
        """End the idle processes: other prefilters inspect meanwhile."""
        if self._pool is not None:
            self._pool.renew()

    def inspect(self, indices: Sequence[int]) -> dict[int, Inspection]:
        """Inspect each configuration; return the inspections in the same order."""
        if self._pool is None:
            return {index: self._inspect(index) for index in indices}
        found = dict(self._inspected_by(self._pool, list(dict.fromkeys(indices))))
        return {index: found[index] for index in indices}

    def _inspected_by(self, pool: WorkerPool, indices: Sequence[int]) -> Iterator[tuple[int, Inspection]]:
        pool.submit(indices)
        for index, found in pool.results():
            if isinstance(found, Inspection):
                yield index, found
            elif not (found.killed and self._again(pool, index)):
                yield index, _of_dead(found)

    def _again(self, pool: WorkerPool, index: int) -> bool:
        """Return whether to inspect a candidate again, because its process was killed, as when memory ran out."""
        self._killed[index] += 1
        if self._killed[index] < _MOST_INSPECTIONS:
            pool.submit([index])
            pool.start()
        return self._killed[index] < _MOST_INSPECTIONS

    def _inspect(self, index: int) -> Inspection:
        """Inspect one configuration, in a child process."""
        config = self.task.config_space.get(index)
        return inspect_candidate(self.task, config, self.target, self.kind, keep_lowered=True)


def _of_dead(found: Died) -> Inspection:
    why = f"making its loops takes longer than {found.seconds:.0f} s" if found.overdue else f"its template {found.how}"
    return Inspection(Refused(reason=why), seconds=found.seconds)
