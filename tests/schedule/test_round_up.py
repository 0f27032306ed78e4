"""round_up: extents of a stage in whole tiles, and zeros beyond the tensors that it reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tilewright import te

Product = tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor, te.Tensor]


def product(rows: int, columns: int, depth: int) -> Product:
    """D = A Bᵀ, where the product reads views of A and B."""
    A, B = te.placeholder((rows, depth), name="A"), te.placeholder((columns, depth), name="B")
    left = te.compute((rows, depth), lambda i, k: A[i, k], name="left")
    right = te.compute((columns, depth), lambda j, k: B[j, k], name="right")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((rows, columns), lambda i, j: te.sum(left[i, k] * right[j, k], axis=k), name="C")
    D = te.compute((rows, columns), lambda i, j: C[i, j], name="D")
    return te.create_schedule(D.op), A, B, C, D


def tiled(given: Product, size: int, depth: int) -> None:
    """Tiles of size × size sums at a time, `depth` terms each."""
    s, _, _, C, D = given
    i, j, k = s[C].round_up((C.op.axis[0], size), (C.op.axis[1], size), (C.op.reduce_axis[0], depth))
    assert [i, j, k] == [*s[C].op.axis, *s[C].op.reduce_axis]
    left, right = s[C].op.input_tensors
    for view in (left, right):
        copy = s.cache_read(view, "global", [C])
        s[view].compute_inline()
        s[copy].compute_at(s[C], k)
    jo = s[D].tile(*D.op.axis, size, size)[1]
    s[C].compute_at(s[D], jo)
    s[C].reorder(k, i, j)


@pytest.mark.parametrize("extents", [(10, 7, 6), (8, 4, 12), (1, 1, 1), (3, 9, 5)])
@pytest.mark.parametrize(("size", "depth"), [(4, 4), (3, 8), (8, 1)])
def test_products_of_whole_tiles(extents: tuple[int, int, int], size: int, depth: int) -> None:
    given = product(*extents)
    tiled(given, size, depth)
    s, A, B, _, D = given
    rows, columns, terms = extents
    a, b, out = floats(rows, terms), floats(columns, terms), np.full((rows, columns), 77, "float32")
    run(tw.lower(s, [A, B, D])["main"], a, b, out)
    np.testing.assert_allclose(out, a @ b.T, rtol=1e-4, atol=1e-5)


def test_sums_have_no_guards_and_steps_replay() -> None:
    given = product(10, 7, 6)
    tiled(given, 4, 4)
    s, A, B, _, D = given
    text = str(tw.lower(s, [A, B, D]))
    assert text.count("if ") == 2  # rows and columns of the stored results
    assert "T.if_then_else(" in text
    again = te.create_schedule(D.op)
    again.replay(json.loads(json.dumps(s.recorded)))
    assert str(tw.lower(again, [A, B, D])) == text


def test_a_border_grows_by_its_own_condition() -> None:
    """The padded image of a convolution has no second condition, and the window is not touched."""
    A = te.placeholder((9,), name="A")
    W = te.placeholder((3,), name="W")
    border = te.compute((11,), lambda i: te.if_then_else(te.all(i >= 1, i < 10), A[i - 1], 0.0), name="border")
    r = te.reduce_axis((0, 3), name="r")
    B = te.compute((9,), lambda i: te.sum(border[i + r] * W[r], axis=r), name="B")
    C = te.compute((9,), lambda i: B[i], name="C")
    s = te.create_schedule(C.op)
    body = s[border].op.body
    s[B].round_up((B.op.axis[0], 4))
    assert s[border].op.body == body
    assert [int(t.shape[0]) for t in (s[border].op.output(0), s[B].op.output(0))] == [14, 12]
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=4)[0])
    a, w, out = floats(9), floats(3), np.full(9, 77, "float32")
    run(tw.lower(s, [A, W, C])["main"], a, w, out)
    np.testing.assert_allclose(out, np.convolve(np.pad(a, 1), w[::-1], "valid"), rtol=1e-4, atol=1e-5)


def test_other_readers_see_the_old_elements() -> None:
    s, A, B, C, D = product(5, 5, 5)
    E = te.compute((5, 5), lambda i, j: D[i, j] + C.op.input_tensors[0][i, j], name="E")
    s = te.create_schedule(E.op)
    s[C].round_up((C.op.axis[0], 4))
    a, b, out = floats(5, 5), floats(5, 5), np.full((5, 5), 77, "float32")
    run(tw.lower(s, [A, B, E])["main"], a, b, out)
    np.testing.assert_allclose(out, a @ b.T + a, rtol=1e-4, atol=1e-5)


def test_an_even_extent_changes_nothing() -> None:
    s, A, B, C, D = product(8, 8, 8)
    before = str(tw.lower(s, [A, B, D]))
    s[C].round_up(*((axis, 4) for axis in C.op.axis))
    assert str(tw.lower(s, [A, B, D])) == before


def test_mistakes() -> None:
    s, A, _, C, D = product(10, 7, 6)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    with refused("round_up", "'D' is an output", fix="a stage that it reads"):
        s[D].round_up((D.op.axis[0], 4))
    with refused("round_up", "'A' is an input"):
        s[A].round_up((i, 4))
    with refused("round_up", "is not an axis and a multiple", fix="give pairs"):
        s[C].round_up(i, 4)
    with refused("round_up", "multiple=0 for axis 'i' is below 1"):
        s[C].round_up((i, 0))
    with refused(
        "round_up", "would read beyond the ends of 'A', and elements there cannot be made zero", fix="padded copy"
    ):
        s[C.op.input_tensors[0]].round_up((C.op.input_tensors[0].op.axis[0], 4))
    with refused("round_up", "axis 'i' is not an axis of stage 'left'"):
        s[C.op.input_tensors[0]].round_up((i, 4))
    s[C].split(k, factor=2)
    with refused("round_up", "axis 'k' of stage 'C' is no longer a loop"):
        s[C].round_up((k, 4))
    s[C].split(i, factor=2)
    with refused("round_up", "axes i of stage 'C' are split", fix="call round_up first"):
        s[C].round_up((j, 4))


def test_terms_that_are_not_zero() -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] * 2, name="B")
    k = te.reduce_axis((0, 6), name="k")
    for value in (B[k] + 1.0, te.exp(B[k]), B[5 - k], B[k] * A[0]):
        C = te.compute((1,), lambda i, value=value: te.sum(value, axis=k), name="C")
        D = te.compute((1,), lambda i, C=C: C[i], name="D")
        with refused("round_up", "terms of stage 'C' beyond the 6 of axis 'k' are not known to be zero", fix="product"):
            te.create_schedule(D.op)[C].round_up((k, 4))
    largest = te.compute((1,), lambda i: te.max(B[k], axis=k), name="C")
    D = te.compute((1,), lambda i: largest[i], name="D")
    with refused("round_up", "not known to be zero"):
        te.create_schedule(D.op)[largest].round_up((k, 4))
