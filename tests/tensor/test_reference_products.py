"""Large products by linear algebra have the values of the sums that they are."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.tensor.reference import reference
from tilewright.tensor.reference_products import factors_of


def _tensors(*shapes: tuple[int, ...], dtype: str = "float16") -> list[te.Tensor]:
    return [te.placeholder(shape, dtype, name) for shape, name in zip(shapes, "ab", strict=False)]


@pytest.mark.parametrize("batch", [1, 3])
def test_products(batch: int) -> None:
    a, b = _tensors((160, batch, 190), (190, 150, batch))
    k = te.reduce_axis((0, 190), name="k")
    c = te.compute((150, batch, 160), lambda j, n, i: te.sum(
        b[k, j, n].astype("float32") * a[i, n, k].astype("float32"), axis=k), name="c")  # fmt: skip
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal([int(e) for e in t.shape]) for t in (a, b))
    assert factors_of(c.op) is not None
    np.testing.assert_allclose(reference(c, {a: x, b: y})[0], np.einsum("ink,kjn->jni", x, y), rtol=1e-12, atol=1e-12)


def test_other_sums_are_added_term_by_term() -> None:
    a, b = _tensors((200, 200), (200, 200))
    k = te.reduce_axis((0, 200), name="k")
    other = te.reduce_axis((0, 199), name="other")
    terms = {
        "shifted": lambda i, j: te.sum(a[i, other] * b[other + 1, j], axis=other),
        "part": lambda i, j: te.sum(a[i, other] * b[other, j], axis=other),
        "largest": lambda i, j: te.max(a[i, k] * b[k, j], axis=k),
        "sums": lambda i, j: te.sum(a[i, k] + b[k, j], axis=k),
        "diagonal": lambda i, j: te.sum(a[i, k] * b[k, k], axis=k),
        "some": lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, where=k < 100),
    }
    for name, term in terms.items():
        assert factors_of(te.compute((200, 200), term, name=name).op) is None
    assert factors_of(te.compute((200, 200), lambda i, j: te.sum(a[j, k] * b[k, i], axis=k), name="c").op) is not None
