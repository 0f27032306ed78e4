"""Estimate whether a library's own kernel is faster, from layers for which both kernels were measured.

On a CPU, the rates of its instruction set (`cpu_rates.py`) are the estimate, and known layers correct it.

`records/rivals.jsonl` has the times of both sides, as `python -m benchmarks.one_call layers` writes them. The estimate
for a layer is the geometric mean of the ratios of known layers, each weighted by its similarity. Similarity compares
the properties that decide a library's choice of kernel (window, step, multiplier, channels per group, type), and the
amount of work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import exp, inf, log, log2, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.dtype import DType
from ...topi.templates.processor import instruction_set
from ..arguments.problem import CONV, DATA_GRADIENT, GRADIENTS, MATRIX_CHANNELS, TRANSPOSED, WEIGHT_GRADIENT, Problem
from . import cpu_rates
from .decision import Side

if TYPE_CHECKING:
    from ...runtime.device import Device

TABLE = Path(__file__).parent / "records" / "rivals.jsonl"
CPU_TABLE = TABLE.with_name("rivals_cpu.jsonl")
_FARTHEST = 5.0
"""The largest `distance` at which a measured layer contributes to an estimate."""
_LEAST_GAIN = 1.03
"""The least speedup of the other library for which it is preferred: smaller differences are noise."""
UNSURE = (-1.5, 1.0)
"""The range of log(estimated ratio) on a CPU in which a first call times both kernels.

Below 0, our kernel is compiled in any case. PyTorch was faster for four of 524 random layers with estimates from -1.5
to -1.
"""
MOST_TIMED_SECONDS = 20e-3
"""The most seconds that the slower kernel, or a training step of PyTorch's, is expected to take in such a timing."""
_MOST_TIMED_BYTES = 1 << 28
"""The most bytes of arrays in such a timing."""
_WEIGHT_OF_RATES = 0.02
"""The weight of the estimate by rates alone; the weight of a known layer is at most 1."""
_WEIGHTS = (2.0, 1.0, 0.8, 1.0, 1.0, 1.0, 2.0, 1.0, 0.5, 0.15, 0.1, 0.1, 0.3)
"""The distance per unit of each feature, in the order of `_features`.

The weights were chosen by hand; `python -m benchmarks.decisions` decides each layer of the table by the others, and
counts the mistakes.
"""
_WIDTH_DISTANCE = 2.0
"""The distance between float32 and a 16-bit type."""
_HALVES_DISTANCE = 0.7
"""The distance between float16 and bfloat16."""
_DECAY = 1.5
"""The weight of a layer at distance d is exp(-_DECAY * d)."""
_PASS_SECONDS = 1.5e-6
"""The overhead of an additional kernel on an H200, the GPU of the table.

A library computes a residual and an activation in a separate kernel, which reads and writes the result once more.
"""
_PASS_BYTES_PER_SECOND = (6e12, 3.5e12)
"""The rates of such a kernel in the L2 cache and in memory."""
_PASS_IN_CACHE = 50e6
"""The most bytes for which such a kernel works in the L2 cache."""
_DENSE_TERMS = 64
"""The least products per sum for which libraries compute layers with large groups by matrix instructions. For such a
layer, the library is preferred if no similar layer was measured."""


@dataclass(frozen=True)
class MeasuredLayer:
    """A measured layer, with its processor and the seconds of both sides."""

    problem: Problem
    device: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The speedup of the other library over ours: above 1, the library is faster."""
        return self.ours / self.theirs


@dataclass(frozen=True)
class RatioEstimate:
    """An estimate for one layer from known ones.

    Attributes
    ----------
    ratio : float
        The expected speedup of the other library over ours.
    nearest : MeasuredLayer, optional
        The known layer with the largest weight.
    away : float
        The distance of the nearest layer; 0 if it is the layer itself.
    """

    ratio: float
    nearest: MeasuredLayer | None
    away: float


def table() -> tuple[MeasuredLayer, ...]:
    """Return the layers measured on GPUs."""
    return _read(TABLE)


def cpu_table() -> tuple[MeasuredLayer, ...]:
    """Return the layers measured on CPUs."""
    return _read(CPU_TABLE)


@cache
def _read(path: Path) -> tuple[MeasuredLayer, ...]:
    if not path.is_file():
        return ()
    lines = filter(str.strip, path.read_text(encoding="utf-8").splitlines())
    rows = json.loads(f"[{','.join(lines)}]")  # decoding all at once takes three quarters of the time
    return tuple(MeasuredLayer(Problem.read(r["problem"]), r["device"], r["ours"], r["theirs"]) for r in rows)


def reason_for_rival(problem: Problem, on: Device) -> str:
    """Return the reason why the library's own kernel is chosen for a problem; "" if ours is."""
    return _reason_on_cpu(problem, _here(problem)) if on.kind == "cpu" else reason_on_gpu(problem, table())


