"""Samples of a reference have the values of the whole reference, and cost no more than allowed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.automatic_fused import FUSED
from benchmarks.automatic_programs import LAYER, PRODUCTS, Program
from tilewright import te, tir
from tilewright.tensor.reference import reference
from tilewright.tensor.reference_graph import ReferenceGraph
from tilewright.tensor.reference_sample import sampled_reference, values_at, work_of


def means(n: int, m: int) -> tuple[Any, Any]:
    """Means of the first elements of each row, declared as a reduction over the whole row with a mask."""
    X, k = te.placeholder((n, m), name="X"), te.reduce_axis((0, m), "k")
    sums = te.compute(
        (n, m), lambda i, j: te.sum(tir.if_then_else(k <= j, X[i, k], tir.const(0, "float32")), axis=k), "sums"
    )
    return X, te.compute((n, m), lambda i, j: sums[i, j] / (j + 1).astype("float32"), "means")


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("program", [*FUSED, PRODUCTS[0], PRODUCTS[-1], LAYER], ids=lambda p: p.name)
def test_the_values_of_the_whole_reference(program: Program, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a sample and single elements, for which every operation computes only some of its elements."""
    monkeypatch.setattr("tilewright.tensor.reference_products._LEAST_TERMS", 0)
    sizes = program.sizes_for("small")
    inputs, outputs = program.declare(**sizes)
    given = dict(zip(inputs, program.arrays(inputs, sizes), strict=True))
    whole = reference(outputs, given)
    if few:
        found = values_at(outputs, given, [[np.array([1, 2]), np.array([each.size - 1])] for each in whole])
    else:
        sampled = sampled_reference(outputs, given, np.random.default_rng(3), math.inf)
        assert sampled is not None
        found = sampled
    for each, (points, values) in zip(whole, found, strict=True):
        assert {0, each.size - 1} <= set(points.tolist()) or few
        np.testing.assert_allclose(values, each.reshape(-1)[points], rtol=1e-12, atol=1e-12)


def test_a_huge_reduction_takes_little_time() -> None:
    X, out = means(1024, 8192)
    assert work_of([out]) > 1e11
    x = np.random.default_rng(0).standard_normal((1024, 8192), "float32")
    began = time.process_time()
    found = sampled_reference([out], {X: x}, np.random.default_rng(0), 2e7)
    assert time.process_time() - began < 5
    assert found is not None
    ((points, values),) = found
    row, column = np.unravel_index(points, out.shape)
    assert {(0, 0), (0, 8191), (1023, 0), (1023, 8191)} <= set(zip(row.tolist(), column.tolist(), strict=True))
    expected = (np.cumsum(x, 1, np.float64) / np.arange(1, 8193))[row, column]
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)


def test_a_sum_over_all_elements_has_no_sample() -> None:
    X = te.placeholder((64, 64), name="X")
    i, j = te.reduce_axis((0, 64), "i"), te.reduce_axis((0, 64), "j")
    total = te.compute((), lambda: te.sum(X[i, j], axis=[i, j]), "total")
    out = te.compute((64, 64), lambda i, j: X[i, j] / total[()], "out")
    assert sampled_reference([out], {X: np.ones((64, 64))}, np.random.default_rng(0), 2000) is None


def test_a_scan_computes_each_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    monkeypatch.setattr(ReferenceGraph, "row", _counting(ReferenceGraph.row, rows))
    X, S = te.placeholder((50, 3), name="X"), te.placeholder((50, 3), name="S")
    first = te.compute((2, 3), lambda i, j: X[i, j])
    doubled = te.compute((50, 3), lambda t, j: S[t - 1, 2 - j] * 2.0, "doubled")
    step = te.compute((50, 3), lambda t, j: doubled[t, j] + S[t - 2, j] + X[t, j], "step")
    x = np.random.default_rng(0).standard_normal((50, 3)) * 1e-3
    (found,) = reference([te.scan(first, step, S, inputs=[X])], {X: x})
    expected = x.copy()
    for t in range(2, 50):
        expected[t] += expected[t - 1, ::-1] * 2 + expected[t - 2]
    np.testing.assert_allclose(found, expected)
    assert rows == list(range(2, 50))


def _counting(inner: Callable[..., Any], rows: list[int]) -> Callable[..., Any]:
    def row(graph: ReferenceGraph, tensor: Any, number: int) -> Any:
        rows.append(number)
        return inner(graph, tensor, number)

    return row
