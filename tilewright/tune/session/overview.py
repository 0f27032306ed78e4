"""The display of many tasks on a terminal: one line per task, and one for the budget."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.log import is_terminal, logger
from ...core.text import one_line
from ..task import Task
from .trials import Tally

_MOST_LINES = 20
_LONGEST_NAME = 60


class Overview:
    """Live lines on stderr; none if stderr is not a terminal or lines are logged."""

    def __init__(
        self, tallies: Sequence[Tally], tasks: Sequence[Task], trials: int | None, seconds: float | None
    ) -> None:
        self.tallies = tallies
        self.names = [one_line(f"{task.name}{task.args}")[:_LONGEST_NAME] for task in tasks]
        self.trials = trials
        self.seconds = seconds
        self._before = [tally.done for tally in tallies]
        self._began = time.monotonic()
        self._bar: Any = None
        self._lines: list[Any] = []
        self._budget: Any = None
        self._awaited = ""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the lines inside the context."""
        if not is_terminal(sys.stderr) or logger.isEnabledFor(logging.DEBUG):
            yield
            return
        from rich import progress
        from rich.console import Console

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(bar_width=20),
            progress.TextColumn("{task.fields[state]}", markup=False),
            progress.TimeRemainingColumn(compact=True),
        )
        with progress.Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
            self._bar = bar
            self._budget = bar.add_task("all tasks", total=self.seconds or self.trials, state="")
            self._lines = [bar.add_task(name, total=None, state="waiting") for name in self.names[:_MOST_LINES]]
            yield

    def wait(self, what: str) -> None:
        """Show the reason of a wait."""
        self._awaited = what
        self.update()

    def update(self) -> None:
        """Show the state of all tasks."""
        if self._bar is None:
            return
        done = sum(tally.done - before for tally, before in zip(self.tallies, self._before, strict=True))
        passed = time.monotonic() - self._began
        state = f"{done} trials, {done / max(passed, 1e-9):.1f}/s"
        state += f", waiting for {self._awaited}" if self._awaited else ""
        self._bar.update(self._budget, completed=passed if self.seconds else done, state=state)
        for line, tally in zip(self._lines, self.tallies, strict=False):
            failed = sum(tally.failures.values())
            text = f"{tally.done} trials  best {tally.best_flops / 1e9:,.1f} GFLOPS"
            text += f"  {failed} failed" if failed else ""
            self._bar.update(line, completed=tally.done, total=max(1, done), state=text)
