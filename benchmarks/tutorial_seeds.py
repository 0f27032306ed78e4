"""The tutorial's layer, searched by the default tuner from several seeds: rates after 32, 100 and 500 trials.

    python -m benchmarks.tutorial_seeds --seeds 5 --trials 500 --shared FILE [--seconds 80]

All seeds share one table of measured configurations, FILE, which grows: a configuration that any of them measured is
answered from it. A later call continues after the last one. As in a session of its own, a search learns of the last
eighth of a batch only after it has proposed the next one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import tune_conv2d  # noqa: F401  # defines the template

from benchmarks.tuning import LAYER
from tilewright.core.target import Target
from tilewright.measure.job import Job
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured, Outcome, RunFailed
from tilewright.measure.session import MeasureSession
from tilewright.runtime.driver import DeviceAttributes
from tilewright.tune.search.guided import automatic
from tilewright.tune.session.campaign import Entrant
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.options import SearchOptions
from tilewright.tune.session.trials import Trial
from tilewright.tune.task import Task, freeze

MARKS = (1, 8, 20, 32, 50, 100, 200, 300, 500)
_UNKNOWN = 8
"""The outcome of one in this many configurations of a batch arrives after the next batch was proposed."""


class Shared:
    """Measures configurations that no seed has measured before, and answers the rest from the table."""

    def __init__(self, session: MeasureSession, path: Path, until: float) -> None:
        self.session = session
        self.path = path
        self.until = until
        self.processes = session.processes
        self.known: dict[int, Outcome] = {}
        self.live = 0
        for line in path.read_text().splitlines() if path.exists() else ():
            index, costs = json.loads(line)
            self.known[index] = Measured(costs=tuple(costs)) if costs else RunFailed(reason="it failed before")

    @property
    def attributes(self) -> DeviceAttributes:
        """The description of the device."""
        return self.session.attributes

    @property
    def target(self) -> Target:
        """The device's target."""
        return self.session.target

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Measure jobs anew: confirmations are not answered from the table."""
        return self.session.measure(jobs)

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """Measure the unknown jobs of each batch; the outcomes of the others are known at once."""
        late: list[Job] = []
        for jobs in batches:
            if time.monotonic() > self.until:
                raise KeyboardInterrupt  # the search ends, and keeps its results
            known = [job for job in jobs if _index(job) in self.known]
            unknown = [job for job in jobs if _index(job) not in self.known]
            kept = len(known) // _UNKNOWN
            yield from ((job, self.known[_index(job)]) for job in (*late, *known[: len(known) - kept]))
            late = known[len(known) - kept :]
            for job, outcome in self.session.measure(unknown):
                self._note(_index(job), outcome)
                yield job, outcome
        yield from ((job, self.known[_index(job)]) for job in late)

    def _note(self, index: int, outcome: Outcome) -> None:
        """Add a measurement to the table."""
        self.live += 1
        self.known[index] = outcome
        costs = outcome.costs if isinstance(outcome, Measured) else ()
        with self.path.open("a") as table:
            table.write(json.dumps([index, costs]) + "\n")


def _index(job: Job) -> int:
    """Return the index of a job's configuration; a campaign's keys are (run, index)."""
    return int(job.key[1])


def searched(seed: int, trials: int, task: Task, shared: Shared) -> list[float]:
    """Return the rate after each trial of a search, in GFLOPS."""
    rates: list[float] = []

    def heard(trial: Trial) -> None:
        if trial.number:
            rates.append(trial.flops / 1e9)

    options = SearchOptions(trials=trials, confirm=0)
    LayerSearch([Entrant(task, automatic(task, seed))], shared, options, [heard]).go()
    return np.maximum.accumulate(rates).tolist()


def main() -> None:
    """Search from each seed, and print a line for it; medians at the end."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--shared", type=Path, default=Path("tutorial-seeds.jsonl"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--min-repeat-ms", type=float, default=4)
    given = parser.parse_args()
    runner = LocalRunner(timeout=4, number=1, repeat=3, min_repeat_ms=given.min_repeat_ms, cooldown_interval=0)
    marks = [mark for mark in MARKS if mark <= given.trials]
    print(f"{'seed':>4} {'s':>6} {'live':>5} " + " ".join(f"{mark:>7}" for mark in marks), flush=True)
    curves: list[list[float]] = []
    with MeasureSession("cuda", LocalBuilder(), runner) as session:
        shared = Shared(session, given.shared, time.monotonic() + given.seconds)
        task = Task("examples/conv2d", freeze(LAYER), session.target)
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            began, shared.live = time.monotonic(), 0
            curve = searched(seed, given.trials, task, shared)
            curves.append(curve)
            figures = " ".join(f"{curve[mark - 1]:7.0f}" if mark <= len(curve) else f"{'-':>7}" for mark in marks)
            print(f"{seed:4} {time.monotonic() - began:6.1f} {shared.live:5} {figures}", flush=True)
            if time.monotonic() > shared.until:
                break
    for mark in marks:
        reached = [curve[mark - 1] for curve in curves if len(curve) >= mark]
        if reached:
            print(f"after {mark}: median {np.median(reached):.0f}, worst {min(reached):.0f}, {len(reached)} seeds")


if __name__ == "__main__":
    main()
