"""Looks at many candidates at a time, in forked processes: what a template does there harms nobody."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.target import Target
from ...measure.channel import wait
from ...measure.pool import Died, Pool
from ..analysis.candidate import Look, look
from ..analysis.refuse import Refusal
from ..task import Task


class Looker:
    """Looks at configurations of one task; a context manager. What was seen is kept."""

    def __init__(self, task: Task, target: Target, kind: str, processes: int, timeout: float = 10.0) -> None:
        self.task = task
        self.target = target
        self.kind = kind
        self._seen: dict[int, Look] = {}
        self._pool = Pool(self._look, processes, timeout)

    def __enter__(self) -> Looker:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def look(self, indices: Sequence[int]) -> dict[int, Look]:
        """What there is to see of each configuration, in the order given."""
        self._pool.submit(i for i in dict.fromkeys(indices) if i not in self._seen)
        while self._pool.active:
            for index, found in self._pool.advance():
                self._seen[index] = _of_dead(found) if isinstance(found, Died) else found
            if self._pool.active:
                wait(self._pool.descriptors(), self._pool.deadline)
        return {i: self._seen[i] for i in indices}

    def _look(self, index: int) -> Look:
        """In a child."""
        return look(self.task, self.task.config_space.get(index), self.target, self.kind)


def _of_dead(found: Died) -> Look:
    why = f"making its loops takes longer than {found.seconds:.0f} s" if found.overdue else f"its template {found.how}"
    return Look(Refusal(why), seconds=found.seconds)
