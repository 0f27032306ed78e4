"""The rules of a fleet, without input or output: the assignment of candidates, and the handling of a lost worker.

A candidate is sent to one worker only. It is not known whether a lost worker had begun it, and a candidate that ended
its worker must not end the next one. A worker that returns within the grace period gets the candidate again, under the
same token. Its journal says whether the candidate was begun, and its outcome. Otherwise the candidate is recorded as
failed.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from .protocol import Announcement

_LARGEST_BUNDLE = 8
_WORKERS_PER_BUNDLED = 16
_MOST_SLOTS = 64
"""The most candidates that a worker has at a time."""
_FACTS = ("kind of device", "device", "compute version", "driver", "tilewright", "Python")


@dataclass
class WorkerState:
    """A worker: its announcement, whether it is present, and its candidates."""

    announced: Announcement | None
    up: bool = False
    held: dict[str, None] = field(default_factory=dict)
    since: float = 0.0
    """The time of the worker's last message, or of its departure."""
    pinged: bool = False
    silent: bool = False
    """Whether the worker gets no candidates because it did not answer."""

    @property
    def in_use(self) -> bool:
        """Whether the worker is present, or may return with candidates."""
        return self.up or self.silent or bool(self.held)

    @property
    def slots(self) -> int:
        """The number of candidates that the worker may have at a time."""
        return min(_MOST_SLOTS, self.announced.slots) if self.announced is not None else 0


