"""The legacy model of gradient-boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..loop_state import State
from ..measure_record import save_records
from .cost_model import PythonBasedModel


class XGBModel(PythonBasedModel):
    """The legacy model of gradient-boosted trees. Here it knows the relative throughput of measured states.

    Other states have the mean score.
    """

    def predict(self, task: Any, states: Sequence[State]) -> list[float]:
        pairs = zip(self.inputs, self.results, strict=True)
        costs = {given.state: result.mean for given, result in pairs if given.task.workload_key == task.workload_key}
        scores = {state: min(costs.values()) / cost for state, cost in costs.items()}
        mean = sum(scores.values()) / len(scores) if scores else 0.0
        return [scores.get(state, mean) for state in states]

    def save(self, file_name: Any) -> None:
        """Write the measurements to a file."""
        Path(file_name).unlink(missing_ok=True)
        save_records(file_name, self.inputs, self.results)

    def load(self, file_name: Any) -> None:
        """Read the measurements of a file."""
        self.inputs, self.results = [], []
        self.update_from_file(file_name)
