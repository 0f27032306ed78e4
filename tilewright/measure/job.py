"""A job from the tuner, and the result of building it.

`batch.py` takes jobs through `build.py`, `server.py` and `runner.py`, and returns an `Outcome` of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..core.target import Target

ReferenceFunc = Callable[[], tuple[Sequence[np.ndarray], Sequence[np.ndarray]]]
"""Gives inputs and expected outputs, each in the order of the kernel's arguments."""


@dataclass(frozen=True)
class Job:
    """One candidate.

    `instantiate` returns the schedule and the tensors in the order of the kernel's arguments. It runs in a process that
    is forked when the measuring begins, so it may be any function of the script. `key` is the caller's own. `reference`
    gives inputs and expected outputs; without it they come from the declaration of the tensors. Jobs that share one
    `reference` function, or one declaration, share one computation of it. If the candidate was lowered before,
    `lowered` is its loop nest, packed by `lowered.py`, and builders do not call `instantiate`. `kept` is a list for the
    built program; if it already holds one, builders do not build the job again.
    """

    instantiate: Callable[[], tuple[Any, list[Any]]]
    key: Any
    target: Target
    reference: ReferenceFunc | None = None
    lowered: bytes = b""
    kept: list[Built] | None = field(default=None, compare=False, repr=False)


class Feed(Protocol):
    """A source of batches other than the caller of `measure_all`."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when jobs are waiting."""

    @property
    def pending(self) -> bool:
        """Whether jobs are waiting although the descriptor is not readable."""

    def begins(self, job: Job) -> None:
        """Note that a job is about to run; the job runs after this method returns."""


@dataclass(frozen=True)
class CheckSpec:
    """The parts of a kernel's computation that its check needs.

    `declaration` identifies the graph of tensors. `outputs` are the positions of the arguments that the kernel writes.
    `tolerance` is the error allowed relative to the magnitude of the values. With `branches`, comparisons or steps of
    floats choose between values, and a rounding error may choose another one.
    """

    declaration: str
    outputs: tuple[int, ...]
    tolerance: float
    branches: bool = False


@dataclass(frozen=True)
class Built:
    """A candidate that can be run.

    Its `program` stays pickled until it is run: no process in between has to load the output of a build function.
    """

    program: bytes
    spec: CheckSpec
    seconds: float
