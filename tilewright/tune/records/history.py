"""The best known configuration of a workload on a target, from the measurements of logs.

A measurement without a comparison of its output with a reference counts only if there is no other. A measurement
without a device counts for all targets with matching keys, as in the legacy API. A measurement by another device or
compiler is only advice for searches.
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
    """Return the model of a target; "unknown" if it names none."""
    return dict(target.labels).get("model", "unknown")


@functools.cache
def device_name(kind: str) -> str:
    """Return the name of this machine's device of a kind; empty if there is none."""
    found = device(kind)
    return found.name if found.exist else ""


def applies(notes: Notes, kind: str, name_of: Callable[[str], str] = device_name) -> bool:
    """Return whether a measurement is valid for this compiler and the device of `kind`. Without either name, it is
    valid for all."""
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
        """The number of measurements left out because they are by another device or compiler."""
        self._name_of = name_of
        self._known: dict[tuple[str, Workload], list[Pair]] = {}
        self._best: dict[tuple[str, Workload], Pair] = {}
        self.add(records)

    def add(self, records: Iterable[Pair]) -> None:
        """Add measurements; `best_of` selects the best per workload and target."""
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
        """Return the best measurement for a workload: by the target's model if there is one, else by its keys.

        A measurement with a device is not used for a target of another kind, although both may have the key "gpu".
        """
        known = [self.best_by_model.get((model_of(target), workload))]
        known += [self.best_by_targetkey.get((key, workload)) for key in target.keys]
        fits = [
            pair for pair in known
            if pair is not None and (not pair[0].notes.device or pair[0].target.kind == target.kind)
        ]  # fmt: skip
        return next((pair for pair in fits if pair[0].notes.checked), fits[0] if fits else None)

    def pairs(self) -> list[Pair]:
        """Return the best measurements, each once."""
        seen: dict[int, Pair] = {}
        for pair in (*self.best_by_model.values(), *self.best_by_targetkey.values()):
            seen[id(pair)] = pair
        return list(seen.values())
