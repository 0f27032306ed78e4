"""The candidate process of a worker: it measures candidates on a device, as a tuner does on its own host.

It is started fresh, as `python -m tilewright.fleet.candidate_process DESCRIPTOR TARGET BUILDERS`. It has no threads,
and does not import Dask. Candidates stay pickled until they reach a process that may crash because of them.
"""

from __future__ import annotations

import hashlib
import pickle
import signal
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.errors import TVMError
from ..core.target import Target
from ..core.views import view
from ..measure.channel import Channel, Garbled
from ..measure.job import Job
from ..measure.option import LocalBuilder, LocalRunner
from ..measure.outcome import Outcome, RunFailed, shorten
from ..measure.session import MeasureSession
from .protocol import Begins, Broken, Done, Measure, Opened, PickledCandidate, Proceed

_MOST_AT_ONCE = 1000
"""The most candidates of one call of `measure_all`, which remembers all its jobs."""


@dataclass(frozen=True)
class Pickled:
    """A function that is unpickled when it is called. Functions with one digest are one function."""

    digest: str
    data: bytes = field(compare=False, repr=False)

    @classmethod
    def of(cls, data: bytes) -> Pickled:
        """Return the function for pickled bytes."""
        return cls(hashlib.sha256(data).hexdigest(), data)

    def __call__(self) -> Any:
        return pickle.loads(self.data)()


class CandidateProcess:
    """Measures candidates from a channel in their order, and builds a limited number at a time."""

    def __init__(self, channel: Channel, session: MeasureSession, builders: int) -> None:
        self.channel = channel
        self.session = session
        self.builders = builders
        self._options: tuple[LocalBuilder, LocalRunner] | None = None
        """The options of the current tuner."""
        self._waiting: deque[tuple[str, PickledCandidate]] = deque()
        self._left = 0
        self._arrived: list[Any] = []
        """Messages that arrived while another message was awaited."""

    def run(self) -> None:
        """Serve until the worker is gone."""
        while not self.channel.closed:
            if self._waiting:
                first = self._waiting[0][1]
                self._options = first.builder, first.runner
                several = min(first.builder.processes, self.builders)
                self.session.builder, self.session.runner = replace(first.builder, n_parallel=several), first.runner
            for job, outcome in self.session.measure_all(self._batches(), self):
                self._left -= 1
                self._tell(job.key, outcome)

    def fileno(self) -> int:
        """The descriptor of the channel. Raises EOFError if the worker is gone."""
        if self.channel.closed:
            raise EOFError("the worker is gone")
        return self.channel.fileno()

    @property
    def pending(self) -> bool:
        """Whether a message was received that is not handled yet."""
        return bool(self._arrived)

    def begins(self, job: Job) -> None:
        """Tell the worker that a candidate is about to run, and wait until its journal has noted it."""
        self.channel.send(Begins(job.key))
        while True:
            message = self.channel.receive()
            if message == Proceed(job.key):
                self._arrived += self.channel.arrived()  # the descriptor does not signal data that was read already
                return
            self._arrived.append(message)

    def _batches(self) -> Iterator[Sequence[Job]]:
        """Yield the candidates that have arrived, as long as their options are the same."""
        given = 0
        while True:
            self._hear()
            jobs = []
            while self._waiting and given < _MOST_AT_ONCE and self._fits(self._waiting[0][1]):
                jobs.append(_job(*self._waiting.popleft()))
                given += 1
            self._left += len(jobs)
            over = self.channel.closed or (not self._left and (given >= _MOST_AT_ONCE or bool(self._waiting)))
            if over:
                return
            yield jobs

    def _fits(self, candidate: PickledCandidate) -> bool:
        return (candidate.builder, candidate.runner) == self._options

    def _hear(self) -> None:
        arrived, self._arrived = self._arrived, []
        for message in (*arrived, *self.channel.arrived()):
            if isinstance(message, Garbled) or not isinstance(message, Measure):
                continue
            try:
                candidate = pickle.loads(message.candidate)
                if not isinstance(candidate, PickledCandidate):
                    raise TypeError(f"it is {type(candidate).__name__}")
                Target.parse(candidate.target)
            except Exception as error:  # perhaps only the tuner has an object's class
                reason = f"the worker cannot read it: {type(error).__name__}: {error}"
                self._tell(message.token, RunFailed(reason=shorten(reason)))
            else:
                self._waiting.append((message.token, candidate))

    def _tell(self, token: str, outcome: Outcome) -> None:
        try:
            self.channel.send(Done(token, outcome))
        except OSError:
            self.channel.close()


def _job(token: str, candidate: PickledCandidate) -> Job:
    reference = Pickled.of(candidate.reference) if candidate.reference else None
    instantiate = Pickled.of(candidate.instantiate)
    return Job(instantiate, token, Target.parse(candidate.target), reference, candidate.lowered)


def main(descriptor: int, target: str, builders: int) -> None:
    """Open the device of a target, and serve over an inherited socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker decides when to end
    view("packaged templates")  # builders are forked after this import, which takes as long as several builds
    channel = Channel(socket.socket(fileno=descriptor))
    with MeasureSession(target) as session:
        try:
            channel.send(Opened(session.attributes))
        except TVMError as error:
            channel.send(Broken(str(getattr(error, "message", error))))
            return
        with suppress(EOFError, OSError):  # the worker is gone
            CandidateProcess(channel, session, builders).run()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
