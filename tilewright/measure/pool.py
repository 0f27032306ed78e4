"""A pool of forked workers that are replaced when they die or take too long.

Workers are forked when there is work for them, so they see everything that the caller had defined by then; what travels
to them is only the number of a piece of work.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .channel import Channel
from .children import Child, fork


@dataclass(frozen=True)
class Died:
    """The worker ended before its work did; `overdue` where it was ended for taking too long."""

    how: str
    killed: bool
    overdue: bool
    seconds: float


class Pool:
    """Runs `work(number)` in at most `size` processes, each piece for at most `timeout` seconds."""

    def __init__(self, work: Callable[[int], Any], size: int, timeout: float) -> None:
        self.work = work
        self.size = size
        self.timeout = timeout
        self.waiting: deque[int] = deque()
        self.foreign: list[Channel] = []
        """Channels of the caller that workers must not hold open."""
        self._idle: list[Child] = []
        self._busy: dict[Child, tuple[int, float]] = {}  # the work's number, and when it began
        self._outdated: set[Child] = set()  # busy ones that do not know of what is submitted next

    def submit(self, numbers: Iterable[int]) -> None:
        """Work to do, in this order."""
        self.waiting.extend(numbers)

    def renew(self) -> None:
        """What is submitted from now on needs what the caller defined only now: workers forked before get no more."""
        _end(self._idle)
        self._idle.clear()
        self._outdated.update(self._busy)

    @property
    def active(self) -> bool:
        """Whether anything is being done or waits."""
        return bool(self.waiting or self._busy)

    def descriptors(self) -> list[int]:
        """What becomes readable when there is something to collect."""
        return [d for child in self._busy for d in child.descriptors()]

    @property
    def deadline(self) -> float | None:
        """When the next worker will have taken too long, by `time.monotonic`."""
        return min((began + self.timeout for _, began in self._busy.values()), default=None)

    def advance(self) -> list[tuple[int, Any]]:
        """Hand out work, and give what was finished since: (number, result or `Died`)."""
        found = [(number, result) for child in list(self._busy) for number, result in self._collect(child)]
        self.start()
        return found

    def start(self) -> None:
        """Hand out work, as far as workers are free."""
        while self.waiting and len(self._busy) < self.size:
            self._start(self.waiting.popleft())

    def close(self) -> None:
        """End all workers."""
        self.waiting.clear()
        _end([*self._idle, *self._busy])
        self._idle.clear()
        self._busy.clear()
        self._outdated.clear()

    def _start(self, number: int) -> None:
        while True:
            child = self._idle.pop() if self._idle else self._fork()
            self._busy[child] = number, time.monotonic()
            with suppress(OSError):  # it died while idle: that costs no work
                child.channel.send(number)
                return
            del self._busy[child]
            child.bury()

    def _fork(self) -> Child:
        work = self.work

        def serve(channel: Channel) -> None:
            while True:
                number = channel.receive()
                channel.send(work(number))

        others = [child.channel for child in (*self._idle, *self._busy)]
        return fork(serve, [*others, *self.foreign])

    def _collect(self, child: Child) -> list[tuple[int, Any]]:
        number, began = self._busy[child]
        gone = child.ended()  # asked first: what it said before it ended is then all there
        results = child.channel.arrived()
        if results:
            del self._busy[child]
            outdated = child in self._outdated
            self._outdated.discard(child)
            (child.bury() if gone or outdated or child.channel.closed else self._idle.append(child))
            return [(number, results[0])]
        seconds = time.monotonic() - began
        overdue = seconds >= self.timeout and not gone
        if not (gone or child.channel.closed or overdue):
            return []
        del self._busy[child]
        self._outdated.discard(child)
        if not gone and not overdue:  # the channel closes a moment before the process is gone
            child.await_end(1.0)
        child.bury()
        return [(number, Died(child.describe_end(), child.killed_from_outside, overdue, seconds))]


def _end(children: Collection[Child]) -> None:
    for child in children:  # all at once: it takes each of them a moment
        child.kill()
    for child in children:
        child.bury()
