"""Steps through a space: to neighbours, and to crossovers of two points."""

from __future__ import annotations

import numpy as np

from .knobs import Knob, SplitKnob
from .space import Space

_NEIGHBOURS = 8
_MOST_COMPARED = 2048
"""The most choices of a knob with tabulated distances."""


class Moves:
    """Random steps. Points that predicates rule out are left out, so fewer points than requested may be returned.

    Half of a split's moves go to the splits nearest to it (sizes in powers of two).
    """

    def __init__(self, space: Space, rng: np.random.Generator) -> None:
        self.space = space
        self.rng = rng
        self._near = [_neighbours(knob) for knob in space.knobs]

    def mutated(self, points: np.ndarray, knobs: float = 1.5) -> np.ndarray:
        """Return the points with some knobs changed: about the given number, and at least one."""
        count, width = points.shape
        chosen = self.rng.random(points.shape) < (knobs - 1) / max(width - 1, 1)
        chosen[np.arange(count), self.rng.integers(width, size=count)] = True
        made = points.copy()
        for k, near in enumerate(self._near):
            rows = np.flatnonzero(chosen[:, k])
            anew = self.rng.integers(self.space.dims[k], size=len(rows))
            if near is not None and near.shape[1]:
                beside = near[points[rows, k], self.rng.integers(near.shape[1], size=len(rows))]
                anew = np.where(self.rng.random(len(rows)) < 0.6, beside, anew)
            made[rows, k] = anew
        return self._admitted(made)

    def crossed(self, points: np.ndarray, count: int) -> np.ndarray:
        """Return points with each knob from one of two parents; earlier points are parents more often."""
        weights = 1.0 / (np.arange(len(points)) + 4)
        parents = self.rng.choice(len(points), size=(count, 2), p=weights / weights.sum())
        first = self.rng.random((count, points.shape[1])) < 0.5
        return self._admitted(np.where(first, points[parents[:, 0]], points[parents[:, 1]]))

    def _admitted(self, points: np.ndarray) -> np.ndarray:
        kept: np.ndarray = np.unique(points[self.space.admitted(points)], axis=0)
        return kept


def _neighbours(knob: Knob) -> np.ndarray | None:
    """Return the indices of the nearest choices for each choice of a split; None if choices have no distance."""
    if not isinstance(knob, SplitKnob) or not isinstance(knob.choices, tuple) or len(knob) > _MOST_COMPARED:
        return None
    sizes = np.log2(np.maximum(np.array([list(choice.sizes[1:]) for choice in knob.choices], dtype=np.float64), 1))
    apart = np.abs(sizes[:, None, :] - sizes[None, :, :]).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    nearest: np.ndarray = np.argsort(apart, axis=1, kind="stable")[:, : min(_NEIGHBOURS, len(knob) - 1)]
    return nearest
