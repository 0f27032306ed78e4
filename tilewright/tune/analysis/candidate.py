"""Inspection of candidates before measurement: candidates that cannot run are rejected, the others lowered."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ...core.errors import TVMError, UserError
from ...core.recursion import ROOM
from ...core.target import Target
from ...driver import refined_bounds
from ...loops.build import build_function
from ...measure.lowered import packed
from ...measure.outcome import Refused
from ...refine.usage import KernelUse, kernel_uses
from ...schedule.culprits import naming_steps, step_at_fault
from ..space.config import Config
from ..task import Task
from . import features
from .accesses import statements
from .refuse import refuse


@dataclass(frozen=True)
class Inspection:
    """The result of an inspection: the reason of the refusal, or the candidate's features (empty if not requested).

    `lowered` is the candidate for `Job.lowered`, if requested.
    """

    refusal: Refused | None = None
    features: features.Features = field(default_factory=dict)
    uses: tuple[KernelUse, ...] = ()
    seconds: float = 0.0
    lowered: bytes = b""


def inspect_candidate(
    task: Task, config: Config, target: Target, kind: str = "knob", keep_lowered: bool = False
) -> Inspection:
    """Inspect a configuration as it is compiled for `target`.

    `kind` selects the features; "knob" requests no features of the loop nest.

    Any exception of a template becomes a refusal.
    """
    began, scheduled = time.perf_counter(), False
    try:
        with target:
            found, nest, lowered = features.Features(), None, b""
            with ROOM:
                handle, args = task.instantiate(config)
            scheduled = True
            with ROOM, naming_steps(handle.steps):
                bounds = refined_bounds(handle.value, target)
                uses = kernel_uses(bounds)
                refusal = refuse(handle, uses, target)
                if refusal is None and kind != "knob":
                    nest = build_function(handle.value, bounds, args)
                    found = features.of_nest(kind, statements(nest), uses, target.hardware)
            if refusal is None and keep_lowered:
                lowered = packed(handle, args, target, bounds, nest)
        return Inspection(refusal, found, tuple(uses), time.perf_counter() - began, lowered)
    except UserError as error:
        return Inspection(
            Refused(reason=error.message, step=step_at_fault(error, scheduled)), seconds=time.perf_counter() - began
        )
    except (Exception, SystemExit) as error:
        internal = " (a bug of Tilewright's)" if isinstance(error, TVMError) else ""
        return Inspection(
            Refused(reason=f"{type(error).__name__}{internal}: {error}"), seconds=time.perf_counter() - began
        )
