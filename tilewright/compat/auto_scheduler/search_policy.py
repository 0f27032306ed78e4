"""Searches: the ranked schedule first, then candidates that are measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...auto import auto_schedule
from ...auto.program import AutomaticProgram
from ...auto.schedule import arguments
from ...auto.search import search_of
from ...tune.records.format import decode, encode
from ...tune.session.trials import Trial
from .cost_model import CostModel, RandomModel
from .loop_state import State
from .measure import LocalBuilder, LocalRunner, MeasureInput, MeasureResult
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
                policy.keep(given, result)


class SearchPolicy:
    """A search of schedules of a task."""

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = task
        self.measured: dict[State, MeasureResult] = {}
        self.records: list[str] = []
        """The lines of `tw.auto_schedule`'s log for measurements, from which the next search resumes."""
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
        return State(s.recorded, self.task.compute_dag)

    def candidates(self, trials: int) -> list[State]:
        """The schedules to measure."""
        return [self.scheduled(0)]

    def search(
        self, num_measure_trials: int, runner: LocalRunner, callbacks: Sequence[Any] = (), verbose: int = 1
    ) -> State:
        """Measure schedules that have not been measured, call the callbacks, and return the fastest schedule."""
        for state in self.candidates(num_measure_trials):
            if state not in self.measured:
                given = MeasureInput(self.task, state)
                (result,) = runner.run([given], LocalBuilder().build([given]))
                self.hear(given, result, callbacks, verbose)
        return min(self.measured, key=lambda state: self.measured[state].mean)

    def keep(self, given: MeasureInput, result: MeasureResult) -> None:
        """Keep a measurement, which is not repeated."""
        self.measured[given.state] = result
        if given.record:
            self.records.append(given.record)

    def hear(self, given: MeasureInput, result: MeasureResult, callbacks: Sequence[Any], verbose: int) -> None:
        """Keep a measurement, and hand it to the callbacks."""
        self.keep(given, result)
        for callback in callbacks:
            callback.callback(self, [given], [result])
        if verbose:
            flop = self.task.compute_dag.flop_ct
            speed = f"{flop / result.mean / 1e9:.2f}" if not result.error_no else "0.00"
            print(f"No: {len(self.measured)}\tGFLOPS: {speed}\tresults: {result}", flush=True)


class EmptyPolicy(SearchPolicy):
    """Measures the computation without a step."""

    def candidates(self, trials: int) -> list[State]:
        return [self.task.compute_dag.init_state]


class SketchPolicy(SearchPolicy):
    """Measures the ranked schedule and the candidates of `tw.auto_schedule`.

    The fastest ones are measured again at the end. A runner of the script's own measures the ranked schedule only.
    """

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

    def search(
        self, num_measure_trials: int, runner: LocalRunner, callbacks: Sequence[Any] = (), verbose: int = 1
    ) -> State:
        dag, inputs = self.task.compute_dag, self.task.task_inputs
        program = AutomaticProgram(dag.outputs, self.task.target)
        has_choices = any(way.space.knobs for ways in program.ways for way in ways)
        if num_measure_trials < 2 or not has_choices or type(runner).run is not LocalRunner.run:
            return super().search(num_measure_trials, runner, callbacks, verbose)
        args = arguments(dag.tensors, dag.outputs)

        def heard(trial: Trial) -> None:
            if trial.number or trial.input.notes.confirmed:
                state = State(trial.input.task.instantiate(trial.input.config)[0].recorded, dag)
                given = MeasureInput(self.task, state, encode(trial.input, trial.result))
                costs, error, *times = trial.result
                reason = trial.input.notes.reason
                self.hear(given, MeasureResult(() if error else costs, error, reason, *times), callbacks, verbose)

        known = [decode(record) for record in self.records]
        trials = num_measure_trials + sum(not given.notes.confirmed for given, _ in known)
        search_of(program, args, trials, None, None, runner.options(args, inputs), known, [heard])
        return min(self.measured, key=lambda state: self.measured[state].mean)
