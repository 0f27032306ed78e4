"""`te.hybrid.build`: schedules as text in the hybrid language, which computes the same on arrays and as operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir


def product(schedule: str) -> tuple[te.Schedule, list[te.Tensor], list[te.Tensor]]:
    A, B = te.placeholder((9, 7), name="A"), te.placeholder((7, 10), name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((9, 10), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((9, 10), lambda i, j: tir.if_then_else(i < 8, te.exp(te.max(C[i, j], 0.0) / 16), 1.5), name="D")
    s = te.create_schedule(D.op)
    i, j = D.op.axis
    if schedule == "tiles":
        outer, inner = s[D].split(j, factor=4)
        s[C].compute_at(s[D], outer)
        s[D].parallel(i)
        s[D].unroll(inner)
    if schedule == "threads":
        s[C].compute_at(s[D], j)
        s[C].set_scope("local")
        s[D].bind(i, te.thread_axis("blockIdx.x"))
        s[D].bind(j, te.thread_axis("threadIdx.x"))
    return s, [A, B], [D]


def expected(a: Any, b: Any) -> np.ndarray:
    made: np.ndarray = np.exp(np.maximum(a.astype("float64") @ b, 0) / 16)
    made[8:] = 1.5
    return made


@pytest.mark.parametrize("schedule", ["plain", "tiles", "threads"])
def test_the_text_computes_the_same(schedule: str) -> None:
    s, inputs, outputs = product(schedule)
    module = te.hybrid.build(s, inputs, outputs, "f")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, [int(e) for e in t.shape]).astype("float32") for t in inputs)
    np.testing.assert_allclose(module(a, b), expected(a, b), rtol=1e-6)
    if schedule == "threads":
        return
    out = module(*inputs)  # as an operation
    on_cpu, results = te.create_schedule(out.op), tw.nd.array(np.full((9, 10), np.nan, "float32"))
    tw.build(on_cpu, [*inputs, out], "llvm")(tw.nd.array(a), tw.nd.array(b), results)
    np.testing.assert_allclose(results.numpy(), expected(a, b), rtol=1e-6)


def test_the_text() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(B.op.axis[0], factor=3)
    s[B].parallel(outer)
    assert te.hybrid.build(s, [A], [B]).get_source() == (
        "def hybrid_func(A):\n"
        "    B = output_tensor((8,), 'float32')\n"
        "    for i_outer in parallel(3):\n"
        "        for i_inner in range(3):\n"
        "            if likely((((i_outer * 3) + i_inner) < 8)):\n"
        "                B[((i_outer * 3) + i_inner)] = (A[((i_outer * 3) + i_inner)] * float32(2.0))\n"
        "    return B\n"
    )


def test_files(tmp_path: Path) -> None:
    s, inputs, outputs = product("tiles")
    module = te.hybrid.build(s, inputs, outputs, "f")
    module.save(str(tmp_path / "f"))
    again = te.hybrid.HybridModule()
    again.load(str(tmp_path / "f.py"))
    a, b = np.ones((9, 7), "float32"), np.ones((7, 10), "float32")
    np.testing.assert_array_equal(again(a, b), module(a, b))
    (tmp_path / "empty.py").write_text("\n")
    with refused("hybrid.HybridModule", "holds no function", fix="a file of save"):
        again.load(str(tmp_path / "empty.py"))


def test_a_triangle_of_loops() -> None:
    """The largest values of both variables do not meet: no access is refused for their sum."""

    @te.hybrid.script
    def triangle(b: Any) -> Any:
        c = output_tensor((10, 10), "float32")  # type: ignore[name-defined]  # noqa: F821
        for i in range(10):
            for j in range(i, 10):
                c[i, j] = b[j]
        return c

    b = te.placeholder((10,), name="b")
    c = triangle(b)
    written = te.hybrid.build(te.create_schedule(c.op), [b], [c])
    assert written(b).shape == c.shape
    values = np.arange(10, dtype="float32")
    assert np.array_equal(written(values), np.triu(np.tile(values, (10, 1))))


def test_what_the_language_has_no_word_for() -> None:
    A = te.placeholder((8, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    with refused("hybrid.build", "the hybrid language has no word for AllReduce", fix="tw.lower"):
        te.hybrid.build(s, [A], [B])


def test_infinities_and_nan_are_written_as_numbers() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    B = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: te.if_then_else(B[i] > 0, B[i], te.const(float("nan"), "float32")), name="C")
    written = te.hybrid.build(te.create_schedule(C.op), [A], [C])
    values = np.arange(32, dtype="float32").reshape(4, 8) - 12
    np.testing.assert_array_equal(written(values), [np.nan, 3, 11, 19])
    again = written(A)
    out = tw.nd.empty((4,), "float32")
    tw.build(te.create_schedule(again.op), [A, again], "llvm")(tw.nd.array(values), out)
    np.testing.assert_array_equal(out.numpy(), [np.nan, 3, 11, 19])


def test_files_that_cannot_be_written_or_read(tmp_path: Path) -> None:
    module = te.hybrid.HybridModule("def f(a):\n    return a\n", "f")
    module.save(str(tmp_path / "f"))
    assert (tmp_path / "f.py").read_text() == module.get_source()
    with refused("hybrid.HybridModule", "cannot be written", fix="give another path"):
        module.save(str(tmp_path / "nowhere" / "f.py"))
    with refused("hybrid.HybridModule", "cannot be read", fix="give a file that is there"):
        module.load(str(tmp_path / "g.py"))
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    with refused("hybrid.HybridModule", "holds no function", fix="give a file of save"):
        module.load(str(tmp_path / "bytes.py"))
