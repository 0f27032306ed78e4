"""Rows of slices in shared memory: conflicts are counted, padding avoids them, and vectors stay aligned."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import tilewright as tw
from tilewright import te
from tilewright.core.hardware import MemoryScope
from tilewright.core.target import Target
from tilewright.explain.explanation import explanation_data
from tilewright.topi.templates.contraction import MatrixOperand
from tilewright.topi.templates.slice_rows import conflict_cycles, slice_rows

TARGET = Target("cuda -arch=sm_90")


def test_conflicts_of_neighbouring_lanes() -> None:
    """Sixteen rows at a distance of all banks: each half of a warp waits sixteen times instead of once."""
    assert conflict_cycles(16, 1, 128, 8) == 2 * 15
    assert conflict_cycles(16, 1, 136, 8) == conflict_cycles(16, 1, 144, 16) == 0
    assert conflict_cycles(1, 32, 128, 16) == 0


@pytest.mark.parametrize("word", [1, 2, 4, 8])
def test_padded_rows_are_aligned_and_conflict_less(word: int) -> None:
    for together, step, depth, lanes in product((1, 2, 4), (1, 2, 4), (8, 9, 16, 32, 36), (1, 2, 4, 8, 16, 32)):
        if depth % step:
            continue
        rows = slice_rows(MatrixOperand(64, True, together), word, depth, step, (lanes, 1))
        assert rows.stride % step == rows.stride % (together if depth % together == 0 else 1) == 0
        assert depth <= rows.stride < depth + 16
        assert rows.conflict_cycles <= conflict_cycles(lanes, 1, depth * word, step * word)
        if together <= step and step * word >= 4:
            assert rows.conflict_cycles == 0
    assert slice_rows(MatrixOperand(64, False), word, 32, 4, (16, 1)) == (32, 0)


@pytest.mark.parametrize(("size", "dtype"), [(64, "float32"), (33, "float32"), (64, "float64")])
def test_the_default_product_of_rows_has_no_bank_conflicts(size: int, dtype: str) -> None:
    """By the counter of the generated kernel, which knows nothing of the model."""
    k = te.reduce_axis((0, size), name="k")
    x, y = (te.placeholder((500, size), dtype, name=name) for name in "xy")

    def squares(i: Any, j: Any) -> Any:
        return te.sum((x[i, k] - y[j, k]) * (x[i, k] - y[j, k]), axis=k)

    args = [x, y, te.compute((500, 500), squares, name="squares")]
    found = explanation_data(tw.auto_schedule(args, TARGET), TARGET, args, None, compiled=False)
    accesses = [access for kernel in found.kernels for access in kernel.counts.accesses.values()]
    shared = [access for access in accesses if access.scope is MemoryScope.SHARED and not access.stores]
    assert len(shared) == 2
    assert all(access.conflict_degree == 1 for access in shared)
