"""Fit rates of kernels to measured layers: overhead + FLOP / (FLOP/s) + bytes / (bytes/s), by relative errors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..arguments.problem import Problem
from .cpu_rates import Table, kind, work
from .decision import Side

Layer = tuple[Problem, float, float]
"""A layer, and the seconds of our kernel and PyTorch's."""
_START = np.log(np.array([5e-6, 1 / 30e9, 1 / 8e9]))
"""Starting values of the fit: logarithms of the seconds per call, per operation and per byte."""
_FEWEST_LAYERS = 3
"""The least number of layers for a kind to have separate rates."""
_FIT_STEPS = 40
_OUTLIER = 2.0
"""The logarithm of the error beyond which a layer is ignored as an outlier."""
_TRUST = 2.0
"""The number of layers at which a kind's rates are the mean of its own fit and the rates of all kinds."""


def fit(layers: Sequence[Layer]) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return the rates of each type, kind and side; the key "any" covers all kinds."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for place, side in enumerate(Side, 1):
        needs = np.array([(1.0, *work(layer[0], side)) for layer in layers])
        times = np.array([layer[place] for layer in layers])
        for (dtype, of), logs in _by_kind(layers, needs, times).items():
            overhead, per_flop, per_byte = np.exp(logs)
            row = [float(f"{value:.4g}") for value in (overhead, 1 / per_flop, 1 / per_byte)]
            found.setdefault(dtype, {}).setdefault(of, {})[side] = row
    return found


def table(instructions: str, layers: Sequence[Layer]) -> Table:
    """The table of one instruction set."""
    return {instructions: fit(layers)}


def _by_kind(layers: Sequence[Layer], needs: Any, times: Any) -> dict[tuple[str, str], Any]:
    """Return the rates of each type and kind, fitted in three levels: all layers, each kind, each kind of a type."""
    keys = [(problem.dtype, kind(problem)) for problem, _, _ in layers]
    whole = _fitted(needs, times, _START)
    types = _level(keys, lambda key: key[0], needs, times, lambda key: whole)
    kinds = _level(keys, lambda key: key[1], needs, times, lambda key: whole)
    own = _level(keys, lambda key: key, needs, times, lambda key: kinds.get(key[1], whole))
    return {**{(dtype, "any"): logs for dtype, logs in types.items()}, **own}


def _level(
    keys: Sequence[tuple[str, str]],
    group: Callable[[tuple[str, str]], Hashable],
    needs: Any,
    times: Any,
    before: Callable[[tuple[str, str]], Any],
) -> dict[Any, Any]:
    """Return the rates of each group of layers that is large enough; fits start at the rates that `before` returns."""
    groups = np.array([hash(group(key)) for key in keys])
    found = {}
    for key in dict.fromkeys(keys):
        chosen = groups == hash(group(key))
        if chosen.sum() >= _FEWEST_LAYERS and group(key) not in found:
            found[group(key)] = _fitted(needs[chosen], times[chosen], before(key))
    return found


def _fitted(needs: Any, times: Any, start: Any) -> Any:
    """Minimise the squared logarithms of the errors by Levenberg's and Marquardt's method."""
    logs, damping = start.copy(), 0.1

    def loss(at: Any) -> float:
        errors = np.log(needs @ np.exp(at)) - np.log(times)
        return float(np.sum(np.minimum(errors**2, _OUTLIER**2)) + _TRUST * np.sum((at - start) ** 2))

    least = loss(logs)
    for _ in range(_FIT_STEPS):
        parts = needs * np.exp(logs)
        total = parts.sum(1)
        slopes, errors = parts / total[:, None], np.log(total) - np.log(times)
        counts = np.abs(errors) < _OUTLIER
        curvature = (slopes * counts[:, None]).T @ slopes + (_TRUST + damping) * np.eye(3)
        moved = logs - np.linalg.solve(curvature, (slopes * counts[:, None]).T @ errors + _TRUST * (logs - start))
        now = loss(moved)
        if now < least:
            logs, least, damping = moved, now, damping / 2
        else:
            damping *= 4
    return logs
