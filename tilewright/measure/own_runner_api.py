"""Base classes of builders and runners that a script brings, in the legacy style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .outcome import MeasureResult


class BuildResult(NamedTuple):
    """The result of building a candidate.

    `filename` is the module, which `load_module` reads; `arg_info` has the shape and the type of each argument. `error`
    is None, since failed builds are not run; `time_cost` is how long it took, in seconds.
    """

    filename: str
    arg_info: tuple[tuple[tuple[Any, ...], str], ...]
    error: Exception | None
    time_cost: float


class Runner:
    """Base of a script's own runner, given as `measure_option(runner=...)`.

    `run` receives the built candidates, and returns a result for each. Outputs are then compared with no reference:
    measurements of such a runner are recorded as unchecked.
    """

    def __init__(self, timeout: float = 5, n_parallel: int | None = None) -> None:
        self.timeout = timeout
        self.n_parallel = n_parallel
        self.task: Any = None

    def set_task(self, task: Any) -> None:
        """Receive the task of the next candidates."""
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """Options for the builder; asked of old runners, and not used."""
        return {}

    def run(self, measure_inputs: Sequence[Any], build_results: Sequence[BuildResult]) -> list[MeasureResult]:
        """Run candidates that were built; returns as many results."""
        raise NotImplementedError


def is_own_runner(runner: Any) -> bool:
    """Whether a runner is a script's own."""
    return isinstance(runner, Runner) and type(runner).run is not Runner.run
