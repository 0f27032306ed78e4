"""A pool of forked workers that are replaced when they die or take too long.

Workers are forked when there is work for them, so they see everything that the caller has defined so far. They receive
only the number of a piece of work. Work that can be pickled also goes to workers that were forked earlier.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from .channel import LATE, Channel, Garbled, wait
from .children import Child, fork
from .outcome import shorten
from .process_state import FILES, THREADS, Surroundings, has_children, kill_descendants, spare_descriptors


@dataclass(frozen=True)
class Died:
    """A worker ended before its work was done. `overdue`: the pool ended the worker because it took too long."""

    how: str
    killed: bool
    overdue: bool
    seconds: float


@dataclass(frozen=True)
class Answer:
    """The result of a piece of work. `last`: the worker is not fit for another piece."""

    number: int
    result: Any
    last: bool


@dataclass
class _Work:
    """A piece of work in hand."""

    number: int
    began: float
    deadline: float
    again: bool = False

    def overdue(self, timeout: float) -> bool:
        """Whether the time of the work is over.

        If the caller notices it late, both processes may have been stopped, as by Ctrl-Z: the worker gets its time
        once more.
        """
        now = time.monotonic()
        if now < self.deadline:
            return False
        if now > self.deadline + LATE and not self.again:
            self.again, self.deadline = True, now + timeout
            return False
        return True


_SPARE_DESCRIPTORS = 24
"""The descriptors that remain for other uses when a worker, which takes two, is forked."""


class WorkerPool:
    """Runs `work(number)` in at most `size` processes, each piece for at most `timeout` seconds.

    With `given`, which maps a number to a picklable value, `work` is called with that value. `nice` is added to the
    workers' nice value.
    """

    def __init__(
        self,
        work: Callable[[Any], Any],
        size: int,
        timeout: float,
        given: Callable[[int], Any] | None = None,
        nice: int = 0,
    ) -> None:
        self.work = work
        self.given = given
        self.nice = nice
        self.size = size
        self.timeout = timeout
        self.waiting: deque[int] = deque()
        self.foreign: list[Channel] = []
        """Channels of the caller that workers must not hold open."""
        self._idle: list[Child] = []
        self._busy: dict[Child, _Work] = {}
        self._outdated: set[Child] = set()  # busy workers that do not know the work submitted next

    def submit(self, numbers: Iterable[int]) -> None:
        """Queue work, in this order."""
        self.waiting.extend(numbers)

    def renew(self) -> None:
        """Give later work to new workers only: it needs definitions that workers forked earlier lack."""
        _end(self._idle, idle=True)
        self._idle.clear()
        self._outdated.update(self._busy)

    @property
    def active(self) -> bool:
        """Whether work is being done or waits."""
        return bool(self.waiting or self._busy)

    def descriptors(self) -> list[int]:
        """The descriptors that become readable when there are results to collect."""
        return [d for child in self._busy for d in child.descriptors()]

    @property
    def deadline(self) -> float | None:
        """The time at which the next worker exceeds its limit, by `time.monotonic`; None if no worker is busy."""
        return min((work.deadline for work in self._busy.values()), default=None)

    def wait(self) -> None:
        """Wait for a result, or for the time limit of a worker."""
        wait(self.descriptors(), self.deadline)

    def advance(self) -> list[tuple[int, Any]]:
        """Hand out work, and return the results since the last call: (number, result or `Died`)."""
        found = [(number, result) for child in list(self._busy) for number, result in self._collect(child)]
        self.start()
        return found

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield the results of all work, as they come; the caller may submit more in between."""
        while self.active:
            yield from self.advance()
            if self.active:
                self.wait()

    def start(self) -> None:
        """Hand out work, as far as workers are free."""
        while self.waiting and len(self._busy) < self.size and self._has_room():
            self._start(self.waiting.popleft())

    def _has_room(self) -> bool:
        """Whether another worker may be busy: if descriptors are scarce, few are."""
        return bool(self._idle) or not self._busy or spare_descriptors() >= _SPARE_DESCRIPTORS

    def close(self) -> None:
        """End all workers."""
        self.waiting.clear()
        _end(self._idle, idle=True)
        _end(self._busy, idle=False)
        self._idle.clear()
        self._busy.clear()
        self._outdated.clear()

    def _start(self, number: int) -> None:
        while True:
            child = self._idle.pop() if self._idle else self._fork()
            now = time.monotonic()
            self._busy[child] = _Work(number, now, now + self.timeout)
            with suppress(OSError):  # a child that died while idle costs no work
                child.channel.send((number, number if self.given is None else self.given(number)))
                return
            del self._busy[child]
            child.bury()

    def _fork(self) -> Child:
        work, nice = self.work, self.nice
        others = [child.channel for child in (*self._idle, *self._busy)]
        return fork(lambda channel: _serve(channel, work, nice), [*others, *self.foreign])

    def _collect(self, child: Child) -> list[tuple[int, Any]]:
        doing = self._busy[child]
        gone = child.ended()  # checked before reading: all messages before the end have then arrived
        for message in child.channel.arrived():
            if isinstance(message, Answer) and message.number == doing.number:
                fit = not (gone or message.last or child in self._outdated or child.channel.closed)
                if not (fit or gone or child.channel.closed):
                    child.kill(idle=True)  # the child has ended its own children: nobody needs to look for them
                self._release(child, keep=fit)
                return [(doing.number, message.result)]
            how = message.reason if isinstance(message, Garbled) else "answered for another candidate"
            self._release(child)
            return [(doing.number, Died(how, False, False, time.monotonic() - doing.began))]
        overdue = not gone and doing.overdue(self.timeout)
        if not (gone or child.channel.closed or overdue):
            return []
        if not gone and not overdue:  # the channel closes a moment before the process is gone
            child.await_end(1.0)
        self._release(child)
        how, killed = child.describe_end(), child.killed_from_outside
        return [(doing.number, Died(how, killed, overdue, time.monotonic() - doing.began))]

    def _release(self, child: Child, keep: bool = False) -> None:
        """Keep a worker after its work, or end it."""
        del self._busy[child]
        self._outdated.discard(child)
        if keep:
            self._idle.append(child)
        else:
            child.bury()


