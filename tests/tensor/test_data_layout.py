"""Layouts as text, and shapes and indices between two of them."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.topi.utils import get_const_tuple


def test_a_layout_knows_its_dimensions() -> None:
    layout = tir.layout("NCHW16c")
    assert isinstance(layout, tir.Layout)
    assert [layout.factor_of(d) for d in "cCNX"] == [16, 16, -1, -1]
    assert [layout.index_of(d) for d in "NCHWcO"] == [0, 1, 2, 3, 4, -1]
    assert all(d in layout for d in "NCHWc")
    assert "16c" in layout
    assert "O" not in layout
    assert 3 not in layout
    assert (len(layout), layout[0], layout[4], layout[-1], list(layout)) == (5, "N", "c", "c", list("NCHWc"))
    assert (layout.name, str(layout), repr(layout)) == ("NCHW16c", "NCHW16c", "Layout(NCHW16c)")
    assert tir.layout(layout) is layout
    with pytest.raises(IndexError):
        layout[5]


@pytest.mark.parametrize(
    ("src", "dst"),
    [("NCHW", "ABCD"), ("__undef__", "NCHW"), ("NCHW", "__undef__"), ("", "NCHW"), ("NCHW", ""), ("", "")],
)
def test_layouts_that_do_not_go_together(src: str, dst: str) -> None:
    assert tir.bijective_layout(src, dst) is None


def test_shapes_and_indices() -> None:
    both = tir.bijective_layout("NCHW", "NCHW16c")
    assert isinstance(both, tir.BijectiveLayout)
    assert get_const_tuple(both.forward_shape((1, 32, 7, 7))) == (1, 2, 7, 7, 16)
    assert get_const_tuple(both.backward_shape((1, 2, 7, 7, 16))) == (1, 32, 7, 7)
    assert get_const_tuple(both.forward_index([0, 18, 6, 6])) == (0, 1, 6, 6, 2)
    assert get_const_tuple(both.backward_index([0, 1, 6, 6, 2])) == (0, 18, 6, 6)
    i = te.var("i")
    assert str(both.forward_index([0, i, 6, 6])[1]) == "i // 16"
    assert repr(both) == "BijectiveLayout(NCHW -> NCHW16c)"


@pytest.mark.parametrize("seed", range(8))
def test_elements_keep_their_place(seed: int) -> None:
    """Against NumPy: reshaped into blocks, transposed, and asked for each element."""
    r = Random(seed)
    blocks = {d: r.choice((1, 2, 3)) for d in "NCH"}
    shape = tuple(blocks[d] * r.randint(1, 3) for d in "NCH")
    axes = [*"NCH", *(d.lower() for d in "NCH" if blocks[d] > 1)]
    r.shuffle(axes)
    text = "".join(d if d.isupper() else f"{blocks[d.upper()]}{d}" for d in axes)
    both = tir.bijective_layout("NCH", text)
    assert both is not None
    data = np.arange(np.prod(shape)).reshape(shape)
    split = data.reshape([n for d, e in zip("NCH", shape, strict=True) for n in (e // blocks[d], blocks[d])])
    order = ["N", "n", "C", "c", "H", "h"]
    kept = [*axes, *(d.lower() for d in "NCH" if blocks[d] == 1)]
    moved = split.transpose([order.index(d) for d in kept])
    moved = moved.reshape(moved.shape[: len(axes)])
    assert get_const_tuple(both.forward_shape(shape)) == moved.shape
    assert get_const_tuple(both.backward_shape(moved.shape)) == shape
    for at in product(*map(range, shape)):
        there: Any = get_const_tuple(both.forward_index(list(at)))
        assert moved[there] == data[at]
        assert get_const_tuple(both.backward_index(list(there))) == at


def test_what_is_not_a_layout() -> None:
    for text in ("NN", "NCHW16", "16c", "N-C", 3):
        with refused("layout", "which is not a layout", fix="NCHW16c"):
            tir.layout(text)
    both = tir.bijective_layout("NCHW", "NHWC")
    with refused("forward_shape", "does not have one number for each of the 4 dimensions", fix="a list"):
        both.forward_shape((1, 2))
    with refused("backward_index", "does not have one number", fix="a list"):
        both.backward_index(3)
    with refused("layout", "'N' is not a number of a dimension", fix="give an int"):
        tir.layout("NC")["N"]
