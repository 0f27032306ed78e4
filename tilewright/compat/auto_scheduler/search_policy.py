"""Searches: the ranked schedule first, then candidates that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...auto import auto_schedule
from .compute_dag import State
from .cost_model import CostModel, RandomModel
from .measure import LocalRunner, MeasureInput, MeasureResult
from .measure_record import load_records


class SearchCallback:
    """Is called before a search; a subclass overrides `callback`."""

    def callback(self, policy: SearchPolicy) -> None:
        """Change the policy."""
        raise NotImplementedError


class PreloadMeasuredStates(SearchCallback):
    """Reads measurements from a file; the search does not repeat them."""

    def __init__(self, filename: Any) -> None:
        self.filename = str(filename)

    def callback(self, policy: SearchPolicy) -> None:
        """Read the measurements of the policy's task."""
        for given, result in load_records(self.filename):
            if given.task.workload_key == policy.task.workload_key:
                policy.measured[given.state] = result


class SearchPolicy:
    """A search of schedules of a task."""

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = task
        self.measured: dict[State, MeasureResult] = {}
        for callback in init_search_callbacks or ():
            callback.callback(self)

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return the schedules that rules make, as states."""
        states = [self.scheduled(0)]
        if print_for_debug:
            print(*states, sep="\n")
        return states

    def scheduled(self, trials: int) -> State:
        """The schedule of `tw.auto_schedule` after some trials."""
        s = auto_schedule(self.task.compute_dag.tensors, self.task.target, trials=trials)
        return State(self.task.compute_dag, s.recorded)

    def candidates(self, trials: int) -> list[State]:
        """The schedules to measure."""
        return [self.scheduled(0)]

    def search(
        self, num_measure_trials: int, runner: LocalRunner, callbacks: Sequence[Any] = (), verbose: int = 1
    ) -> State:
        """Measure schedules that have not been measured, call the callbacks, and return the fastest schedule."""
        flop = self.task.compute_dag.flop_ct
        for state in self.candidates(num_measure_trials):
            if state in self.measured:
                continue
            given = MeasureInput(self.task, state)
            result = self.measured[state] = runner.run(given)
            for callback in callbacks:
                callback.callback(self, [given], [result])
            if verbose:
                speed = f"{flop / result.mean / 1e9:.2f}" if not result.error_no else "0.00"
                print(f"No: {len(self.measured)}\tGFLOPS: {speed}\tresults: {result}", flush=True)
        return min(self.measured, key=lambda state: self.measured[state].mean)


class EmptyPolicy(SearchPolicy):
    """Measures the computation without a step."""

    def candidates(self, trials: int) -> list[State]:
        return [self.task.compute_dag.init_state]


class SketchPolicy(SearchPolicy):
    """Measures the ranked schedule, and the winner of the trials."""

    def __init__(
        self,
        task: Any,
        program_cost_model: CostModel | None = None,
        params: Any = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks)
        self.program_cost_model, self.verbose = program_cost_model or RandomModel(), verbose

    def candidates(self, trials: int) -> list[State]:
        first = self.scheduled(0)
        return [first] if trials < 2 else list(dict.fromkeys([first, self.scheduled(trials - 1)]))
