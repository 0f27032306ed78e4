"""The allotment of a budget to many tasks: the task with the largest expected gain gets the next slice.

The aim is to minimise `f = Σ wᵢ gᵢ`. Here gᵢ is the least time of task i so far, and wᵢ is its weight, such as its
number of uses in a network. The rule is the task scheduler of Ansor (Zheng et al., OSDI 2020, section 6 and appendix
A): with tᵢ trials of task i,

    |∂f/∂tᵢ| ≈ wᵢ (α (gᵢ(tᵢ − Δ) − gᵢ(tᵢ)) / Δ + (1 − α) max(gᵢ(tᵢ) / tᵢ, gᵢ(tᵢ) − β Cᵢ / max Vₖ))

The first term is the gain of the last Δ trials. The second term is optimism, which shrinks with the number of trials.
It rises if the Cᵢ operations of this task would, at the rates Vₖ of its template, take less than gᵢ / β. Unlike in the
paper, gains are compared per second, because trials of different tasks take different times. Each task begins with one
slice, in order.

Tasks of one layer are rivals: strategies for the same layer, which uses the fastest. So gᵢ is the least time of all of
them. With its next slice, a rival should reach its own least time minus the gain by the rule above. Only the part of
that gain below the layer's least time counts. So a strategy far behind gets no more trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

ALPHA, BETA = 0.2, 2.0
"""The weight of recent gains, and the trust that a task reaches the rate of similar tasks: Ansor's values."""
SLICE = 8
"""The number of trials per slice."""
WINDOW = 24
"""The number of trials that count as recent."""
_MOST_SPEEDUP = 8.0
"""The largest expected speedup of a strategy by one slice."""
_LEAST_SECONDS = 1e-3


@dataclass
class TaskShare:
    """A task: its kind (the template), the operations of one run, and its weight.

    `costs` has the least seconds after each trial, infinite before the first success. `given` is the number of assigned
    trials, `spent` the seconds of finished trials. Rivals have the same `layer`.
    """

    kind: str
    flop: float
    weight: float = 1.0
    costs: list[float] = field(default_factory=list)
    given: int = 0
    spent: float = 0.0
    over: bool = False
    """Whether no configuration is left to try."""
    layer: int | None = None

    @property
    def best(self) -> float:
        """The least seconds so far."""
        return self.costs[-1] if self.costs else float("inf")

    def heard(self, seconds: float | None, spent: float) -> None:
        """Add a trial: the seconds of one run, None after a failure, and the seconds to build and run it."""
        self.costs.append(min(self.best, seconds) if seconds is not None else self.best)
        self.spent += spent

    @property
    def trial_seconds(self) -> float:
        """Seconds of one trial."""
        return max(_LEAST_SECONDS, self.spent / len(self.costs)) if self.costs else _LEAST_SECONDS

    def gain(self, rate: float, rival: float = float("inf")) -> float:
        """Return the expected decrease of f, in seconds, per second of trials.

        `rate` is the best rate of tasks of this kind; `rival` is the least seconds of the rivals.
        """
        now = self.best
        if now == float("inf") == rival:  # nothing runs yet: as if each trial could be the first that does
            return float("inf") if self.given < WINDOW else 0.0
        if now == float("inf"):  # the first trial that runs may be as fast as the rivals
            each = (1 - ALPHA) * rival / max(1, self.given) if self.given <= SLICE else 0.0
            return self.weight * min(each, rival / SLICE) / self.trial_seconds
        each = self._gain_of_a_trial(rate)
        if rival < now:
            each = max(0.0, rival - max(now - SLICE * each, now / _MOST_SPEEDUP)) / SLICE
        return self.weight * each / self.trial_seconds

    def _gain_of_a_trial(self, rate: float) -> float:
        """Return the expected decrease of this task's least time, in seconds, by one trial."""
        now = self.best
        before = self.costs[-WINDOW - 1] if len(self.costs) > WINDOW else self.costs[0]
        steps = min(WINDOW, max(1, len(self.costs) - 1))
        if before == float("inf"):
            before = next(cost for cost in self.costs if cost < float("inf"))
        lately = (before - now) / steps
        hope = now / max(1, self.given)
        if rate > 0 and self.flop > 0:
            hope = max(hope, now - BETA * self.flop / rate)
        # Optimism must end: the rate of other tasks may be out of reach here.
        hope = min(hope, now * WINDOW / max(1, self.given))
        return ALPHA * lately + (1 - ALPHA) * hope


def choose(shares: Sequence[TaskShare]) -> int | None:
    """Return the index of the task that gets the next slice; None if no configuration is left to try."""
    left = [number for number, share in enumerate(shares) if not share.over]
    fresh = next((number for number in left if not shares[number].given), None)
    if fresh is not None or not left:
        return fresh
    rates: dict[str, float] = {}
    for share in shares:
        rates[share.kind] = max(rates.get(share.kind, 0.0), share.flop / share.best)
    gains = {number: shares[number].gain(rates[shares[number].kind], _rival(shares, number)) for number in left}
    most = max(gains.values())
    return min(
        (number for number in left if gains[number] == most),
        key=lambda number: (shares[number].given, shares[number].best),
    )


def _rival(shares: Sequence[TaskShare], number: int) -> float:
    """Return the least seconds of the rivals of a task; infinity if it has none."""
    own = shares[number]
    if own.layer is None:
        return float("inf")
    times = (share.best for share in shares if share is not own and share.layer == own.layer)
    return min(times, default=float("inf"))
