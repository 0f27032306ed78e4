"""`tilewright ladder`: climb, print the table, save the requested files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..ladder.climb import RungOutcome, climb
from ..ladder.results import lines, save_rung, save_table
from ..ladder.rivals import has_torch, numpy_row, torch_row
from ..ladder.rung import Ladder, Rung
from ..ladder.trial import CheckedProblem
from ..report.files import folder
from ..report.progress import progress
from ..runtime.device import Device
from .commands import FAILED, FINE, INTERRUPTED
from .console import heading, print_lines
from .devices import choose_device


@dataclass(frozen=True)
class LadderOptions:
    """The command's options, other than sizes."""

    target: str | None
    variants: tuple[str, ...]
    show_ir: bool
    show_source: bool
    save: Path | None
    repeat: int


def climb_ladder(ladder: Ladder, options: LadderOptions) -> int:
    """Run the command; returns its exit status."""
    rungs = ladder.choose(list(options.variants))
    on, line = choose_device(options.target)
    if options.save is not None:
        folder(options.save)  # a wrong folder shows before the work, not after it
    print_lines([heading(f"{ladder.title}  {ladder.sizes()}"), line])
    outcomes: list[RungOutcome] = []
    interrupted = False
    try:
        with progress(len(rungs) + 1 + has_torch()) as (say, step):
            for outcome in _rows(ladder, rungs, on, options.repeat, say):
                outcomes.append(outcome)
                if options.save is not None:
                    save_rung(options.save, outcome, on)
                step()
    except KeyboardInterrupt:
        interrupted = True
    _show(ladder, outcomes, on, options)
    if interrupted:
        rows = "1 row" if len(outcomes) == 1 else f"{len(outcomes)} rows"
        print_lines([f"interrupted after {rows}"])
        return INTERRUPTED
    return FAILED if any(outcome.failure for outcome in outcomes if outcome.kind == "rung") else FINE


def _rows(
    ladder: Ladder, rungs: tuple[Rung, ...], on: Device, repeat: int, say: Callable[[str], None]
) -> Iterator[RungOutcome]:
    """Yield the rows of the table when they are done."""
    say("computing the reference")
    trial = CheckedProblem.of(ladder)
    for rung in rungs:
        yield climb(trial, rung, on, repeat, say)
    say("NumPy: timing")
    yield numpy_row(trial, repeat)
    if has_torch():
        say("PyTorch: timing")
        yield torch_row(trial, on, repeat)


def _show(ladder: Ladder, outcomes: list[RungOutcome], on: Device, options: LadderOptions) -> None:
    """Print programs, sources and the table, and save the latter."""
    for outcome in outcomes:
        if options.show_ir and outcome.program:
            print_lines(["", heading(f"── {outcome.name}: the lowered program"), outcome.program.rstrip()])
        if options.show_source and outcome.source:
            print_lines(["", heading(f"── {outcome.name}: the kernel's source"), outcome.source.rstrip()])
    print_lines(["", *lines(ladder, outcomes)] if outcomes else [])
    notes = [] if has_torch() else ["for a row of PyTorch: pip install 'tilewright[torch]'"]
    if options.save is not None:
        notes += [*save_table(options.save, ladder, outcomes, on), f"saved in {options.save}"]
    print_lines(["", *notes] if notes else [])
