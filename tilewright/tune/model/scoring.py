"""Scores of a task's configurations: predicted seconds, for thousands of configurations per second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...codegen.abi import Resources
from ...core.hardware import Hardware, MemoryScope
from ...core.limits import resource_needs
from ...core.vectorized import ceiling
from ..task import Expected, Task
from .extents import KernelExtents, NotModelledError, infer, kernels
from .fitted import Quantities
from .machine import Machine
from .prediction import Prediction, predict
from .structure import Structure, Structures
from .traced import Columns
from .work import NAMES, Counts, Work

_CONFIGURATIONS_PER_PASS = 8192
"""Configurations per pass, so that the addresses of their lanes fit a processor's cache."""


@dataclass(frozen=True)
class Scores:
    """For each configuration, predicted seconds (infinite if it cannot run), and the counts of its slowest kernel."""

    seconds: np.ndarray
    counts: np.ndarray
    """One column per name of `NAMES`."""


class Scorer:
    """Predicts the times of a task's configurations, and caches the structures of the space."""

    def __init__(self, task: Task, machine: Machine | None = None) -> None:
        assert task.target is not None
        self.task = task
        self.machine = machine or Machine.of(task.target)
        self.structures = Structures(task)

    @property
    def quantities(self) -> Quantities:
        """The fitted quantities for kernels of this kind."""
        return self.machine.fitted["tiled_loops" if self.task.declared.ranked_default is None else "direct_loops"]

    def score(self, points: np.ndarray) -> Scores:
        """Return the scores of points of the space, one per row."""
        if self.task.declared.expected is not None:
            return self._expected(self.task.declared.expected, points)
        seconds = np.full(len(points), np.inf)
        counts = np.zeros((len(points), len(NAMES)))
        for at in range(0, len(points), _CONFIGURATIONS_PER_PASS):
            some = points[at : at + _CONFIGURATIONS_PER_PASS]
            for rows, structure, columns in self.structures.groups(some):
                found = self._of_structure(structure, columns)
                if found is not None:
                    seconds[at + rows], counts[at + rows] = found
        return Scores(seconds, counts)

    def _expected(self, expected: Expected, points: np.ndarray) -> Scores:
        """Return the scores by a template's own model, which counts only threads and blocks."""
        knobs = self.task.config_space.knobs
        found = [
            expected.of({knob.name: knob.choices[place] for knob, place in zip(knobs, point, strict=True)})
            for point in points.tolist()
        ]
        seconds = np.array([each.cycles for each in found], dtype=np.float64) / self.machine.rates.clock_hertz
        counts = np.zeros((len(points), len(NAMES)))
        for name in ("threads", "blocks"):
            counts[:, NAMES.index(name)] = [getattr(each, name) for each in found]
        return Scores(seconds, counts)

    def seconds(self, indices: Sequence[int]) -> np.ndarray:
        """Return the predicted seconds of configurations, by index."""
        points = np.array([self.task.config_space.point(i) for i in indices], dtype=np.int64)
        return self.score(points.reshape(-1, len(self.task.config_space.dims))).seconds

    def predictions(self, index: int, compiled: Sequence[Resources] = ()) -> list[tuple[Prediction, Counts]]:
        """Predict each kernel of a configuration; return an empty list if it is not modelled.

        `compiled` has the resources of its kernels, in the order of their launches.
        """
        points = np.array([self.task.config_space.point(index)], dtype=np.int64)
        for _, structure, columns in self.structures.groups(points):
            if structure.schedule is not None:
                made = [Work(structure, columns, k, self.machine.hardware).counts()
                        for k in kernels(infer(structure, columns))]  # fmt: skip
                known = list(reversed(compiled)) if len(compiled) == len(made) else [None] * len(made)
                pairs = zip(made, known, strict=True)
                return [(predict(counts, self.machine, self.quantities, each), counts) for counts, each in pairs]
        return []

    def _of_structure(self, structure: Structure, columns: Columns) -> tuple[np.ndarray, np.ndarray] | None:
        """Return seconds and counts of configurations of a structure; None if it has no kernel, or is not modelled."""
        if structure.schedule is None:
            return None
        try:
            parts = kernels(infer(structure, columns))
            done = [(part, Work(structure, columns, part, self.machine.hardware).counts()) for part in parts]
        except NotModelledError:
            return None
        if not done:
            return None
        total = np.zeros(len(columns))
        slowest, largest = done[0][1], np.zeros(len(columns))
        for part, counts in done:
            runs = fits(part, self.machine.hardware, len(columns))
            took = np.where(runs, predict(counts, self.machine, self.quantities).seconds, np.inf)
            total += took
            slowest = {name: np.where(took > largest, counts[name], slowest[name]) for name in NAMES}
            largest = np.maximum(largest, took)
        return total, np.stack([slowest[name] for name in NAMES], axis=1)


def fits(kernel: KernelExtents, hardware: Hardware, count: int) -> np.ndarray:
    """Return, for each configuration, whether the kernel fits the limits of the hardware."""
    words = ceiling(kernel.bytes_in(MemoryScope.LOCAL), 4)
    good = np.ones(count, dtype=bool)
    for need in resource_needs(hardware, kernel.extents, kernel.bytes_in(MemoryScope.SHARED), words):
        good &= np.asarray(need.needed <= need.allowed)
    return good
