"""A sample of a reference: the values of some elements of each output, if all of them would take too long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.recursion import deep
from .reference_graph import OverBudgetError, ReferenceGraph, ordered, steps_of
from .tensor import Tensor

_SIZES = (4096, 512, 64, 8)
"""The elements of each output to try, until the elements that they depend on are few enough."""


@deep
def work_of(outputs: Sequence[Tensor]) -> float:
    """Return the steps of NumPy for all elements of tensors of known sizes."""
    graph = ReferenceGraph({}, np.dtype(np.float64))
    order = ordered([tensor.op for tensor in outputs])
    return sum(math.prod(graph.shape_of(op.outputs[0])) * steps_of(op, True) for op in order)


@deep
def sampled_reference(
    outputs: Sequence[Tensor], inputs: Mapping[Any, Any], rng: np.random.Generator, steps: float
) -> list[tuple[np.ndarray, np.ndarray]] | None:
    """Return positions in C order and their values for each output, or None if it takes too many steps.

    The sample has corners and edges of each output, elements in common rows and columns, and random elements.
    """
    shapes = [tuple(int(extent) for extent in tensor.shape) for tensor in outputs]
    for size in _SIZES:
        steps /= 2
        points = {shape: _positions(shape, size, rng) for shape in dict.fromkeys(shapes)}
        try:
            return values_at(outputs, inputs, [points[shape] for shape in shapes], 2 * steps)
        except OverBudgetError:
            continue
    return None


@deep
def values_at(
    outputs: Sequence[Tensor],
    inputs: Mapping[Any, Any],
    points: Sequence[Sequence[np.ndarray]],
    steps: float = math.inf,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the distinct positions of each output's lists of positions, and their values."""
    graph = ReferenceGraph(inputs, np.dtype(np.float64), steps=steps)
    found = []
    for tensor, lists in zip(outputs, points, strict=True):
        for each in lists:  # the elements of a grid share more of their inputs than others
            graph.at(tensor.op, np.unique(each))
        distinct = np.unique(np.concatenate(lists))
        found.append((distinct, graph.at(tensor.op, distinct)[tensor.value_index]))
    return found


def _positions(shape: tuple[int, ...], size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """A grid that contains the corners, and random elements: about `size` in all."""
    each = max(2, math.floor((size / 2) ** (1 / max(1, len(shape)))))
    places = [_along(extent, each, rng) for extent in shape]
    grid = np.ravel_multi_index(np.meshgrid(*places, indexing="ij"), shape).reshape(-1) if shape else np.zeros(1, int)
    return [grid, rng.integers(0, max(1, math.prod(shape)), size // 2) if 0 not in shape else np.empty(0, int)]


def _along(extent: int, count: int, rng: np.random.Generator) -> np.ndarray:
    ends = np.array([0, extent - 1] if extent else [], int)
    return (
        np.unique(np.concatenate([ends, rng.integers(0, extent, count - 2)])) if extent > count else np.arange(extent)
    )
