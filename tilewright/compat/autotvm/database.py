"""Results by measured configuration, kept in memory: the legacy API's `DummyDatabase`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...measure.outcome import MeasureResult
from ...tune.records.format import MeasureInput, measure_str_key


class Database:
    """Keeps results of measurements; `save` and `load` say how."""

    def load(self, inp: MeasureInput, get_all: bool = False) -> MeasureResult | list[MeasureResult] | None:
        """Return the last result of an input, or with `get_all` the list of all; None if there is none."""
        raise NotImplementedError

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Store a result in place of earlier ones, or with `extend` after them."""
        raise NotImplementedError


class DummyDatabase(Database):
    """A database that ends with the process. `callback.log_to_file` keeps results in a file."""

    def __init__(self) -> None:
        self._kept: dict[str, list[MeasureResult]] = {}
        self._inputs: dict[str, MeasureInput] = {}

    def load(self, inp: MeasureInput, get_all: bool = False) -> MeasureResult | list[MeasureResult] | None:
        kept = self._kept.get(measure_str_key(inp))
        if kept is None:
            return None
        return list(kept) if get_all else kept[-1]

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        if not isinstance(res, MeasureResult):
            raise UserError(f"{res!r} is not a result", primitive="database.save", fix="give a MeasureResult")
        key = measure_str_key(inp)
        self._inputs[key] = inp
        self._kept[key] = [*self._kept.get(key, ()), res] if extend else [res]

    def filter(
        self, func: Callable[[MeasureInput, list[MeasureResult]], Any]
    ) -> list[tuple[MeasureInput, MeasureResult]]:
        """Return the inputs for which `func(input, results)` is true, each with its latest result."""
        if not callable(func):
            raise UserError(
                f"{func!r} is not a function", primitive="database.filter", fix="give one of an input and its results"
            )
        kept = [(self._inputs[key], list(results)) for key, results in self._kept.items()]
        return [(inp, max(results, key=lambda one: one.timestamp)) for inp, results in kept if func(inp, results)]

    def flush(self) -> None:
        """Forget all results."""
        self._kept.clear()
        self._inputs.clear()


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
