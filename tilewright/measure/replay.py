"""Replaying recorded measurements: a session that answers from earlier measurements, with no device.

For tests, and to compare search strategies on equal terms. The time that each measurement took is added up, as if it
had been spent again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from .job import Job
from .outcome import Outcome, Refused

KeyFunc = Callable[[Any], Hashable]


class Session(Protocol):
    """An object that measures jobs: a `MeasureSession`, a replay, or a recorder around either."""

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Each job with its outcome, in the order in which they are done."""
        ...


def _itself(key: Any) -> Hashable:
    found: Hashable = key
    return found


class ReplaySession:
    """Answers jobs from recorded outcomes, found by `Job.key` (or by the result of `key`), in the order given.

    A job without a record gets `missing`: by default it is refused, and costs no time.
    """

    def __init__(
        self,
        records: Mapping[Any, Outcome],
        key: KeyFunc = _itself,
        missing: Outcome | None = None,
    ) -> None:
        self.records = records
        self.key = key
        self.missing = missing or Refused(reason="this candidate was never measured")
        self.seconds = 0.0
        """The total seconds of building and running of the replayed measurements."""
        self.asked = 0
        """How many jobs there were."""

    def __enter__(self) -> ReplaySession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Each job with its recorded outcome."""
        for job in jobs:
            outcome = self.records.get(self.key(job.key), self.missing)
            self.asked += 1
            self.seconds += outcome.build_seconds + outcome.run_seconds
            yield job, outcome

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """One batch after the other."""
        for jobs in batches:
            yield from self.measure(jobs)


class Recorder:
    """Measures through another session, and keeps each outcome in `records`, for a replay."""

    def __init__(
        self, session: Session, records: MutableMapping[Any, Outcome] | None = None, key: KeyFunc = _itself
    ) -> None:
        self.session = session
        self.records: MutableMapping[Any, Outcome] = {} if records is None else records
        self.key = key

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """As the other session does."""
        for job, outcome in self.session.measure(jobs):
            self.records[self.key(job.key)] = outcome
            yield job, outcome

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """One batch after the other."""
        for jobs in batches:
            yield from self.measure(jobs)