class Dispatcher:
    """Places candidates on workers.

    Parameters
    ----------
    kind : str
        The kind of target that the session tunes for.
    key : str
        The required key or device of workers; empty for the most frequent model.
    grace : float
        Seconds that a worker has to come back.
    patience : float
        Seconds of silence after which a worker that has candidates is asked whether it is alive.
    most : int, optional
        The number of workers to use.
    """

    def __init__(
        self,
        kind: str,
        key: str = "",
        grace: float = 30.0,
        patience: float = 60.0,
        most: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kind = kind
        self.key = key
        self.grace = grace
        self.patience = patience
        self.most = most
        self.now = now
        self.model: Announcement | None = None
        self.places: dict[str, WorkerState] = {}
        self.waiting: deque[str] = deque()
        self.placed: dict[str, str] = {}
        self._up = self._slots = 0
        self._counted: dict[str, int] = {}
        """The slots of each usable worker."""
        self._spare: dict[str, Announcement] = {}
        """Present workers beyond the number in use: they replace lost ones."""
        self._room: list[dict[str, None]] = [{} for _ in range(_MOST_SLOTS)]
        """Present workers with room, by their number of candidates."""
        self._level: dict[str, int] = {}
        """The row of each worker."""

    @property
    def up(self) -> int:
        """How many workers can be used."""
        return self._up

    @property
    def bundle(self) -> int:
        """The number of candidates per message: with many workers, the number of messages loads the scheduler."""
        return max(1, min(_LARGEST_BUNDLE, self._up // _WORKERS_PER_BUNDLED))

    @property
    def slots(self) -> int:
        """How many candidates the present workers have room for in total."""
        return self._slots

    # Workers

    def join(self, announced: Sequence[Announcement]) -> tuple[list[str], dict[str, list[str]]]:
        """Record the workers that are present.

        Returns
        -------
        refused : list of str
            Why some are not used, one line each.
        again : dict of str to list of str
            The tokens to send again to workers that are back.
        """
        refused: list[str] = []
        again: dict[str, list[str]] = {}
        fits = [one for one in announced if not self._misfit(one)]
        if self.model is None and fits:
            common = Counter(one.model for one in fits).most_common(1)[0][0]
            self.model = next(one for one in fits if one.model == common)
        for one in announced:
            why = self._misfit(one) or self._other(one)
            place = self.places.get(one.name)
            self._spare.pop(one.name, None)
            if not why and not (place is not None and place.in_use) and self._is_full:
                self._spare[one.name] = one
                why = f"{self.most} others are used already (n_parallel)"
            if why:
                refused.append(f"worker {one.name} is not used: {why}")
                if place is None:
                    continue
            place = self.places.setdefault(one.name, WorkerState(one))
            place.announced, place.up, place.since, place.pinged = one, not why, self.now(), False
            place.silent = False
            if place.held:
                again[one.name] = list(place.held)
            self._file(one.name)
        return refused, again

    def enlist(self) -> None:
        """Use spare workers in place of lost ones with abandoned candidates."""
        while self._spare and not self._is_full:
            self.join([self._spare.pop(next(iter(self._spare)))])

    @property
    def _is_full(self) -> bool:
        return self.most is not None and sum(place.in_use for place in self.places.values()) >= self.most

    def _misfit(self, one: Announcement) -> str:
        """Why a worker does not match the request; empty if it does."""
        if one.kind != self.kind:
            return f"it measures {one.kind}, and this session tunes for {self.kind}"
        if self.key and not _matches(self.key, one):
            own = f"{one.attributes.name}" + (f", key {one.key}" if one.key else "")
            return f"it has {own}, which is not {self.key}"
        return ""

    def _other(self, one: Announcement) -> str:
        """Why a worker's times cannot be compared with those of this session; empty if they can."""
        if self.model is None:
            return ""
        pairs = zip(_FACTS, one.model, self.model.model, strict=True)
        found = [f"{fact} {own!r} instead of {common!r}" for fact, own, common in pairs if own != common]
        return f"it has {', '.join(found)}; tune for it in a session and a log of its own" if found else ""

    def leave(self, name: str) -> None:
        """Record that a worker is gone."""
        self._spare.pop(name, None)
        place = self.places.get(name)
        if place is not None and (place.up or place.silent):
            place.silent = False
            place.up, place.since = False, self.now()
            self._file(name)

    def leave_all(self) -> None:
        """Record that the scheduler is gone."""
        for name in self.places:
            self.leave(name)

    def alive(self, name: str) -> None:
        """Record a sign of life from a worker."""
        place = self.places.get(name)
        if place is not None:
            place.since, place.pinged = self.now(), False
            if place.silent:
                place.up, place.silent = True, False
                self._file(name)

    # Candidates

    def held(self, name: str) -> list[str]:
        """Return the candidates of a worker."""
        place = self.places.get(name)
        return list(place.held) if place is not None else []

    def submit(self, tokens: Iterable[str]) -> None:
        """Queue candidates to be measured."""
        self.waiting.extend(tokens)

    def adopt(self, token: str, name: str) -> None:
        """Adopt a candidate that an earlier session sent to a worker."""
        place = self.places.setdefault(name, WorkerState(None, since=self.now()))
        place.held[token] = None
        self.placed[token] = name

    def assign(self) -> list[tuple[str, str]]:
        """Return (token, worker) for candidates that can be sent now: first to workers that have nothing to do."""
        given: list[tuple[str, str]] = []
        for row in self._room:
            while self.waiting and row:
                name = next(iter(row))
                place = self.places[name]
                if not place.held:
                    place.since = self.now()
                for _ in range(min(self._parcel(place), len(self.waiting))):
                    token = self.waiting.popleft()
                    place.held[token] = None
                    self.placed[token] = name
                    given.append((token, name))
                self._file(name)
        return given

    def finish(self, token: str) -> bool:
        """Record that a candidate is done; returns whether its outcome is still awaited."""
        name = self.placed.pop(token, None)
        if name is None:
            return False
        place = self.places[name]
        place.held.pop(token, None)
        place.since, place.pinged = self.now(), False
        self._file(name)
        return True

    def drop(self) -> None:
        """Drop the candidates that were not sent yet."""
        self.waiting.clear()

    def overdue(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Return the candidates and workers that exceeded their time.

        Returns
        -------
        lost : list of (str, str)
            Candidates that are given up, and why.
        silent : list of str
            Workers to ask whether they are alive.
        """
        lost: list[tuple[str, str]] = []
        silent: list[str] = []
        now = self.now()
        for name, place in self.places.items():
            if not place.held:
                continue
            if place.up and now >= place.since + self.patience:
                if place.pinged:  # the worker has not answered
                    place.up, place.since, place.pinged, place.silent = False, now, False, True
                    self._file(name)
                else:
                    place.pinged, place.since = True, now - self.patience + min(self.patience, self.grace)
                    silent.append(name)
            elif not place.up and now >= place.since + self.grace:
                reason = f"worker {name} ended or fell silent while it had it; it is not run again"
                lost += [(token, reason) for token in place.held]
        return lost, silent

    def _file(self, name: str) -> None:
        """File a worker under the number of candidates that it has."""
        place = self.places[name]
        self._slots -= self._counted.pop(name, 0)
        if place.up:
            self._counted[name] = place.slots
            self._slots += place.slots
        self._up = len(self._counted)
        if (level := self._level.pop(name, None)) is not None:
            self._room[level].pop(name, None)
        held = len(place.held)
        if place.up and place.slots - held >= self._parcel(place):
            self._room[held][name] = None
            self._level[name] = held

    def _parcel(self, place: WorkerState) -> int:
        """How many candidates a worker is sent at a time: at most half of its capacity."""
        return max(1, min(self.bundle, place.slots // 2))


def _matches(key: str, one: Announcement) -> bool:
    wanted = _plain(key)
    return wanted in [_plain(part) for part in one.key.split(",")] or wanted in _plain(one.attributes.name)


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
