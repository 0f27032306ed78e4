"""The default search: candidates that a machine model ranks first, corrected by measurements."""

from __future__ import annotations

from ....core.errors import UserError
from ....tune.search.guided import automatic
from ....tune.task import Task
from .tuner import Tuner, space_of


class AutoTuner(Tuner):
    """The search that begins with the candidates that a machine model ranks first, and corrects the model by
    measurements.

    If the model does not cover the template or the target, as on a CPU, it is `XGBTuner`. The same `seed` gives the
    same proposals for the same results. The search ends by itself if no candidate is expected to be faster than the
    best by the part `least_gain`, such as 0.01.
    """

    def __init__(self, task: Task, *, seed: int | None = None, least_gain: float = 0.0) -> None:
        space_of(task)
        if isinstance(least_gain, bool) or not isinstance(least_gain, (int, float)) or not 0 <= least_gain < 1:
            raise UserError(
                f"least_gain={least_gain!r} is not a fraction from 0 to 1",
                primitive="AutoTuner",
                fix="give a fraction, such as 0.01",
            )
        super().__init__(task, automatic(task, seed, least_gain))
