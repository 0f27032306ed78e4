"""The best that is known for a workload on a target, from the measurements of logs.

A measurement whose output nobody compared with a reference counts only if there is no other. A measurement that names
no device counts for all targets with matching keys, as in the legacy API. One that names another device than the one at
hand, or another compiler, is left to the search as advice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from ...core.target import Target
from ...measure.outcome import MeasureErrorNo
from ...runtime.device import device
from ..task import Workload
from .best import best_of, by_target
from .format import COMPILER, Notes, Pair

Key = tuple[str, Workload]


def model_of(target: Target) -> str:
    """The model that a target names; "unknown" if it names none."""
    return dict(target.labels).get("model", "unknown")


@functools.cache
def device_name(kind: str) -> str:
    """The name of the device of that kind that programs run on here; empty if there is none."""
    found = device(kind)
    return found.name if found.exist else ""


def applies(notes: Notes, kind: str, name_of: Callable[[str], str] = device_name) -> bool:
    """Whether a measurement holds for this compiler and the device of `kind`; one that names neither holds for all."""
    if notes.compiler and notes.compiler != COMPILER:
        return False
    if not notes.device:
        return True
    here = name_of(kind)
    return not here or notes.device == here


class History:
    """The best measurement of each workload, by the keys of its target and by its model."""

    def __init__(self, records: Iterable[Pair] = (), name_of: Callable[[str], str] = device_name) -> None:
        self.best_by_targetkey: dict[Key, Pair] = {}
        self.best_by_model: dict[Key, Pair] = {}
        self.foreign = 0
        """Number of measurements left out because another device or compiler made them."""
        self._name_of = name_of
        self._known: dict[tuple[str, Workload], list[Pair]] = {}
        self._best: dict[tuple[str, Workload], Pair] = {}
        self.add(records)

    def add(self, records: Iterable[Pair]) -> None:
        """Take in measurements; `best_of` says which is the best of a workload on a target."""
        touched: dict[tuple[str, Workload], None] = {}
        for inp, result in records:
            if result.error_no not in (MeasureErrorNo.NO_ERROR, MeasureErrorNo.WRONG_ANSWER):
                continue
            if result.error_no == MeasureErrorNo.NO_ERROR and not applies(
                inp.notes, str(inp.target.kind), self._name_of
            ):
                self.foreign += 1
                continue
            key = by_target(inp)
            self._known.setdefault(key, []).append((inp, result))
            touched[key] = None
        for key in touched:
            best = best_of(self._known[key])
            self._best.pop(key, None)
            if best is not None:
                self._best[key] = best
        self.best_by_targetkey.clear()
        self.best_by_model.clear()
        for best in self._best.values():
            self._consider(best)

    def _consider(self, pair: Pair) -> None:
        inp, _ = pair
        keys = [(self.best_by_targetkey, (key, inp.task.workload)) for key in inp.target.keys]
        if model_of(inp.target) != "unknown":
            keys.append((self.best_by_model, (model_of(inp.target), inp.task.workload)))
        for table, key in keys:
            table[key] = best_of([*filter(None, [table.get(key)]), pair]) or pair

    def best(self, target: Target, workload: Workload) -> Pair | None:
        """The best measurement for a workload: of the target's model if that is known, else of its keys.

        One that names its device is not for a target of another kind, though both may have the key "gpu".
        """
        known = [self.best_by_model.get((model_of(target), workload))]
        known += [self.best_by_targetkey.get((key, workload)) for key in target.keys]
        fits = [
            pair for pair in known
            if pair is not None and (not pair[0].notes.device or pair[0].target.kind == target.kind)
        ]  # fmt: skip
        return next((pair for pair in fits if pair[0].notes.checked), fits[0] if fits else None)

    def pairs(self) -> list[Pair]:
        """The best measurements, each once."""
        seen: dict[int, Pair] = {}
        for pair in (*self.best_by_model.values(), *self.best_by_targetkey.values()):
            seen[id(pair)] = pair
        return list(seen.values())
