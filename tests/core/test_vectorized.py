"""Functions of single numbers and of arrays agree."""

from __future__ import annotations

import numpy as np

from tilewright.core import vectorized


def test_functions_of_numbers_and_of_arrays_agree() -> None:
    a, b = np.array([1, 5, 7, 12]), np.array([3, 2, 7, 5])
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    assert vectorized.least(a, b, 6).tolist() == [vectorized.least(x, y, 6) for x, y in pairs]
    assert vectorized.most(a, b, 6).tolist() == [vectorized.most(x, y, 6) for x, y in pairs]
    assert vectorized.ceiling(a, b).tolist() == [vectorized.ceiling(x, y) for x, y in pairs]
    assert vectorized.upwards(a / b).tolist() == [vectorized.upwards(x / y) for x, y in pairs]
    assert vectorized.either(a > b, a, b).tolist() == [vectorized.either(x > y, x, y) for x, y in pairs]
    calls: list[int] = []
    table = np.array([[3, 1], [1, 3]])
    assert vectorized.of_each(lambda x: calls.append(x) or 2 * x, table).tolist() == [[6, 2], [2, 6]]
    assert calls == [1, 3]