def saved_by(ours: Iterable[Problem], every: Iterable[Problem]) -> tuple[float, float]:
    """Return the seconds that our kernels for the problems `ours` of a layer save on a CPU, by rates.

    Also return the seconds that PyTorch's kernels of `every` direction take.
    """
    saved = sum(_their_seconds(each) * (1 - _here(each).ratio) for each in ours)
    return saved, sum(map(_their_seconds, every))


def _their_seconds(problem: Problem) -> float:
    problem = _known_as(problem)
    found = cpu_rates.rates(instruction_set(), problem.dtype, cpu_rates.kind(problem))
    return found[Side.THEIRS].seconds(*cpu_rates.work(problem, Side.THEIRS))


def _known_as(problem: Problem) -> Problem:
    """Return the problem in the form of tables: a data gradient is a transposed convolution."""
    return problem._replace(op=TRANSPOSED) if problem.op == DATA_GRADIENT else problem


def is_undecided(problem: Problem, on: Device) -> bool:
    """Return whether the estimate for a problem is unsure, and timing both kernels takes little time."""
    if on.kind != "cpu":
        return False
    found = _here(problem)
    if not found.away or not (is_unsure(found.ratio) or _is_unknown(problem)):
        return False
    size, seconds = cpu_rates.work(problem, Side.OURS)[1], cpu_rates.expected_seconds(problem, instruction_set())
    return size <= _MOST_TIMED_BYTES and seconds <= MOST_TIMED_SECONDS


def is_unsure(ratio: float) -> bool:
    """Return whether an estimated ratio on a CPU is too close to decide."""
    return UNSURE[0] < log(ratio) < UNSURE[1]


def _is_unknown(problem: Problem) -> bool:
    """Return whether no weight gradients of this kind of layer were measured on CPUs."""
    return problem.op == WEIGHT_GRADIENT and not cpu_rates.knows(instruction_set(), problem)


@lru_cache(maxsize=64)
def _here(problem: Problem) -> RatioEstimate:
    """Return the estimate for a problem on this machine's processor."""
    instructions = instruction_set()
    problem = _known_as(problem)
    return estimate_on_cpu(problem, known_on_cpu(problem.dtype, instructions), lambda one: _by_rates(one, instructions))


def _reason_on_cpu(problem: Problem, found: RatioEstimate) -> str:
    """Return the reason why the library's own kernel is chosen on a CPU; "" if ours is."""
    if not found.away:
        return f"measured {found.ratio:.2f} times as fast as ours for this layer" if found.ratio > _LEAST_GAIN else ""
    if _is_unknown(problem):
        return "no record says that ours is faster for such layers, and timing both would take long"
    if found.ratio <= 1:
        return ""
    return f"expected to be {found.ratio:.2f} times as fast as ours, by rates of {instruction_set()}"


def estimate_on_cpu(
    problem: Problem, known: Sequence[MeasuredLayer], by_rates: Callable[[Problem], float]
) -> RatioEstimate:
    """Estimate a problem by the rates of an instruction set, corrected by their error for similar known layers."""
    near = [(away, one) for one in known if (away := distance(problem, one.problem)) <= _FARTHEST]
    away, nearest = min(near, key=lambda pair: pair[0], default=(inf, None))
    if nearest is not None and not away:
        return RatioEstimate(nearest.ratio, nearest, away)
    missed = [(exp(-_DECAY * d), log(one.ratio / by_rates(one.problem))) for d, one in near]
    correction = _mean([(_WEIGHT_OF_RATES, 0.0), *missed])
    return RatioEstimate(by_rates(problem) * exp(correction), nearest, away)


@lru_cache(maxsize=8192)
def _by_rates(problem: Problem, instructions: str) -> float:
    """Return the expected ratio by rates alone."""
    return cpu_rates.expected_ratio(problem, instructions)


