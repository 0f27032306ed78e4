"""The measuring protocol on one page: three processes, the messages of each, and the states of a device.

    tuner ── Submit, DropQueued, Shutdown ──►  server  ── RunRequest ───────────────────────►  runner
          ◄── DeviceOpened, DeviceLost ──────          ◄── DeviceReady, OpenFailed ──────────
          ◄── RunStarted, RunFinished ───────          ◄── Accepted, FirstRunOver, Completed,
                                                           CooledDown ───────────────────────

The *tuner* is the caller's process. It starts one *server*, which never touches a device, and the server forks one
*runner* for each device, which may hang or crash. `docs/measuring.md` shows the states of a device as a diagram.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto

from ..runtime.driver import DeviceAttributes
from .job import CheckSpec
from .option import LocalRunner
from .outcome import Outcome


@dataclass(frozen=True)
class RunRequest:
    """The work of a runner; `reference` names a file of inputs and expected outputs, or is empty (random inputs, no
    comparison). The `program` is pickled: only the runner, which may die of it, unpickles it."""

    program: bytes
    spec: CheckSpec
    reference: str
    options: LocalRunner


# Messages from the tuner to the server.


@dataclass(frozen=True)
class Submit:
    """Run a request; `token` is the tuner's name for the request."""

    token: int
    request: RunRequest


@dataclass(frozen=True)
class DropQueued:
    """Drop the requests that no runner has yet."""


@dataclass(frozen=True)
class Shutdown:
    """End the runners and the server."""


FromTuner = Submit | DropQueued | Shutdown


# Messages from the server to the tuner.


@dataclass(frozen=True)
class DeviceOpened:
    """A runner has opened device `index`."""

    index: int
    attributes: DeviceAttributes


@dataclass(frozen=True)
class DeviceLost:
    """Device `index` cannot be used, and is not tried again."""

    index: int
    reason: str


@dataclass(frozen=True)
class RunStarted:
    """A runner has accepted the request."""

    token: int


@dataclass(frozen=True)
class RunFinished:
    """The outcome of a request; every submitted request ends with it, unless dropped."""

    token: int
    outcome: Outcome


FromServer = DeviceOpened | DeviceLost | RunStarted | RunFinished


# Messages from a runner to the server; the server sends a runner one `RunRequest` at a time.


@dataclass(frozen=True)
class DeviceReady:
    """The device is open; the first message of a runner."""

    attributes: DeviceAttributes


@dataclass(frozen=True)
class OpenFailed:
    """The device does not open, and the runner ends; `final` if trying again is useless."""

    reason: str
    final: bool


@dataclass(frozen=True)
class Accepted:
    """The runner has read the request: from now on, the candidate causes all events."""


@dataclass(frozen=True)
class FirstRunOver:
    """The kernel is compiled and has run once. If the time limit passes later, it passes during the timed runs."""


@dataclass(frozen=True)
class Completed:
    """The outcome of the request; the runner ends if it is not `healthy` enough for another request."""

    outcome: Outcome
    healthy: bool


@dataclass(frozen=True)
class CooledDown:
    """The pause between two requests (`cooldown_interval`) is over."""


FromRunner = DeviceReady | OpenFailed | Accepted | FirstRunOver | Completed | CooledDown


class DeviceState(StrEnum):
    """The state of a device, as far as the server knows."""

    STARTING = auto()  # forked, not yet open
    IDLE = auto()
    BUSY = auto()
    COOLING = auto()
    ENDING = auto()  # the process was told or made to end, and is not gone yet
    RESTING = auto()  # no process: the last one's work on the device may still be torn down
    LOST = auto()
