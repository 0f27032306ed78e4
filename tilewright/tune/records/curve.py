"""The progress of a search, read from its log: the best after each trial."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...measure.outcome import MeasureErrorNo
from ..task import Workload
from .format import Pair, mean_cost


@dataclass(frozen=True)
class Curve:
    """The trials of one workload in a log, in order; rejected configurations and repetitions do not count.

    `costs` has the seconds of each trial (None after a failure). `flop` is the number of operations of one run; 0 if
    the log does not have it.
    """

    workload: Workload
    costs: tuple[float | None, ...]
    flop: float = 0.0

    @property
    def best(self) -> list[float | None]:
        """Return the least seconds after each trial; None until the first success."""
        found: list[float | None] = []
        least: float | None = None
        for cost in self.costs:
            least = cost if least is None else least if cost is None else min(least, cost)
            found.append(least)
        return found


def curves(pairs: Iterable[Pair]) -> list[Curve]:
    """Return the curve of each workload of a log, in order of appearance."""
    costs: dict[Workload, list[float | None]] = {}
    flop: dict[Workload, float] = {}
    for inp, result in pairs:
        if inp.notes.refused or inp.notes.confirmed:
            continue
        ok = result.error_no == MeasureErrorNo.NO_ERROR
        costs.setdefault(inp.task.workload, []).append(mean_cost(result) if ok else None)
        flop[inp.task.workload] = inp.notes.flop or flop.get(inp.task.workload, 0.0)
    return [Curve(workload, tuple(found), flop[workload]) for workload, found in costs.items()]
