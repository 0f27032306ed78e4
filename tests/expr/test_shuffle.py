"""`tir.Shuffle`: lanes of vectors and scalars, by the evaluator and by compiled code."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tilewright import te, tir
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Broadcast, Expr

x, y = te.var("x"), te.var("y")
RAMP = tir.Ramp(x, 2, 4)


@pytest.mark.parametrize(
    ("made", "lanes"),
    [
        (tir.Shuffle([RAMP], [3, 2, 1, 0]), [16, 14, 12, 10]),
        (tir.Shuffle([RAMP, tir.Broadcast(y, 2)], [4, 0, 5, 3, 3]), [7, 10, 7, 16, 16]),
        (tir.Shuffle([x, y, x + y, 9], [0, 1, 2, 3]), [10, 7, 17, 9]),
        (tir.Shuffle([RAMP * 3 + 1], [1, 0]), [37, 31]),
    ],
)
def test_lanes(made: Expr, lanes: list[int]) -> None:
    assert made.dtype == f"int32x{len(lanes)}"
    assert evaluate(made, {x: 10, y: 7}).tolist() == lanes


def test_one_lane_is_a_scalar_and_all_lanes_are_the_vector() -> None:
    assert evaluate(tir.Shuffle([RAMP], [2]), {x: 10}) == 14
    assert tir.Shuffle(RAMP, [0, 1, 2, 3]) is RAMP
    assert isinstance(tir.Shuffle([x, y], [1, 1]), Broadcast)


@every_target
def test_a_kernel_reverses_vectors(target: str) -> None:
    A = te.placeholder((32,), name="A")

    def generate(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        axis = te.thread_axis("threadIdx.x")
        place = tir.Ramp(axis.var * 4, 1, 4)
        loaded = tir.Shuffle([tir.BufferLoad(ins[0], [place])], [3, 2, 1, 0])
        body = tir.BufferStore(outs[0], loaded, [place])
        if target == "llvm":
            return tir.For(axis.var, 0, 8, tir.ForKind.SERIAL, body)
        return tir.AttrStmt(axis, "thread_extent", 8, body)

    B = te.extern((32,), [A], generate, name="B")
    module, on = tilewright.build(te.create_schedule(B.op), [A, B], target), tilewright.device(target)
    a, out = np.arange(32, dtype="float32"), tilewright.nd.empty((32,), "float32", on)
    module(tilewright.nd.array(a, on), out)
    np.testing.assert_array_equal(out.numpy(), a.reshape(8, 4)[:, ::-1].ravel())


def test_lanes_that_no_vector_has() -> None:
    with refused("Shuffle", "the lane 4 is asked for", fix="0 to 3"):
        tir.Shuffle([RAMP], [0, 4])
    with refused("Shuffle", "no lane is asked for"):
        tir.Shuffle([RAMP], [])


def test_vectors_of_several_types() -> None:
    with refused("Shuffle", "the vectors have types float32, int32", fix="of one type"):
        tir.Shuffle([x, te.var("f", "float32")], [0, 1])
    with refused("Shuffle", "no vector is given"):
        tir.Shuffle([], [0])


def test_elements_that_are_vectors() -> None:
    held = te.placeholder((4,), "int8x4", name="A")[x]
    for pick in (lambda: tir.Shuffle([held], [1]), lambda: tir.dp4a(held, held), lambda: tir.vectorlow("int8x2", held)):
        with refused("", "is one element of type int8x4", fix="a tensor of int8 with one more dimension, of 4"):
            pick()