def _serve(channel: Channel, work: Callable[[Any], Any], nice: int) -> None:
    """In a worker: do one piece of work after the other, until one leaves threads, files or processes behind."""
    if nice:
        os.nice(nice)
    me, before = os.getpid(), Surroundings.now()
    last, fresh = False, True
    while not last:
        number, given = channel.receive()
        result, fit = _attempt(work, given)
        if os.getpid() != me:  # a fork made by the work; the result of a fork is not the worker's
            os._exit(0)
        children = has_children()
        if children:
            kill_descendants(me)
        changed = before.changed()
        if fresh and changed <= {THREADS, FILES}:  # files of a compiler that is first used now, and keeps them
            before, changed = Surroundings.now(), set()
        fresh = False
        last = children or bool(changed) or not fit
        channel.send(Answer(number, result, last))


def _attempt(work: Callable[[Any], Any], given: Any) -> tuple[Any, bool]:
    """Run a piece of work in its own context; returns its result, and whether it finished."""
    began = time.monotonic()
    try:
        return copy_context().run(work, given), True
    except BaseException as error:  # work handles the errors that it expects, so this error is unexpected
        try:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
        except BaseException:  # the text of an exception is the work's own code, too
            said = type(error).__name__
        return Died(f"raised {shorten(said)}", False, False, time.monotonic() - began), False


def _end(children: Collection[Child], idle: bool) -> None:
    for child in children:  # all at once, because each end takes a moment
        child.kill(idle)
    for child in children:
        child.bury()
