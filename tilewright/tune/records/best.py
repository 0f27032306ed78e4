"""The best record, for confirmed and resumed searches, `log best`, reports and `apply_history_best`.

During a search, `session/trials.py::Tally` keeps a provisional best by `Trial.rank`, which ignores confirmations.

At its end, a search measures its best few configurations again, in turns. The least time of a single measurement is
partly luck. So a confirmation replaces earlier times of its configuration, and outranks all earlier single measurements
by the same device. Measurements of a later, interrupted search compete with it again.

The initial configuration of a search has a margin, the spread of its confirmation. A rival that is faster by less than
the margin does not replace it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...measure.outcome import MeasureErrorNo
from ..space.config import Config
from ..task import Workload
from .format import MeasureInput, Pair, mean_cost


def best_of(pairs: Sequence[Pair]) -> Pair | None:
    """Return the best record of a workload, or of rival strategies, on one target; None if there is none.

    A wrong answer excludes the unchecked records of its configuration; other failures have no effect. Checked records
    rank before unchecked ones; among equal records, the earliest wins.
    """
    wrong = {_program(inp) for inp, result in pairs if result.error_no == MeasureErrorNo.WRONG_ANSWER}
    good = [
        pair
        for pair in pairs
        if pair[1].error_no == MeasureErrorNo.NO_ERROR and (pair[0].notes.checked or _program(pair[0]) not in wrong)
    ]
    again = {(_program(pair[0]), pair[0].notes.device): pair for pair in good if pair[0].notes.confirmed}
    since: dict[str, float] = {}
    for inp, result in again.values():
        for device in {inp.notes.device, ""}:
            since[device] = max(since.get(device, 0.0), result.timestamp)
    if again:
        good = [again.get((_program(pair[0]), pair[0].notes.device), pair) for pair in good]

    def rank(pair: Pair) -> tuple[bool, bool, float]:
        notes = pair[0].notes
        outranked = not notes.confirmed and pair[1].timestamp <= since.get(notes.device, -1.0)
        return not notes.checked, outranked, mean_cost(pair[1]) * (1 - notes.margin)

    return min(good, key=rank, default=None)


def _program(inp: MeasureInput) -> tuple[Workload, Config]:
    """Return the identity of a configuration, with its workload: rival strategies may have equal choices."""
    return inp.task.workload, inp.config


def by_target(inp: MeasureInput) -> tuple[str, Workload]:
    """Return the common key of records that `best_of` compares."""
    return str(inp.target), inp.task.workload
