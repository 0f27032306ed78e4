"""Statistics of a log's sessions: progress, failures by cause, the effect of each knob, and time by phase."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...measure.outcome import MeasureErrorNo
from ..space.choices import Choice
from ..space.config import Config
from ..task import Workload
from .best import best_of
from .failure_kinds import gist, kind_of
from .format import MeasureInput, Pair, mean_cost
from .history import applies

_PAUSE_SECONDS = 300.0
"""The seconds between two records, beyond the time of the second, that separate sessions."""
_MOST_CAUSES = 12
_MOST_CHOICES = 6


@dataclass(frozen=True)
class Point:
    """An improvement: the number of the trial, the seconds since the start, the best cost, and the predicted cost."""

    trial: int
    seconds: float
    cost: float
    predicted: float = 0.0


@dataclass(frozen=True)
class Cause:
    """A cause of failures: the count, the first reason in full, and the schedule steps most often at fault."""

    kind: str
    count: int
    example: str
    steps: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class ChoiceInsight:
    """A choice of a knob: the number of its measurements, and their least and median seconds."""

    shown: str
    count: int
    best: float
    median: float


@dataclass(frozen=True)
class KnobInsight:
    """A knob: the share of the variance of log(time) that it explains, its number of choices, and its best choices."""

    name: str
    worth: float
    number: int
    choices: tuple[ChoiceInsight, ...]


@dataclass(frozen=True)
class Insight:
    """Statistics of one workload on one target and device. Costs and times are seconds."""

    workload: Workload
    target: str
    device: str
    trials: int
    seconds: float
    counts: dict[str, int]
    spent: dict[str, float]
    points: tuple[Point, ...]
    causes: tuple[Cause, ...]
    knobs: tuple[KnobInsight, ...]
    winner: Pair | None
    runner_up: Pair | None
    flop: float


def insights(pairs: Iterable[Pair]) -> list[Insight]:
    """Return the statistics of each workload on each target and device, in order of appearance."""
    groups: dict[tuple[Workload, str, str], list[Pair]] = {}
    for pair in pairs:
        inp = pair[0]
        groups.setdefault((inp.task.workload, str(inp.target), inp.notes.device), []).append(pair)
    return [_insight(*key, own) for key, own in groups.items()]


def _insight(workload: Workload, target: str, device: str, pairs: list[Pair]) -> Insight:
    points, trials, seconds = _progress(pairs)
    counts: Counter[str] = Counter()
    spent: dict[str, float] = {}
    for inp, result in pairs:
        kind = _kind_of_record(inp, result.error_no)
        counts[kind] += 1
        spent[kind] = spent.get(kind, 0.0) + (max(0.0, result.all_cost) if math.isfinite(result.all_cost) else 0.0)
    winner = _best(pairs)
    rest = [pair for pair in pairs if winner is not None and pair[0].config != winner[0].config]
    flop = max((inp.notes.flop for inp, _ in pairs), default=0.0)
    return Insight(
        workload, target, device, trials, seconds, dict(counts), spent, points, _causes(pairs), _knobs(pairs),
        winner, _best(rest), flop,
    )  # fmt: skip


def _kind_of_record(inp: MeasureInput, error_no: int) -> str:
    if inp.notes.confirmed and error_no == MeasureErrorNo.NO_ERROR:
        return "confirmed"
    return kind_of(error_no, inp.notes.refused)


def _best(pairs: Sequence[Pair]) -> Pair | None:
    """Return the best record by the rule of `History`, which all users of a log follow."""
    return best_of([pair for pair in pairs if applies(pair[0].notes, "", lambda _: "")])


def _progress(pairs: Sequence[Pair]) -> tuple[tuple[Point, ...], int, float]:
    """Return the improvements, the number of trials, and the total seconds of all sessions."""
    points: list[Point] = []
    trials, elapsed = 0, 0.0
    before: float | None = None
    for inp, result in pairs:
        own = result.all_cost if math.isfinite(result.all_cost) else 0.0
        gap = own if before is None else result.timestamp - before
        elapsed += max(0.0, gap if gap <= own + _PAUSE_SECONDS else own)
        before = result.timestamp
        if inp.notes.refused or inp.notes.confirmed:
            continue
        trials += 1
        if result.error_no == MeasureErrorNo.NO_ERROR:
            cost = mean_cost(result)
            if not points or cost < points[-1].cost:
                points.append(Point(trials, elapsed, cost, inp.notes.predicted))
    return tuple(points), trials, elapsed


def _causes(pairs: Sequence[Pair]) -> tuple[Cause, ...]:
    """Return the causes of failures, the most frequent first; reasons that differ only in numbers are one cause."""
    groups: dict[tuple[str, str], list[MeasureInput]] = {}
    for inp, result in pairs:
        if result.error_no != MeasureErrorNo.NO_ERROR:
            groups.setdefault((_kind_of_record(inp, result.error_no), gist(inp.notes.reason)), []).append(inp)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    causes = []
    for (kind, _), own in ordered[:_MOST_CAUSES]:
        steps = Counter(inp.notes.step for inp in own if inp.notes.step)
        causes.append(Cause(kind, len(own), own[0].notes.reason, tuple(steps.most_common(2))))
    rest = sum(len(own) for _, own in ordered[_MOST_CAUSES:])
    return (*causes, *([Cause("others", rest, "")] if rest else []))


def _knobs(pairs: Sequence[Pair]) -> tuple[KnobInsight, ...]:
    """Return the knobs that take more than one value, the most influential first."""
    last: dict[Any, tuple[Config, float]] = {}
    for inp, result in pairs:
        if result.error_no == MeasureErrorNo.NO_ERROR:  # hashing an index is fast
            config = inp.config
            last[config if config.index is None else config.index] = config, mean_cost(result)
    same: dict[str, dict[int, tuple[Choice, list[float]]]] = {}
    for config, cost in last.values():
        for name, choice in config.items():  # most choices are the same objects, and comparing identities is faster
            own = same.setdefault(name, {})
            if (known := own.get(id(choice))) is None:
                own[id(choice)] = known = (choice, [])
            known[1].append(cost)
    groups: dict[str, dict[Choice, list[float]]] = {}
    for name, own in same.items():
        for choice, costs in own.values():
            groups.setdefault(name, {}).setdefault(choice, []).extend(costs)
    found = [_knob(name, choices) for name, choices in groups.items() if len(choices) > 1]
    return tuple(sorted(found, key=lambda knob: -knob.worth))


def _knob(name: str, choices: dict[Choice, list[float]]) -> KnobInsight:
    rows = [ChoiceInsight(str(choice), len(costs), min(costs), median(costs)) for choice, costs in choices.items()]
    rows.sort(key=lambda row: row.best)
    return KnobInsight(name, _explained(list(choices.values())), len(rows), tuple(rows[:_MOST_CHOICES]))


def _explained(groups: Sequence[Sequence[float]]) -> float:
    """Return omega squared of log(cost): unlike the plain share of variance, chance does not add to it."""
    logs = [[math.log(cost) for cost in costs] for costs in groups]
    number = sum(map(len, logs))
    mean = sum(map(sum, logs)) / number
    total = sum((x - mean) ** 2 for costs in logs for x in costs)
    between = sum(len(costs) * (sum(costs) / len(costs) - mean) ** 2 for costs in logs)
    if number <= len(logs) or total <= 0:
        return 0.0
    noise = (total - between) / (number - len(logs))
    return max(0.0, (between - (len(logs) - 1) * noise) / (total + noise))
