"""Searches: the ranked schedule first, then candidates that are measured.

Candidates of `tw.auto_schedule` go through the campaign of every search. The states of a script's own rules are in no
space, and a script's own runner measures nothing else: `SearchPolicy.search` has a loop for these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import zip_longest
from typing import Any

from ...auto import auto_schedule
from ...auto.program import AutomaticProgram, AutomaticTemplate, unfit
from ...auto.schedule import arguments
from ...auto.search import search_of
from ...core.errors import UserError
from ...measure.outcome import Measured, Outcome, RunFailed
from ...tune.records.format import Notes, decode, encode
from ...tune.session.trials import Trial
from ...tune.session.turns import measure_in_turns
from ...tune.space.space import Space
from .cost_model import CostModel, RandomModel
from .loop_state import State
from .measure import BuildResult, LocalBuilder, LocalRunner, MeasureInput, MeasureResult, RPCRunner
from .measure_record import best_pair, load_records
from .sketch import filled

_CONFIRMED = 3
"""The fastest states that are measured again at the end."""
_GENERATIONS = 4
"""The generations of an evolutionary search, as in the legacy API."""
_SAMPLES = 50
"""Random configurations of each way in an initial population."""


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


class PreloadCustomSketchRule(SearchCallback):
    """A rule of the script's own that makes sketches.

    `meet_condition_func(policy, state, stage_id)` returns `PASS`, `APPLY` or `APPLY_AND_SKIP_REST`.
    `apply_func(policy, state, stage_id)` returns pairs of a state and the next stage, -1 if there is none.
    """

    PASS, APPLY, APPLY_AND_SKIP_REST = range(3)

    def __init__(self, meet_condition_func: Any, apply_func: Any, rule_name: str = "CustomSketchRule") -> None:
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name

    def callback(self, policy: SearchPolicy) -> None:
        """Add the rule to the policy."""
        policy.rules.append(self)


class SearchPolicy:
    """A search of schedules of a task."""

    def __init__(self, task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.task = self.search_task = task
        self.measured: dict[State, MeasureResult] = {}
        self._inputs: dict[State, MeasureInput] = {}
        self.rules: list[PreloadCustomSketchRule] = []
        self.verbose, self.count = 1, 0
        """Whether results are printed, and the number of measurements so far."""
        self.records: list[str] = []
        """The lines of `tw.auto_schedule`'s log for measurements, from which the next search resumes."""
        for callback in init_search_callbacks or ():
            callback.callback(self)

    def set_verbose(self, verbose: int) -> None:
        """Set whether searches of this policy print their results."""
        self.verbose = verbose

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return the schedules of rules as states: of the script's own rules, if it has such rules."""
        states = self._sketches_of_rules() or self._sketches()
        if print_for_debug:
            print(*states, sep="\n")
        return states

    def _sketches(self) -> list[State]:
        return [self.scheduled(0)]

    def _sketches_of_rules(self) -> list[State]:
        """The states that the script's own rules make, from the last stage to the first."""
        dag = self.task.compute_dag
        open_states, found = [(dag.init_state, len(dag.ops) - 1)] if self.rules else [], list[State]()
        while open_states:
            state, stage = open_states.pop(0)
            if stage < 0:
                found += [state] if state.transform_steps or state not in found else []
                continue
            passed = True
            for rule in self.rules:
                answer = rule.meet_condition_func(self, state, stage)
                if answer != rule.PASS:
                    passed = False
                    open_states += [(State(each, dag), next_) for each, next_ in rule.apply_func(self, state, stage)]
                if answer == rule.APPLY_AND_SKIP_REST:
                    break
            if passed:
                open_states.append((state, stage - 1))
        return found

    def scheduled(self, trials: int) -> State:
        """The schedule of `tw.auto_schedule` after some trials."""
        s = auto_schedule(self.task.compute_dag.tensors, self.task.target, trials=trials)
        return State(s.recorded, self.task.compute_dag)

    def candidates(self) -> list[State]:
        """The schedules to measure; the last one is the schedule without measurements."""
        sketches = self._sketches_of_rules()
        each = [filled(sketch, self.task.target, -(-_SAMPLES // len(sketches))) for sketch in sketches]
        in_turns = [state for states in zip_longest(*each) for state in states if state is not None]
        return [*in_turns, self.scheduled(0)]

    def search(
        self,
        num_measure_trials: int,
        runner: LocalRunner,
        callbacks: Sequence[Any] = (),
        verbose: int = 1,
        early_stopping: int | None = None,
    ) -> State:
        """Measure schedules that have not been measured, call the callbacks, and return the fastest schedule.

        The fastest ones are measured again at the end, in turns with the schedule that the search began with.
        """
        candidates = self.candidates()
        first = self.best if self.measured else candidates[-1]
        fresh = [each for each in candidates if each not in self.measured][:num_measure_trials]
        builds: dict[State, list[BuildResult]] = {}

        def measure(state: State) -> MeasureResult:
            given = MeasureInput(self.task, state)
            if state not in builds:
                builds[state] = LocalBuilder().build([given])
            (result,) = runner.run([given], builds[state])
            return result

        for state in fresh:
            self.hear(MeasureInput(self.task, state), measure(state), callbacks, verbose)
        if fresh:
            self._confirm(first, measure, callbacks, verbose)
        return self.best

    def _confirm(
        self, first: State, measure: Callable[[State], MeasureResult], callbacks: Sequence[Any], verbose: int
    ) -> None:
        """Measure the fastest states again, in turns with the `first` state, which stays unless another is faster."""
        running = sorted((s for s, r in self.measured.items() if not r.error_no), key=lambda s: self.measured[s].mean)
        rivals = list(dict.fromkeys([*running[:_CONFIRMED], first]))
        results: dict[State, MeasureResult] = {}

        def measured(turn: Sequence[State]) -> Iterator[tuple[State, Outcome]]:
            for state in turn:
                found = measure(state)
                results.setdefault(state, found)
                if found.error_no:
                    results[state] = found
                    yield state, RunFailed(reason=found.error_msg)
                else:
                    results[state] = min(results[state], found, key=lambda each: each.mean)
                    yield state, Measured(costs=tuple(map(float, found.costs)))

        if len(rivals) < 2:
            return
        turns = measure_in_turns(rivals, measured, {})
        for state in rivals:
            notes = Notes(confirmed=True, margin=turns.margin(first) if state == first else 0.0)
            self.hear(MeasureInput(self.task, state, json.dumps(notes.written())), results[state], callbacks, verbose)

    @property
    def best(self) -> State:
        """The best measured state."""
        found = best_pair([(self._inputs[state], result) for state, result in self.measured.items()])
        return next(iter(self.measured)) if found is None else found[0].state

    def keep(self, given: MeasureInput, result: MeasureResult) -> None:
        """Keep a measurement, which is not repeated."""
        self.measured[given.state], self._inputs[given.state] = result, given
        if '"input"' in given.record:
            self.records.append(given.record)

    def hear(self, given: MeasureInput, result: MeasureResult, callbacks: Sequence[Any], verbose: int) -> None:
        """Keep a measurement, and hand it to the callbacks."""
        self.keep(given, result)
        self.count += 1
        for callback in callbacks:
            callback.callback(self, [given], [result])
        if verbose and self.verbose:
            flop = self.task.compute_dag.flop_ct
            speed = f"{flop / result.mean / 1e9:.2f}" if not result.error_no else "0.00"
            print(f"No: {self.count}\tGFLOPS: {speed}\tresults: {result}", flush=True)


class EmptyPolicy(SearchPolicy):
    """Measures the computation without a step."""

    def candidates(self) -> list[State]:
        return [self.task.compute_dag.init_state]


class SketchPolicy(SearchPolicy):
    """Measures the ranked schedule and the candidates of `tw.auto_schedule`.

    The fastest ones are measured again at the end. If the script has rules or a runner of its own, only the states of
    its rules and the ranked schedule are measured.
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
        self._places: dict[State, tuple[int, int]] = {}
        """The number of the way and the index of the configuration that a state comes from."""

    @cached_property
    def _program(self) -> AutomaticProgram:
        return AutomaticProgram(self.task.compute_dag.stored, self.task.target)

    @property
    def _has_choices(self) -> bool:
        return any(way.space.knobs for ways in self._program.ways for way in ways)

    def _sketches(self) -> list[State]:
        """The ranked schedule, and the default configurations of the other ways to schedule the task."""
        program, found = self._program, dict.fromkeys(super()._sketches())
        for ways in program.alternatives()[1:]:
            with suppress(UserError):
                s = program.schedule(ways)
                if not unfit(s, program.target):
                    found[State(s.recorded, self.task.compute_dag)] = None
        return list(found)

    def sample_initial_population(self) -> list[State]:
        """Return the states of random configurations of each way to schedule the task."""
        found: dict[State, None] = {}
        for way, (_, space) in enumerate(self._spaces):
            if len(space) > 4 * _SAMPLES:
                places = space.sample_ints(_SAMPLES)
            else:
                places = [i for i in range(space.range_length if space.knobs else 0) if space.is_index_valid(i)]
            for index in places[:_SAMPLES]:
                if (state := self._state(way, index)) is not None:
                    found[state] = None
        return list(found) or [self.scheduled(0)]

    @cached_property
    def _spaces(self) -> list[tuple[AutomaticTemplate, Space]]:
        """The template and the space of each way to schedule the task."""
        dag, program = self.task.compute_dag, self._program
        args = arguments(dag.tensors, dag.stored)
        templates = [AutomaticTemplate(program, ways, args) for ways in program.alternatives()]
        return [(template, template.declare((), program.target).space) for template in templates]

    def _state(self, way: int, index: int) -> State | None:
        """The state of a configuration; None if it has no schedule."""
        template, space = self._spaces[way]
        with suppress(UserError):
            state = State(template.instantiate(space.get(index), (), None)[0].recorded, self.task.compute_dag)
            self._places[state] = way, index
            return state
        return None

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """Return the states with the highest scores of the policy's cost model, after some generations.

        The children of a state differ from it in one choice of its configuration. States of `sample_initial_population`
        and their children have children; others, such as states of a script, only compete.
        """
        population = list(dict.fromkeys(init_populations))
        for _ in range(_GENERATIONS):
            population = self._fittest(population, max(out_size, len(init_populations)))
            parents = [self._places[state] for state in population if state in self._places]
            children = [self._state(way, self._spaces[way][1].random_walk(index)) for way, index in parents]
            population = list(dict.fromkeys([*population, *filter(None, children)]))
        return self._fittest(population, out_size)

    def _fittest(self, states: Sequence[State], count: int) -> list[State]:
        scores = self.program_cost_model.predict(self.task, states) if states else []
        return [states[i] for i in sorted(range(len(states)), key=lambda i: -float(scores[i]))[:count]]

    def search(
        self,
        num_measure_trials: int,
        runner: LocalRunner,
        callbacks: Sequence[Any] = (),
        verbose: int = 1,
        early_stopping: int | None = None,
    ) -> State:
        dag, inputs, program = self.task.compute_dag, self.task.task_inputs, self._program
        is_remote = type(runner) is RPCRunner
        is_own = bool(self.rules) or not (is_remote or type(runner).run is LocalRunner.run)
        is_one = not self._has_choices or (num_measure_trials < 2 and not self.measured)
        if is_own or (is_one and not is_remote):
            return super().search(num_measure_trials, runner, callbacks, verbose)
        args = arguments(dag.tensors, dag.stored)

        def heard(trial: Trial) -> None:
            if trial.number or trial.input.notes.confirmed:
                state = State(trial.input.task.instantiate(trial.input.config)[0].recorded, dag)
                given = MeasureInput(self.task, state, encode(trial.input, trial.result))
                costs, error, *times = trial.result
                reason = trial.input.notes.reason
                self.hear(given, MeasureResult(() if error else costs, error, reason, *times), callbacks, verbose)

        known = [decode(record) for record in self.records]
        trials = num_measure_trials + sum(not given.notes.confirmed for given, _ in known)
        search_of(program, args, trials, None, None, runner.options(args, inputs), known, [heard], early_stopping)
        return self.best
