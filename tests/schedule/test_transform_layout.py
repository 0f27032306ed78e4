"""transform_layout: a stage is computed and stored in another order, and its readers find its elements there."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tilewright import te


def chain(rows: int = 8, columns: int = 12) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((rows, columns - 1), lambda i, j: B[i, j] + B[i, j + 1], name="C")
    return te.create_schedule(C.op), A, B, C


def right(s: te.Schedule, A: te.Tensor, C: te.Tensor) -> None:
    values = floats(8, 12)
    out = np.full((8, 11), 77, "float32")
    run(tw.lower(s, [A, C])["main"], values, out)
    np.testing.assert_allclose(out, values[:, :-1] + values[:, 1:] + 2, rtol=1e-5)


MAPPINGS: dict[str, Any] = {
    "transposed": lambda i, j: [j, i],
    "in tiles": lambda i, j: [j // 4, i, j % 4],
    "flat": lambda i, j: [i * 12 + j],
    "separated": lambda i, j: [i, te.AXIS_SEPARATOR, j],
    "tiles of both": lambda i, j: [i // 2, j // 6, i % 2, j % 6],
    "from the middle": lambda i, j: [(i * 12 + j) // 16, (i * 12 + j) % 16],
}


@pytest.mark.parametrize("name", MAPPINGS)
@pytest.mark.parametrize("inside", [False, True])
def test_values_stay(name: str, inside: bool) -> None:
    s, A, B, C = chain()
    axes = s[B].transform_layout(MAPPINGS[name])
    assert list(s[B].op.axis) == axes == s[B].leaf_iter_vars
    if inside:
        s[B].compute_at(s[C], C.op.axis[0])
    right(s, A, C)


def test_new_axes_are_scheduled_and_steps_replay() -> None:
    s, A, B, C = chain()
    tiles, _, lanes = s[B].transform_layout(lambda i, j: [j // 4, i, j % 4])
    s[B].vectorize(lanes)
    s[B].parallel(tiles)
    right(s, A, C)
    again = te.create_schedule(C.op)
    again.replay(json.loads(json.dumps(s.recorded)))
    assert str(tw.lower(again, [A, C])) == str(tw.lower(s, [A, C]))


def test_reductions_pairs_and_caches() -> None:
    A = te.placeholder((6, 8, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda a, b: (te.const(0, a), te.min_value(b)), name="both"
    )
    S, M = te.compute((6, 8), lambda i, j: both((A[i, j, k], A[i, j, k]), axis=k), name="S")
    C = te.compute((6, 8), lambda i, j: S[i, j] - M[i, j], name="C")
    s = te.create_schedule(C.op)
    s[S].transform_layout(lambda i, j: [j // 2, i, j % 2])
    cache, _ = s.cache_write([S, M], "local")
    s[cache].compute_at(s[S], s[S].op.axis[1])
    s[cache].split(s[cache].op.reduce_axis[0], factor=2)
    values, out = floats(6, 8, 5), np.full((6, 8), 77, "float32")
    run(tw.lower(s, [A, C])["main"], values, out)
    np.testing.assert_allclose(out, values.sum(2) - values.max(2), rtol=1e-4, atol=1e-5)


def test_mistakes() -> None:
    s, A, B, C = chain()
    primitive = "transform_layout"
    with refused(primitive, "'C' is an output", fix="a stage that it reads"):
        s[C].transform_layout(lambda i, j: [j, i])
    with refused(primitive, "'A' is an input"):
        s[A].transform_layout(lambda i, j: [j, i])
    with refused(primitive, "the mapping of stage 'B' is 3", fix="give a function"):
        s[B].transform_layout(3)
    with refused(primitive, "the mapping of stage 'B' returns", fix="a list of integer expressions"):
        s[B].transform_layout(lambda i, j: i)
    for wrong in (lambda i, j: [i], lambda i, j: [i, j // 5, j % 5], lambda i, j: [i, j * 2], lambda i, j: [i, j, i]):
        with refused(primitive, "do not number the elements of stage 'B', (i: 8, j: 12)", fix="to one index"):
            s[B].transform_layout(wrong)
    s[B].storage_align(B.op.axis[0], 4, 1)
    with refused(primitive, "is not a plain te.compute", fix="before tensorize"):
        s[B].transform_layout(lambda i, j: [j, i])
    s, A, B, C = chain()
    s[B].split(B.op.axis[0], factor=4)
    with refused(primitive, "axes i of stage 'B' are split", fix="split the axes that it returns"):
        s[B].transform_layout(lambda i, j: [j, i])


def test_an_argument_is_the_callers() -> None:
    s, A, B, C = chain()
    s[B].transform_layout(lambda i, j: [j, i])
    with refused("transform_layout", "'B' is an argument in the caller's memory", fix="leave 'B' out"):
        tw.lower(s, [A, B, C])


def test_readers_and_producers_that_know_the_dimensions() -> None:
    s, A, B, C = chain()
    s = te.create_schedule(C.op)
    cache = s.cache_read(A, "global", [B])
    s[cache].compute_at(s[B], B.op.axis[0])
    with refused("transform_layout", "'A.global' is computed at a data axis of stage 'B'", fix="compute_at"):
        s[B].transform_layout(lambda i, j: [j, i])
    D = te.extern((8, 12), [B], lambda ins, outs: outs[0].vstore([0, 0], ins[0].vload([0, 0])), name="D")
    s = te.create_schedule(D.op)
    with refused("transform_layout", "'B' is read by 'D', a statement or a scan", fix="declare the tensor"):
        s[B].transform_layout(lambda i, j: [j, i])
