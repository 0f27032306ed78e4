"""A session that builds candidates on this host and passes them to a script's own runner."""

from __future__ import annotations

import pickle
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...codegen.abi import ArrayArgument, CompiledProgram
from ...core.errors import UserError
from ...core.own_code import calling
from ...core.target import Target
from ...measure.base_session import BaseSession
from ...measure.build import build, died_building
from ...measure.children import tuner_mark
from ...measure.job import Built, Job
from ...measure.option import LocalBuilder
from ...measure.outcome import Failure, Measured, MeasureErrorNo, MeasureResult, Outcome
from ...measure.own_runner_api import BuildResult, Runner
from ...measure.pool import Died, WorkerPool
from ...measure.watchdog import folder_name
from ...runtime.driver import DeviceAttributes
from ...runtime.module import Module
from ..records.format import MeasureInput
from ..task import Candidate

_WHY = "the runner is the script's own"


class OwnRunnerSession(BaseSession):
    """Measures like `MeasureSession`, but by a script's own `Runner`; a context manager.

    The runner's device is unknown, so records do not name it.
    """

    def __init__(self, target: Any, builder: LocalBuilder, runner: Runner) -> None:
        super().__init__(target, builder)
        self._runner = runner
        self._folder = Path(tempfile.mkdtemp(prefix=folder_name(tuner_mark(), "")))  # the guard removes it, too
        self._count = 0

    def close(self) -> None:
        """Remove the built modules."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def attributes(self) -> DeviceAttributes:
        """No description: the device is unknown."""
        return DeviceAttributes("")

    def _resolved(self, target: Target) -> Target:
        return target

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Build all jobs, then run the built ones; yield each job with its outcome."""
        jobs = list(jobs)
        ready: list[tuple[Job, Built]] = []
        for job, found in self._built(jobs):
            if isinstance(found, Built):
                ready.append((job, found))
            else:
                yield job, found
        if ready:
            results = self._run(ready)
            yield from ((job, _outcome(result)) for (job, _), result in zip(ready, results, strict=True))

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """Measure one batch after the other."""
        for batch in batches:
            yield from self.measure(batch)

    def _built(self, jobs: Sequence[Job]) -> list[tuple[Job, Built | Outcome]]:
        pool = WorkerPool(lambda i: build(jobs[i], self.builder.build_func), self.processes, self.builder.timeout)
        try:
            pool.submit(range(len(jobs)))
            found = dict(pool.results())
        finally:
            pool.close()
        limit = self.builder.timeout
        results = [found[i] for i in range(len(jobs))]
        outcomes = [died_building(got, limit) if isinstance(got, Died) else got for got in results]
        return list(zip(jobs, outcomes, strict=True))

    def _run(self, ready: Sequence[tuple[Job, Built]]) -> list[MeasureResult]:
        inputs = [_input(job) for job, _ in ready]
        self._runner.set_task(inputs[0].task)
        with calling("the runner of measure_option"):
            results = self._runner.run(inputs, [self._result(built) for _, built in ready])
        fits = isinstance(results, (list, tuple)) and len(results) == len(ready)
        if not fits or not all(isinstance(result, MeasureResult) for result in results):
            raise UserError(
                f"{type(self._runner).__name__}.run returns {results!r}",
                primitive="tune",
                fix="return a MeasureResult for each candidate: MeasureResult((seconds,), 0, all_cost, time.time())",
            )
        return results

    def _result(self, built: Built) -> BuildResult:
        """Return a candidate in the runner's form: its module in a file."""
        program: CompiledProgram = pickle.loads(built.program)
        self._count += 1
        path = self._folder / f"candidate{self._count}.tw"
        Module(program).save(path)
        (entry, *_) = program.entries
        arrays = [a for a in entry.arguments if isinstance(a, ArrayArgument)]
        return BuildResult(str(path), tuple((a.shape, a.dtype) for a in arrays), None, built.seconds)


def _input(job: Job) -> MeasureInput:
    candidate: Any = job.instantiate
    if not isinstance(candidate, Candidate):
        raise TypeError(f"a job of {candidate!r}, which is not a candidate of a task")
    return MeasureInput(job.target, candidate.task, candidate.config)


def _outcome(result: MeasureResult) -> Outcome:
    """Return a runner's result as an outcome."""
    when = float(result.timestamp) or time.time()
    if result.error_no == MeasureErrorNo.NO_ERROR:
        costs = tuple(float(cost) for cost in result.costs)
        if not costs or not sum(costs) > 0:
            raise UserError(
                f"a runner's result has the costs {result.costs!r}",
                primitive="tune",
                fix="give the seconds of each repetition",
            )
        return Measured(costs=costs, checked=False, unchecked=_WHY, run_seconds=result.all_cost, timestamp=when)
    return _Reported(
        reason=", ".join(map(str, result.costs)), number=result.error_no, run_seconds=result.all_cost, timestamp=when
    )


@dataclass(frozen=True, kw_only=True)
class _Reported(Failure):
    """A failure that a script's runner reports by an error number."""

    number: int

    @property
    def error_no(self) -> int:
        return self.number
