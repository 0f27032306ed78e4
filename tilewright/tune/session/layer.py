"""The search of all strategies of a layer with one budget; the search of a single task is a layer with one strategy.

The default configuration of each strategy is measured first. The other trials go to the strategies with the largest
expected gain (`allotment.py`). At the end, the best of all are confirmed beside the default (`confirmation.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..records.format import Pair, mean_cost
from .campaign import Campaign, Entrant
from .confirmation import settled
from .measurers import Measurer
from .options import UNLIMITED_TRIALS, SearchOptions
from .results import Listener
from .run import Run
from .show import Display, say, summary
from .trials import Tally


class LayerSearch:
    """The search of one layer.

    Parameters
    ----------
    entrants : sequence of Entrant
        The strategies, beginning with the strategy of calls without measurements.
    measurer : Measurer
        The measurer: a `MeasureSession`, or a fleet's.
    options : SearchOptions
        Limits and options, which apply to all strategies together.
    listeners : sequence of callable
        Called with each trial, and with rejected and repeated candidates. Trials are numbered over all strategies.
    """

    def __init__(
        self,
        entrants: Sequence[Entrant],
        measurer: Measurer,
        options: SearchOptions,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.options = options
        self.interrupted = False
        # The trials of rivals are counted together.
        each = options if len(entrants) == 1 else replace(options, trials=UNLIMITED_TRIALS)
        self._campaign = Campaign(entrants, measurer, each, listeners)
        self.runs = self._campaign.runs
        self.tally = self.runs[0].total
        self.tally.wanted = options.trials

    def resume(self, known: Iterable[Pair]) -> None:
        """Take over the records of the layer in a log; see `Run.resume`."""
        self._campaign.resume(known)

    def go(self) -> Tally:
        """Search until the trials are used up, no configuration is left, or the user interrupts."""
        began = time.monotonic()
        left = self.options.trials - self.tally.resumed
        if left > 0 or (self.options.confirm > 1 and not settled(self.runs)):
            self._campaign.trials = max(0, left)
            self._campaign.display = self._display()
            self._campaign.go()
            self.interrupted = self._campaign.interrupted
            self.tally.measuring_seconds = sum(run.tally.measuring_seconds for run in self.runs)
        winner = self.winner or self.runs[0]
        self.tally.best = winner.tally.best
        seconds = time.monotonic() - began
        space, name = winner.task.config_space, winner.task.name if len(self.runs) > 1 else ""
        say(summary(self.tally, space, winner.results.device, self.options.si_prefix, seconds, name))
        return self.tally

    def _display(self) -> Display:
        """The live line for all strategies."""
        name = self.runs[0].task.name
        shown = name if len(self.runs) == 1 else name.partition(".")[0]
        return Display(self.tally, self.options.si_prefix, shown, self.options.seconds)

    @property
    def has_measured(self) -> bool:
        """Whether this search measured new trials."""
        return self.tally.done > self.tally.resumed

    @property
    def is_confirmed(self) -> bool:
        """Whether this search confirmed its best configuration, beside the default."""
        best = self.tally.best
        return self.has_measured and best is not None and best.input.notes.confirmed

    @property
    def winner(self) -> Run | None:
        """The run of the fastest strategy; None if nothing was measured."""
        measured = [(run.tally.best.rank, run) for run in self.runs if run.tally.best is not None]
        return max(measured, key=lambda one: one[0], default=(None, None))[1]

    @property
    def default_seconds(self) -> float | None:
        """The seconds of the default configuration of the first strategy; None if it was not measured."""
        run = self.runs[0]
        found = run.good.get(run.default) if run.default is not None else None
        return None if found is None else mean_cost(found.result)
