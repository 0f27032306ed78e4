"""The interface of the sessions that measure candidates: on this host, on a fleet, or by a script's own runner."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from ..core.target import Target
from ..runtime.driver import DeviceAttributes, target_for
from .job import Job
from .option import LocalBuilder
from .outcome import Outcome


class BaseSession(ABC):
    """Builds and runs candidates for `target`; a context manager."""

    def __init__(self, target: Any, builder: LocalBuilder | None) -> None:
        self.builder = builder or LocalBuilder()
        self._target = Target.parse(target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """End the processes of the session, and remove its files."""

    @property
    @abstractmethod
    def attributes(self) -> DeviceAttributes:
        """The description of the device. Raises UserError if there is none."""

    @property
    def processes(self) -> int:
        """The number of candidates that this host inspects or builds at a time."""
        return self.builder.processes

    @property
    def target(self) -> Target:
        """The target, for the architecture of the device."""
        return self._resolved(self._target)

    def _resolved(self, target: Target) -> Target:
        return target_for(target, lambda: self.attributes)

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Build and run jobs; yield each with its outcome, in the order in which they are done.

        Raises UserError if the device cannot be used at all. A failing candidate affects only itself.
        """
        return self.measure_all([jobs])

    @abstractmethod
    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """Measure batches, as `measure` does."""
