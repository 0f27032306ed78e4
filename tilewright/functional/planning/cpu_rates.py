"""Rates of CPUs, from which the times of convolutions by our kernels and by PyTorch's are predicted.

The rates are FLOP/s, bytes/s and the overhead of a call. `records/cpu_rates.json` has them for each instruction set,
type and kind of layer, as `python -m benchmarks.fit_rates` fits them to measured layers. Rates that `tilewright doctor
--calibrate` measures on this machine take precedence.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from ...core import calibration
from ...core.dtype import DType
from ...core.errors import InternalError
from ..arguments.problem import CONV, DATA_GRADIENT, POOLS, TRANSPOSED, WEIGHT_GRADIENT, Problem
from .decision import Side

SHIPPED = Path(__file__).parent / "records" / "cpu_rates.json"
CALIBRATION = "cpu_rates.json"
"""The file with the rates measured on this machine."""
_LANES = 16
"""Channels per block of PyTorch's dense kernels, and lanes of our vectors."""
_NEAREST = {"AMX": ("AMX", "AVX-512", "AVX2"), "AVX-512": ("AVX-512", "AMX", "AVX2"), "AVX2": ("AVX2", "AVX-512")}
"""For each instruction set, the sets to look up rates for, the nearest first."""
Table = dict[str, dict[str, dict[str, dict[str, list[float]]]]]
"""Rates by instruction set, type, kind of layer and side."""


class LayerRates(NamedTuple):
    """The rates of a kernel: overhead of a call in seconds, floating-point operations per second, and bytes per
    second."""

    overhead: float
    flop_per_second: float
    bytes_per_second: float

    def seconds(self, flop: float, size: float) -> float:
        """The time of a layer."""
        return self.overhead + flop / self.flop_per_second + size / self.bytes_per_second


def kind(problem: Problem) -> str:
    """Return the kind of a layer: layers of one kind run at about the same rates."""
    if problem.op in POOLS:
        what = problem.op
    else:
        what = "dense" if problem.groups == 1 else "depthwise" if problem.depthwise else "grouped"
        what = what if problem.op == CONV else f"{problem.op} {what}"
    stepping = " strided" if problem.op == CONV and problem.stride[1] > 1 else ""
    return f"{what} {problem.layout}{stepping}"


@lru_cache(maxsize=1024)
def work(problem: Problem, side: Side) -> tuple[float, float]:
    """Return the floating-point operations of a layer, in whole vectors, and the bytes of its arrays."""
    arrays = prod(problem.shape) + prod(problem.out_shape) + (prod(problem.weights_shape) if problem.has_weights else 0)
    row = problem.filters
    if side == Side.OURS:
        if problem.layout == "NCHW":
            row = problem.places[1]
        elif 1 < problem.groups < problem.shape[1]:
            row = problem.filters // problem.groups
    wasted = -(-row // _LANES) * _LANES / row if side == Side.OURS or problem.groups == 1 else 1.0
    if side == Side.OURS and problem.op in (TRANSPOSED, DATA_GRADIENT):  # with dilation, each result tests all taps
        wasted *= prod(step for step, apart in zip(problem.stride, problem.dilation, strict=True) if apart > 1)
    return problem.flop * wasted, arrays * DType(problem.dtype).bytes


def expected_ratio(problem: Problem, instructions: str, table: Table | None = None) -> float:
    """Return the expected speedup of PyTorch's kernel over ours, by the given table or the default one."""
    found = rates(instructions, problem.dtype, kind(problem), table)
    return found[Side.OURS].seconds(*work(problem, Side.OURS)) / found[Side.THEIRS].seconds(*work(problem, Side.THEIRS))


def expected_seconds(problem: Problem, instructions: str) -> float:
    """Return the expected seconds of the slower of both kernels."""
    found = rates(instructions, problem.dtype, kind(problem))
    return max(found[side].seconds(*work(problem, side)) for side in Side)


def rates(instructions: str, dtype: str, of: str, table: Table | None = None) -> dict[Side, LayerRates]:
    """Return the rates of both sides for a kind of layer, measured with this instruction set or the nearest one. For a
    kind without measurements, return the rates of all kinds together.
    """
    sets = _NEAREST.get(instructions, tuple(_NEAREST))
    tables = [(calibrated(), sets[:1]), (_shipped(), sets)] if table is None else [(table, sets)]
    known = [[each.get(name, {}).get(dtype, {}) for name in names] for each, names in tables]
    if of.startswith(WEIGHT_GRADIENT):  # calibration does not measure weight gradients
        known = [[kinds for of_table in known for kinds in of_table]]
    row = next((kinds[key] for of_table in known for key in (of, "any") for kinds in of_table if key in kinds), None)
    if row is None:
        raise InternalError(f"no rates are known of {dtype}")
    return {side: LayerRates(*row[side]) for side in Side}


def knows(instructions: str, problem: Problem) -> bool:
    """Return whether layers of this kind and type were measured with an instruction set or a near one."""
    sets = _NEAREST.get(instructions, tuple(_NEAREST))
    known = [calibrated().get(sets[0], {}), *(_shipped().get(name, {}) for name in sets)]
    return any(kind(problem) in each.get(problem.dtype, {}) for each in known)


def keep(table: Table) -> Path | None:
    """Store the rates of this machine, and return the file; None if the cache is off."""
    path = calibration.keep(CALIBRATION, table)
    calibrated.cache_clear()
    return path


@cache
def calibrated() -> Table:
    """Return the rates measured on this machine; an empty table if there are none."""
    return calibration.read(CALIBRATION)


@cache
def _shipped() -> Table:
    found: Table = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return found
