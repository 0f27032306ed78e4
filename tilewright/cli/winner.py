"""The winner of a log, compiled for the report: its loops, its source, and the resources of its kernels.

A child process does it, so that a kernel that keeps the compiler busy for long costs no more than the time it is given.
It sends each part as soon as it is ready: the loops, then the source, then the compiled form.
"""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from ..codegen.program import generate
from ..core.errors import UserError
from ..core.system import FORKS
from ..core.target import Target
from ..driver import LoweredModule, build, finished, lower_for
from ..tune.analysis.candidate import inspect_candidate
from ..tune.records.format import MeasureInput

_MOST_TEXT = 60_000
"""Characters of a program or a source that the page shows."""


@dataclass(frozen=True)
class CompiledWinner:
    """A winner, compiled: its loop program, its source, the bytes of its arguments, and the resources of each kernel.

    `missing` says why it is not compiled, `remarks` the compiler's warnings.
    """

    text: str = ""
    source: str = ""
    moved: float = 0.0
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: str = ""
    remarks: tuple[str, ...] = ()


class Winners:
    """Compiles winners within a common time limit."""

    def __init__(self, seconds: float) -> None:
        self.seconds = self.left = seconds

    def compiled(self, winner: MeasureInput) -> CompiledWinner:
        """Return a winner, compiled as far as possible on this host and in the remaining time."""
        began = time.monotonic()
        context = multiprocessing.get_context("fork") if FORKS else multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_compile, args=(winner, theirs), daemon=True)
        child.start()
        theirs.close()
        found, ended = CompiledWinner(), False
        with ours:
            while not ended and ours.poll(max(0.0, self.left - (time.monotonic() - began))):
                try:
                    found = ours.recv()
                except EOFError:
                    ended = True
        if not ended:
            child.kill()
            slow = f"that takes more than the {self.seconds:g} s for all winners; `--compile-seconds` gives more"
            found = replace(found, missing=slow)
        child.join()
        if ended and child.exitcode:
            found = replace(found, missing=f"the process that compiles it ended with status {child.exitcode}")
        self.left = max(0.0, self.left - (time.monotonic() - began))
        return found


def _compile(winner: MeasureInput, to: Connection) -> None:
    """In the child: send the winner, a little more of it each time."""
    found = CompiledWinner()
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            for found in _steps(winner):
                to.send(replace(found, remarks=tuple(str(each.message) for each in heard)))
    except UserError as error:
        to.send(replace(found, missing=error.message))
    except Exception as error:  # a template of another version may raise anything; the rest of the page stands
        to.send(replace(found, missing=f"{type(error).__name__}: {error}"))


def _steps(winner: MeasureInput) -> Iterator[CompiledWinner]:
    refusal = inspect_candidate(winner.task, winner.config, winner.target).refusal
    if refusal is not None:
        yield CompiledWinner(missing=refusal.reason)
        return
    schedule, args = winner.task.instantiate(winner.config)
    lowered = lower_for(winner.target, schedule, args)
    found = CompiledWinner(_cut(lowered.script()), moved=float(sum(map(_bytes, args))))
    yield found
    if winner.target.is_gpu:
        found = replace(found, source=_cut(_source(lowered, winner.target)))
        yield found
    module = build(schedule, args, winner.target)
    kernels = "\n".join(part.get_source() for part in module.imported_modules)
    resources = {name: vars(taken) for name, taken in module.resources.items()}
    yield replace(found, source=_cut(kernels or module.get_source()), resources=resources)


def _source(lowered: LoweredModule, target: Target) -> str:
    """The source of the kernels, before the compiler sees it."""
    return generate(tuple(finished(function, target) for function in lowered.functions), target)[0].source


def _bytes(tensor: Any) -> float:
    size = 1.0
    for extent in tensor.shape:
        size *= int(extent)
    return size * float(tensor.dtype.bits) / 8 if hasattr(tensor.dtype, "bits") else size * 4


def _cut(text: str) -> str:
    left = len(text) - _MOST_TEXT
    return text if left <= 0 else f"{text[:_MOST_TEXT]}\n... and {left:,} characters more"
