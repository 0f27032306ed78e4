"""The fleet's messages on one page, and the text form of messages between hosts.

    tuner ── Connect, Send, Ping, Leave ──►  courier  ── Dask ──►  worker  ── Measure, Proceed ──►  candidate
          ◄── Joined, Left, Finished, ─────          ◄────────            ◄── Opened, Begins, ────  process
              Answered, Unreachable                                           Done, Broken

The *courier* is a process of the tuner's that holds the Dask client, so that the tuner, which forks, has no threads. A
*worker* is a Dask worker. It starts one *candidate process*, which builds, runs and checks candidates as a tuner does
on its own host. Messages between processes of one host are pickled. Messages that cross hosts are JSON, except for the
candidates themselves: these are code, and only that process unpickles them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..codegen.abi import Resources
from ..core.errors import UserError
from ..measure.option import LocalBuilder, LocalRunner
from ..measure.outcome import BuildFailed, Measured, Outcome, Refused, RunFailed, TimedOut, WrongAnswer
from ..runtime.driver import DeviceAttributes


@dataclass(frozen=True)
class Announcement:
    """A worker's announcement. `journal` names its journal, which outlives it; `slots` is its number of candidates at a
    time, including candidates being built. `key` is the owner's name of the device, `pid` and `host` identify the
    process."""

    name: str
    kind: str
    attributes: DeviceAttributes
    package: str
    python: str
    journal: str
    slots: int = 2
    key: str = ""
    host: str = ""
    pid: int = 0

    @property
    def model(self) -> tuple[str, str, str, str, str, str]:
        """The common properties of a session's workers: kind, device, driver, and the compiler's versions."""
        device = self.attributes
        return self.kind, device.name, device.compute_version, device.driver_version, self.package, self.python

    def written(self) -> str:
        """Return the announcement as text."""
        return json.dumps({**asdict(self), "attributes": self.attributes._asdict()})

    @classmethod
    def read(cls, text: Any) -> Announcement:
        """Parse a worker's message; raise UserError if it is not an announcement."""
        try:
            given = json.loads(text)
            attributes = {name: given["attributes"][name] for name in DeviceAttributes._fields}
            attributes["max_thread_dimensions"] = tuple(attributes["max_thread_dimensions"])
            own = {f.name: given[f.name] for f in fields(cls)}
            made = cls(**{**own, "attributes": DeviceAttributes(**attributes)})
            wrong = [
                name for name, kind in (("name", str), ("pid", int), ("slots", int)) if not isinstance(own[name], kind)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise _stranger(f"{type(error).__name__}: {error}") from None
        if wrong:
            raise _stranger(", ".join(wrong))
        return made


# Between the tuner and its courier.


@dataclass(frozen=True)
class Connect:
    """Use the scheduler at an address; `security` has the files of TLS, as Dask's `Security` names them."""

    address: str
    security: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Send:
    """Let a worker measure candidates, and forget the `settled` ones."""

    worker: str
    work: tuple[tuple[str, bytes], ...]
    settled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ping:
    """Ask a worker whether it is alive."""

    worker: str


@dataclass(frozen=True)
class Leave:
    """Disconnect and end."""


@dataclass(frozen=True)
class Joined:
    """The announcements (as text) of the workers that are present.

    It is the first message after the courier reaches the scheduler, even if no worker is present.
    """

    announcements: tuple[str, ...]


@dataclass(frozen=True)
class Left:
    """A worker is gone."""

    worker: str


@dataclass(frozen=True)
class Finished:
    """The outcomes of candidates on a worker, as text."""

    worker: str
    outcomes: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Answered:
    """A worker is alive, and has these unfinished candidates."""

    worker: str
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Unreachable:
    """The scheduler cannot be reached, or the connection to it broke; the courier ends."""

    reason: str
    final: bool = False


# Between a worker and its candidate process.


@dataclass(frozen=True)
class PickledCandidate:
    """A candidate as the tuner sends it: pickled, except for its identity.

    `reference` is the pickled function that computes the expected outputs, if the task has one. Candidates with equal
    bytes share one computation. `lowered` is that of its job.
    """

    target: str
    instantiate: bytes
    reference: bytes
    builder: LocalBuilder
    runner: LocalRunner
    lowered: bytes = b""


@dataclass(frozen=True)
class Measure:
    """Measure a candidate, which is pickled."""

    token: str
    candidate: bytes


@dataclass(frozen=True)
class Opened:
    """The candidate process has its device."""

    attributes: DeviceAttributes


@dataclass(frozen=True)
class Begins:
    """A candidate is built, and is about to run: its process waits for `Proceed`."""

    token: str


@dataclass(frozen=True)
class Proceed:
    """The journal has noted the candidate: run it."""

    token: str


@dataclass(frozen=True)
class Done:
    """The outcome of a candidate."""

    token: str
    outcome: Outcome


@dataclass(frozen=True)
class Broken:
    """The device cannot be used."""

    reason: str


_OUTCOMES: Mapping[str, type[Outcome]] = {
    kind.__name__: kind for kind in (Measured, BuildFailed, RunFailed, WrongAnswer, TimedOut, Refused)
}


def write_outcome(outcome: Outcome) -> str:
    """Return an outcome as text."""
    said = {f.name: getattr(outcome, f.name) for f in fields(outcome)}
    if isinstance(outcome, Measured):
        said["resources"] = {name: asdict(found) for name, found in outcome.resources.items()}
    return json.dumps({"outcome": type(outcome).__name__, **said})


def read_outcome(text: Any) -> Outcome:
    """Return the outcome that a worker wrote; other text becomes a failure."""
    try:
        said = json.loads(text)
        kind = _OUTCOMES[said.pop("outcome")]
        if kind is Measured:
            said["costs"] = tuple(float(cost) for cost in said["costs"])
            if not said["costs"] or not all(0 < cost < float("inf") for cost in said["costs"]):
                raise ValueError(f"the costs are {said['costs']}")
            said["resources"] = {str(name): Resources(**found) for name, found in said["resources"].items()}
        return kind(**said)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return RunFailed(reason=f"the worker sent no outcome ({type(error).__name__}: {error})", killed=True)


def _stranger(how: str) -> UserError:
    """The error for a worker of another protocol."""
    return UserError(
        f"the announcement of a worker is not understood ({how})",
        fix="start workers of the same version of Tilewright as the tuner",
    )
