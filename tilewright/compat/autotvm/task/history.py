"""apply_history_best: the best configuration in logs for each query."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from ....core.errors import UserError
from ....core.log import logger
from ....core.target import Target
from ....tune.records.format import MeasureInput, Pair, mean_cost
from ....tune.records.history import History, model_of
from ....tune.records.log import load_from_buffer, load_from_file
from ....tune.task import freeze
from .contexts import DispatchContext


class ApplyHistoryBest(DispatchContext):
    """The best configurations of logs: files, open files, lists of (MeasureInput, MeasureResult), or lists of these.

    The better one of two logs' records wins; `update` overrules both.
    """

    def __init__(self, records: Any) -> None:
        self.history = History()
        self._given: dict[tuple[str, Any], Any] = {}
        self._doubted: set[Any] = set()
        if records is not None:
            self.load(records)

    @property
    def best_by_targetkey(self) -> dict[tuple[str, Any], Pair]:
        """The best measurement by (target key, workload)."""
        return self.history.best_by_targetkey

    @property
    def best_by_model(self) -> dict[tuple[str, Any], Pair]:
        """The best measurement by (model, workload)."""
        return self.history.best_by_model

    def __repr__(self) -> str:
        return f"ApplyHistoryBest({len(self.best_by_targetkey) + len(self._given)} best configurations)"

    def load(self, records: Any) -> None:
        """Take in more measurements."""
        pairs = list(_unpacked(records))
        before = self.history.foreign
        self.history.add(pairs)
        if self.history.foreign > before:
            logger.warning(
                "%d of %d measurements were made by another device or compiler and are not applied: give their log "
                "to tuner.load_history",
                self.history.foreign - before,
                len(pairs),
            )
        logger.debug("Finish loading %d records", len(pairs))

    def _query_inside(self, target: Target | None, workload: Any) -> Any:
        if target is None:
            raise UserError(
                "no current target to find the best configuration for",
                primitive="apply_history_best",
                fix='call the template inside `with target.Target("cuda"):`',
            )
        target, workload = Target.parse(target), freeze(workload)
        given = self._given_for(target, workload)
        if given is not None:
            return given
        found = self.history.best(target, workload)
        if found is None:
            return None
        if not found[0].notes.checked and workload not in self._doubted:
            self._doubted.add(workload)
            logger.warning(
                "The best configuration for %s was measured without comparing its output with a reference, and may "
                "compute something else. Check its result, or tune again.",
                workload,
            )
        return found[0].config

    def _given_for(self, target: Target, workload: Any) -> Any:
        keys = (model_of(target), *target.keys)
        return next((self._given[key, workload] for key in keys if (key, workload) in self._given), None)

    def _rank_inside(self, target: Target | None, workload: Any) -> tuple[bool, float] | None:
        if target is None:
            return super()._rank_inside(target, workload)
        target, workload = Target.parse(target), freeze(workload)
        if self._given_for(target, workload) is not None:
            return False, 0.0
        found = self.history.best(target, workload)
        return None if found is None else (not found[0].notes.checked, mean_cost(found[1]))

    def update(self, target: Target | None, workload: Any, cfg: Any) -> None:
        if target is not None:
            target, workload = Target.parse(target), freeze(workload)
            self._given.update({(key, workload): cfg for key in (model_of(target), *target.keys)})


def _unpacked(records: Any) -> Iterator[Pair]:
    if isinstance(records, (str, bytes, os.PathLike)):
        yield from load_from_file(records)
    elif hasattr(records, "read"):
        yield from load_from_buffer(records)
    elif isinstance(records, tuple) and len(records) == 2 and isinstance(records[0], MeasureInput):
        yield records
    elif not isinstance(records, Iterable) or getattr(records, "ndim", 1) == 0:
        raise UserError(
            f"{records!r} is not a log",
            primitive="apply_history_best",
            fix="give the name of a log file, an open one, or a list of (MeasureInput, MeasureResult)",
        )
    else:
        for part in records:
            yield from _unpacked(part)
