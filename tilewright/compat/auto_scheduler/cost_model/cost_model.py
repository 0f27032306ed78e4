"""Cost models under the legacy names. The machine model ranks candidates; none of these is trained."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..loop_state import State
from ..measure import MeasureInput, MeasureResult
from ..measure_record import load_records


class CostModel:
    """Keeps the measurements passed to it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.inputs: list[MeasureInput] = []
        self.results: list[MeasureResult] = []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Add measurements."""
        self.inputs += inputs
        self.results += results

    def update_from_file(self, file_name: Any, n_lines: int | None = None) -> None:
        """Add the measurements of a file."""
        for given, result in list(load_records(file_name))[:n_lines]:
            self.update([given], [result])

    def predict(self, task: Any, states: Sequence[State]) -> list[float]:
        """Return a score of each state; a higher score is better."""
        raise NotImplementedError


class RandomModel(CostModel):
    """The legacy model of random scores."""

    def predict(self, task: Any, states: Sequence[State]) -> list[float]:
        return [random.random() for _ in states]


class PythonBasedModel(CostModel):
    """The legacy base class of models in Python."""
