"""Measuring: jobs in, outcomes out, building and running at the same time.

    jobs ──► pool of forked builders ──► server ──► one runner per device ──► outcomes, as they come
                 └──► reference, once per workload ─► file ─────┘

A candidate that does not build, loops for ever, faults, crashes, is killed or computes something else affects no other
candidate.
"""

from __future__ import annotations

import os
import tempfile
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import InternalError, UserError
from ..runtime.driver import DeviceAttributes
from ..runtime.temporary_cache import remove_by_owner
from .base_session import BaseSession
from .batch import Batch
from .children import tuner_mark
from .client import Client
from .job import Feed, Job
from .option import LocalBuilder, LocalRunner
from .outcome import Outcome
from .reference_queue import References
from .watchdog import folder_name

_MOST_SERVERS_WITHOUT_DEVICE = 5
"""The number of successive servers without an open device after which the session gives up."""
_MOST_SERVERS_WITHOUT_RESULT = 20
"""The number of successive servers without a result after which the session gives up."""
_ENDS = "the measurement server ends, again and again, before it has {}"

__all__ = ["Job", "MeasureSession"]


class MeasureSession(BaseSession):
    """Builds and runs candidates for `target` on this machine; a context manager.

    The device is opened by a process of its own, which is started at once. Jobs may come in any number of calls of
    `measure`; the reference of a workload is kept from call to call.
    """

    def __init__(self, target: Any, builder: LocalBuilder | None = None, runner: LocalRunner | None = None) -> None:
        super().__init__(target, builder)
        self.runner = runner or LocalRunner()
        self.on_wait: Callable[[str], None] | None = None
        """Called with the object of each wait of more than two seconds, and with "" at its end."""
        # Created at first use. If this process is killed, the server or the watchdog removes the folder.
        self._folder = Path(tempfile.gettempdir()) / folder_name(tuner_mark(), uuid.uuid4().hex)
        self._folder_made = False
        self._servers_without_device = self._servers_without_result = 0
        self._references = References()
        self._client: Client | None = None
        self._tidy = weakref.finalize(self, remove_by_owner, self._folder, os.getpid())
        self._connect()

    def close(self) -> None:
        """End the server and its runners, and remove its files."""
        self._disconnect()
        self._tidy()

    @property
    def attributes(self) -> DeviceAttributes:
        """The description of the device. Raises UserError if there is none."""
        while (found := self._connect().attributes()) is None:
            pass
        return found

    def measure_all(self, batches: Iterable[Sequence[Job]], feed: Feed | None = None) -> Iterator[tuple[Job, Outcome]]:
        """Measure batches, as `measure` does. Each batch is requested shortly before the previous batch ends.

        A batch may depend on the outcomes known by then. On a GPU, these are all but an eighth of the previous batch.
        On the CPU, on which the search would disturb measurements, they are the whole batch. With a `feed`, a batch may
        be empty, and the next one is requested whenever the feed has more.
        """
        self._connect()
        batch = Batch(self._connect, self._make_folder, self._references, self.builder, self.runner, feed, self.on_wait)
        interrupted = True
        try:
            yield from batch.run(batches, self._resolved)
            interrupted = False
        except GeneratorExit:  # the caller wants no more
            interrupted = False
            raise
        finally:
            batch.close()
            if interrupted:  # in the middle of a message, perhaps
                self._disconnect()

    def _connect(self) -> Client:
        """The server, restarted if it has ended."""
        if not self._tidy.alive:
            raise UserError("this session is closed", primitive="measure", fix="make another MeasureSession")
        if self._client is None or self._client.channel.closed:
            if self._client is not None:
                self._servers_without_device = 0 if self._client.opened else self._servers_without_device + 1
                self._servers_without_result = 0 if self._client.results else self._servers_without_result + 1
                if self._servers_without_device >= _MOST_SERVERS_WITHOUT_DEVICE:
                    raise InternalError(_ENDS.format("opened a device"))
                if self._servers_without_result >= _MOST_SERVERS_WITHOUT_RESULT:
                    raise InternalError(_ENDS.format("a result"))
            self._disconnect()
            self._client = Client(str(self._target.kind), self.runner.n_parallel or 1, self._folder)
        return self._client

    def _make_folder(self) -> Path:
        if not self._folder_made or not self._folder.is_dir():  # somebody may tidy the temporary folder
            self._folder.mkdir(0o700)  # an error if somebody else has created the folder
            self._folder_made = True
        return self._folder

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
