"""Decide whether a library's own kernel is faster: an estimate from layers on which both were measured.

`records/rivals.jsonl` has the times of both sides, as `python -m benchmarks.one_call layers` writes them. The estimate
for a layer is the geometric mean of the ratios of known layers, each weighted by its similarity. Similarity compares
what decides which kernel a library takes (window, step, multiplier, channels per group, type), and the amount of work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import exp, inf, log, log2, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..topi.templates.processor import instruction_set
from .problem import CONV, Problem

if TYPE_CHECKING:
    from ..runtime.device import Device

TABLE = Path(__file__).parent / "records" / "rivals.jsonl"
_FAR = 5.0
"""Largest distance of a layer that counts."""
_FASTER = 1.03
"""The other library is preferred if it is faster by at least this factor: less is noise."""
_FASTER_ON_CPU = 1.3
"""The same of an estimate on a CPU, where few layers were measured: judged by the others of its type and vectors, 8 of
618 layers run theirs by mistake; by 1.03, 17 do."""
_WEIGHTS = (2.0, 1.0, 0.8, 1.0, 1.0, 1.0, 2.0, 1.0, 0.5, 0.15, 0.1, 0.1, 0.3)
"""How much each feature counts, as `_features` lists them: whether there is one row, whether the window has one; the
window, the step, a dilation; the multiplier, and whether there is one; channels of a group, and whether their number is
odd; channels, places, images; results."""
_OTHER_TYPE, _OTHER_HALF = 2.0, 0.7
"""Distance between float32 and a 16-bit type, and between the two 16-bit types."""
_SHARPNESS = 1.5
"""How quickly the weight of a layer falls with its distance."""
_DENSE_TERMS, _DENSE_CHANNELS = 64, 16
"""Sums over so many products, of so many channels of a group, are matrix products, which libraries compute with matrix
units."""


@dataclass(frozen=True)
class Measured:
    """A layer that was measured: where, and the seconds of both sides."""

    problem: Problem
    device: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many times as fast as ours the other library is."""
        return self.ours / self.theirs


@dataclass(frozen=True)
class Estimate:
    """An estimate for one layer from known ones.

    Attributes
    ----------
    ratio : float
        How many times as fast as ours the other library is expected to be.
    nearest : Measured
        The layer that counts most.
    away : float
        The distance of that layer; 0 for the layer itself.
    """

    ratio: float
    nearest: Measured
    away: float


@cache
def table() -> tuple[Measured, ...]:
    """The layers that the package knows."""
    if not TABLE.is_file():
        return ()
    lines = filter(str.strip, TABLE.read_text(encoding="utf-8").splitlines())
    rows = json.loads(f"[{','.join(lines)}]")  # in one piece takes three quarters of the time
    return tuple(Measured(Problem.read(r["problem"]), r["device"], r["ours"], r["theirs"]) for r in rows)


def is_faster(problem: Problem, on: Device) -> str:
    """Return why the library's own kernel is the choice for a problem; "" if ours is."""
    if on.kind == "cpu":
        return verdict(problem, known_on_cpu(problem.dtype, instruction_set()), _FASTER_ON_CPU, from_afar=True)
    return verdict(problem, [one for one in table() if not one.device.startswith("cpu")])


def known_on_cpu(dtype: str, instructions: str) -> list[Measured]:
    """Return the layers of a type that were measured with an instruction set; if there are none, with others.

    A library has fast kernels of some types and for some instructions, and none of others.
    """
    known = [one for one in table() if one.device.startswith("cpu") and one.problem.dtype == dtype]
    return [one for one in known if one.device == cpu_device(instructions)] or known


def cpu_device(instructions: str) -> str:
    """The name of a processor in the table: what kernels of either library depend on most."""
    return f"cpu, {instructions}"


def verdict(problem: Problem, known: Iterable[Measured], by_others: float = _FASTER, from_afar: bool = False) -> str:
    """Return the same, judged by the layers of `known`; those of them that are others must say at least `by_others`.

    With `from_afar`, ours computes a matrix product to which none is similar, if layers of its kind clearly say so.
    """
    known = list(known)
    found = estimate(problem, known)
    if found is not None:
        if found.ratio <= (by_others if found.away else _FASTER):
            return ""
        if not found.away:
            return f"measured {found.ratio:.2f} times as fast as ours for this layer"
        return f"expected to be {found.ratio:.2f} times as fast as ours, by {found.nearest.problem} and its like"
    per_group = problem.shape[1] // problem.groups
    if problem.op == CONV and per_group >= _DENSE_CHANNELS and problem.terms >= _DENSE_TERMS:
        distant = estimate(problem, known, inf) if from_afar else None
        if distant is not None and distant.ratio * by_others < 1:
            return ""
        return f"a sum over {problem.terms} products is a matrix product, and no record says that ours is faster"
    return ""


def estimate(problem: Problem, known: Iterable[Measured], far: float = _FAR) -> Estimate | None:
    """Estimate a problem from the layers of `known` that are not further away than `far`; None if there are none."""
    near = [(away, one) for one in known if (away := distance(problem, one.problem)) <= far and away < inf]
    if not near:
        return None
    away, nearest = min(near, key=lambda pair: pair[0])
    if not away:
        return Estimate(nearest.ratio, nearest, away)
    return Estimate(exp(_mean([(exp(-_SHARPNESS * d), log(one.ratio)) for d, one in near])), nearest, away)


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in weighted) / sum(weight for weight, _ in weighted)


def distance(a: Problem, b: Problem) -> float:
    """How much two layers differ; infinitely where they have nothing in common."""
    if _kind(a) != _kind(b):
        return inf
    found = 0.0 if a.dtype == b.dtype else _OTHER_TYPE if "float32" in (a.dtype, b.dtype) else _OTHER_HALF
    return found + sum(weight * abs(x - y) for weight, x, y in zip(_WEIGHTS, _features(a), _features(b), strict=True))


def _kind(of: Problem) -> tuple[Any, ...]:
    dense = of.groups == 1
    # Tiles of matrix products load weights of one order as they lie; to gather those of the other takes far longer.
    order = of.weights if dense and of.kernel != (1, 1) else ""
    return of.op, of.layout, of.precision, dense, order


@lru_cache(maxsize=4096)
def _features(of: Problem) -> tuple[float, ...]:
    """What `_WEIGHTS` weigh: extents in doublings, and whether something is so."""
    batch, channels, height, _ = of.shape
    rows, columns = of.places
    return (
        float(height == 1),
        float(of.kernel[0] == 1),
        log2(prod(of.kernel)),
        log2(of.stride[1]),
        float(of.dilation != (1, 1)),
        log2(of.filters / channels),
        float(of.filters != channels),
        log2(channels // of.groups),
        float(channels % 2),
        log2(channels),
        log2(rows * columns),
        log2(batch),
        log2(batch * of.filters * rows * columns),
    )
