"""Looks at many candidates at a time, in forked processes: what a template does there harms nobody."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.target import Target
from ...measure.channel import wait
from ...measure.pool import Died, Pool
from ..analysis.candidate import Look, look
from ..analysis.refuse import Refusal
from ..task import Task

_SERIAL = 4
"""So few candidates are looked at here, if no process is there yet: forking one takes as long."""


class Looker:
    """Looks at configurations of one task; a context manager. What was seen is kept."""

    def __init__(self, task: Task, target: Target, kind: str, processes: int, timeout: float = 10.0) -> None:
        self.task = task
        self.target = target
        self.kind = kind
        self._seen: dict[int, Look] = {}
        self._pool = Pool(self._look, processes, timeout) if processes > 1 else None

    def __enter__(self) -> Looker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.close()

    def look(self, indices: Sequence[int]) -> dict[int, Look]:
        """What there is to see of each configuration, in the order given."""
        missing = [i for i in dict.fromkeys(indices) if i not in self._seen]
        if self._pool is None or len(missing) < _SERIAL:
            self._seen.update((i, self._look(i)) for i in missing)
        else:
            self._together(self._pool, missing)
        return {i: self._seen[i] for i in indices}

    def _look(self, index: int) -> Look:
        return look(self.task, self.task.config_space.get(index), self.target, self.kind)

    def _together(self, pool: Pool, indices: list[int]) -> None:
        pool.submit(indices)
        while pool.active:
            for index, found in pool.advance():
                self._seen[index] = _of_dead(found) if isinstance(found, Died) else found
            if pool.active:
                wait(pool.descriptors(), pool.deadline)


def _of_dead(found: Died) -> Look:
    why = f"making its loops takes longer than {found.seconds:.0f} s" if found.overdue else f"its template {found.how}"
    return Look(Refusal(why), seconds=found.seconds)
