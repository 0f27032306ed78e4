"""The legacy module of the parts of a measurement: inputs, results, and the base classes of scripts' own runners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....core.errors import UserError
from ....core.refusals import old_name as _old_name
from ....measure.job import Job
from ....measure.option import builder_and_runner
from ....measure.option import measure_option as measure_option
from ....measure.outcome import MeasureErrorNo as MeasureErrorNo
from ....measure.outcome import MeasureResult as MeasureResult
from ....measure.outcome import to_result
from ....measure.own_runner_api import BuildResult as BuildResult
from ....measure.own_runner_api import Runner as Runner
from ....tune.records.format import MeasureInput as MeasureInput
from ....tune.session.measurers import open_session
from ....tune.task import Candidate, Task


class MeasureBatch:
    """Measures lists of inputs of one task; `n_parallel` is how many are built at a time."""

    def __init__(self, task: Task, option: Any) -> None:
        builder, runner = builder_and_runner(option)
        self.n_parallel = builder.processes
        self._session = open_session(task.target, builder, runner)

    def __call__(self, measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        """Build and run configurations; returns the result of each, in their order."""
        given = list(measure_inputs)
        if not all(isinstance(inp, MeasureInput) for inp in given):
            raise UserError(
                "the measurements are not inputs", primitive="create_measure_batch", fix="give a list of MeasureInput"
            )
        target = self._session.target
        jobs = [
            Job(Candidate(inp.task, inp.config), number, target, inp.task.declared.reference)
            for number, inp in enumerate(given)
        ]
        found = {job.key: to_result(outcome) for job, outcome in self._session.measure(jobs)}
        return [found[number] for number in range(len(given))]

    def close(self) -> None:
        """End the measuring session."""
        self._session.close()


def create_measure_batch(task: Task, option: Any) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """Return a function that measures lists of inputs of a task.

    Parameters
    ----------
    task : Task
        The task of the configurations.
    option
        The result of `measure_option`.

    Returns
    -------
    callable
        From a list of `MeasureInput` to a list of `MeasureResult`. Its `n_parallel` is how many candidates are built at
        a time; `close()` ends the processes behind it.
    """
    return MeasureBatch(task, option)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
