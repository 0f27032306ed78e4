"""`Analyzer.simplify` of reductions, and reductions over no axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.arith import Analyzer, ConstIntBound

k = te.reduce_axis((0, 10), name="k")
A = te.placeholder((10,), name="A")
same = tw.ir.structural_equal


def _pair() -> Any:
    """The sum of the first values and the product of the second ones, at once."""
    return te.comm_reducer(lambda x, y: (x[0] + y[0], x[1] * y[1]), lambda a, b: (tir.const(0, a), tir.const(1, b)))


def test_the_ranges_of_the_axes_are_known() -> None:
    analyzer = Analyzer()
    made = analyzer.simplify(te.sum(tir.Select(k < 12, k * 2, 0), axis=k, where=k >= 0))
    assert same(made, te.sum(k * 2, axis=k))
    assert analyzer.can_prove(k < 10)


def test_a_combiner_is_simplified() -> None:
    n = te.var("n")
    either = te.comm_reducer(
        lambda x, y: tir.Select(n < 0, x + y, x * y), lambda t: tir.Select(n < 0, tir.const(0, t), tir.const(1, t))
    )
    for bounds, expected in (((-9, -1), te.sum(A[k], k)), ((0, 9), te.comm_reducer(*_product())(A[k], k))):
        analyzer = Analyzer()
        analyzer.update(n, ConstIntBound(*bounds))
        assert same(analyzer.simplify(either(A[k], k)), expected)


def _product() -> tuple[Any, Any]:
    return lambda x, y: x * y, lambda t: tir.const(1, t)


def test_components_without_a_use_are_dropped() -> None:
    pair = _pair()
    first, second = pair((A[k], A[9 - k]), k)
    analyzer = Analyzer()
    assert same(analyzer.simplify(first), te.sum(A[k], k))
    assert same(analyzer.simplify(second), te.comm_reducer(*_product())(A[9 - k], k))


def test_components_that_call_functions_with_effects_are_kept() -> None:
    def called(x: Any) -> Any:  # a function of the program
        return tir.Call("float32", tw.ir.GlobalVar("f"), [x])

    pair, analyzer = _pair(), Analyzer()
    first = pair((A[k], called(A[9 - k])), k)[0]
    kept: Any = analyzer.simplify(first)
    assert len(kept.source) == 2
    first = pair((called(A[k]), A[9 - k]), k)[0]
    kept = analyzer.simplify(first)
    assert len(kept.source) == 1


@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_over_no_axes_it_is_the_value(name: str) -> None:
    reduce = getattr(te, name)
    B = te.compute((10,), lambda i: reduce(A[i], axis=[], where=i < 5, init=2.0), name="B")
    C = te.compute((10,), lambda i: reduce(A[i], axis=()), name="C")
    built = tw.build(te.create_schedule([B.op, C.op]), [A, B, C], "llvm")
    values = np.arange(10, dtype=np.float32) - 4
    a, b, c = tw.nd.array(values), tw.nd.empty((10,)), tw.nd.empty((10,))
    built(a, b, c)
    combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[name]
    assert np.array_equal(b.numpy(), np.where(np.arange(10) < 5, combine(values, 2), 2))
    assert np.array_equal(c.numpy(), values)