def known_on_cpu(dtype: str, instructions: str) -> list[MeasuredLayer]:
    """Return the layers of a type measured with an instruction set; if there are none, with other sets.

    Libraries have fast kernels only for some types and instruction sets.
    """
    known = [one for one in cpu_table() if one.problem.dtype == dtype]
    return [one for one in known if one.device == cpu_device(instructions)] or known


def cpu_device(instructions: str) -> str:
    """Return the device name of the table, by the instruction set, on which both kernels depend most."""
    return f"cpu, {instructions}"


def reason_on_gpu(problem: Problem, known: Iterable[MeasuredLayer]) -> str:
    """Return the reason why the library's own kernel is chosen on a GPU, by the layers `known`; "" if ours is."""
    found = estimate(problem, known)
    if found is not None and found.nearest is not None:
        ratio = found.ratio * _share_of_convolution(problem, found.nearest)
        if ratio <= _LEAST_GAIN:
            return ""
        if not found.away and ratio == found.ratio:
            return f"measured {ratio:.2f} times as fast as ours for this layer"
        return f"expected to be {ratio:.2f} times as fast as ours, by {found.nearest.problem} and its like"
    per_group = problem.shape[1] // problem.groups
    large = per_group >= MATRIX_CHANNELS or problem.groups == 1
    steps = problem.op == DATA_GRADIENT and problem.stride != (1, 1)
    if problem.op in GRADIENTS and not problem.depthwise and (large or steps):
        return "no record says that our kernel of this gradient is faster"
    if problem.op == CONV and per_group >= MATRIX_CHANNELS and problem.terms >= _DENSE_TERMS:
        return f"a sum over {problem.terms} products is a matrix product, and no record says that ours is faster"
    return ""


def _share_of_convolution(problem: Problem, like: MeasuredLayer) -> float:
    """Return the fraction of a library's time for the convolution, if another kernel computes residual and
    activation."""
    if not (problem.residual or problem.activation):
        return 1.0
    size = prod(problem.out_shape)
    convolution = like.theirs * size / prod(like.problem.out_shape)
    moved = size * DType(problem.dtype).bytes * (3 if problem.residual else 2)
    return convolution / (convolution + _PASS_SECONDS + moved / _PASS_BYTES_PER_SECOND[moved > _PASS_IN_CACHE])


def estimate(problem: Problem, known: Iterable[MeasuredLayer]) -> RatioEstimate | None:
    """Estimate a problem from the layers of `known` within `_FARTHEST`; None if there are none."""
    near = [(away, one) for one in known if (away := distance(problem, one.problem)) <= _FARTHEST]
    if not near:
        return None
    away, nearest = min(near, key=lambda pair: (pair[0], pair[1].problem.residual != problem.residual))
    if not away:
        return RatioEstimate(nearest.ratio, nearest, away)
    return RatioEstimate(exp(_mean([(exp(-_DECAY * d), log(one.ratio)) for d, one in near])), nearest, away)


def _mean(weighted: Sequence[tuple[float, float]]) -> float:
    return sum(weight * value for weight, value in weighted) / sum(weight for weight, _ in weighted)


def distance(a: Problem, b: Problem) -> float:
    """Return the distance of two layers; infinity if they cannot be compared."""
    if _kind(a) != _kind(b):
        return inf
    found = 0.0 if a.dtype == b.dtype else _WIDTH_DISTANCE if "float32" in (a.dtype, b.dtype) else _HALVES_DISTANCE
    return found + sum(weight * abs(x - y) for weight, x, y in zip(_WEIGHTS, _features(a), _features(b), strict=True))


def _kind(of: Problem) -> tuple[Any, ...]:
    dense = of.groups == 1
    # Tiles of matrix products load weights of one order in vectors; gathering weights of the other order takes far
    # longer.
    order = of.weights if dense and of.kernel != (1, 1) else ""
    # Kernels with matrix instructions exist for groups of up to 16 channels, and for groups of 32 and more.
    between = of.op == CONV and not dense and 16 < of.shape[1] // of.groups < 32
    return of.op, of.layout, of.precision, dense, order, between


@lru_cache(maxsize=4096)
def _features(of: Problem) -> tuple[float, ...]:
    """Return the features weighted by `_WEIGHTS`: flags, and binary logarithms of sizes."""
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
