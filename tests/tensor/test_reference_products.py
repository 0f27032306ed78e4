"""Large products and windows by linear algebra have the values of the sums that they are."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te
from tilewright.core.errors import UserError
from tilewright.tensor import reference_products
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


def _windows(kind: str) -> tuple[list[te.Tensor], te.Tensor, str]:
    """Windows of a tensor: 3 × 3, every second one, with taps two apart; and the sums for `np.einsum`."""
    a, w = _tensors((2, 6, 13, 15), (6, 3, 3) if kind == "depthwise" else (5, 6, 3, 3))
    c, r, s = (te.reduce_axis((0, n), name) for n, name in ((6, "c"), (3, "r"), (3, "s")))
    if kind == "depthwise":
        term = lambda n, c, y, x: te.sum(a[n, c, 8 - 2 * y + r * 2, x * 2 + s * 2 + 0] * w[c, r, s], axis=[r, s])
        return [a, w], te.compute((2, 6, 5, 6), term, name="sums"), "ncyxrs,crs->ncyx"
    term = lambda n, f, y, x: te.sum(a[n, c, 8 - 2 * y + r * 2, x * 2 + s * 2] * w[f, c, r, s], axis=[c, r, s])
    return [a, w], te.compute((2, 5, 5, 6), term, name="sums"), "ncyxrs,fcrs->nfyx"


@pytest.mark.parametrize("copied", [0, 1 << 20])
@pytest.mark.parametrize("kind", ["depthwise", "dense"])
def test_windows(kind: str, copied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_products, "_LEAST_TERMS", 0)
    monkeypatch.setattr(reference_products, "_MOST_COPIED", copied)
    (a, w), sums, letters = _windows(kind)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal([int(e) for e in t.shape]) for t in (a, w))
    assert factors_of(sums.op) is not None
    seen = np.lib.stride_tricks.sliding_window_view(x, (5, 5), (2, 3))[:, :, 8::-2, ::2, ::2, ::2]
    np.testing.assert_allclose(reference(sums, {a: x, w: y})[0], np.einsum(letters, seen, y), rtol=1e-12, atol=1e-12)


def test_windows_outside_of_a_tensor_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_products, "_LEAST_TERMS", 0)
    a, w = _tensors((8,), (3,))
    r = te.reduce_axis((0, 3), "r")
    for first in (-1, 1):
        sums = te.compute((6,), lambda i, first=first: te.sum(a[i + r + first] * w[r], axis=r), name="sums")
        assert factors_of(sums.op) is None
        with pytest.raises(UserError, match="reads element"):
            reference(sums, {a: np.ones(8), w: np.ones(3)})


def test_other_sums_are_added_term_by_term() -> None:
    a, b = _tensors((200, 200), (200, 200))
    k = te.reduce_axis((0, 200), name="k")
    other = te.reduce_axis((0, 199), name="other")
    terms = {
        "outside": lambda i, j: te.sum(a[i, other] * b[other + 2, j], axis=other),
        "largest": lambda i, j: te.max(a[i, k] * b[k, j], axis=k),
        "sums": lambda i, j: te.sum(a[i, k] + b[k, j], axis=k),
        "diagonal": lambda i, j: te.sum(a[i, k] * b[k, k], axis=k),
        "some": lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, where=k < 100),
    }
    for name, term in terms.items():
        assert factors_of(te.compute((200, 200), term, name=name).op) is None
    assert factors_of(te.compute((200, 200), lambda i, j: te.sum(a[j, k] * b[k, i], axis=k), name="c").op) is not None
