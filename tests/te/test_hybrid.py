"""te.hybrid.script: functions as operations, judged by the same functions run by Python on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tests.programs.harness import build, every_target
from tests.te.hybrid_scripts import PROGRAMS, collatz, mathematics, outer_product, row_statistics, triangle
from tilewright import te
from tilewright.tensor.reference import reference

# ruff: noqa: F821  # the words of the language are known where a script is read

Schedule = Callable[[te.Schedule, list[te.Tensor], str], None]


def as_it_is(s: te.Schedule, outs: list[te.Tensor], target: str) -> None:
    """Nothing to schedule."""


def on_blocks(s: te.Schedule, outs: list[te.Tensor], target: str) -> None:
    """The first loop of the text on a grid, where there is one."""
    if target != "llvm":
        x, t = s[outs[0]].split(outs[0].op.axis[0], factor=4)
        s[outs[0]].bind(x, te.thread_axis("blockIdx.x"))
        s[outs[0]].bind(t, te.thread_axis("threadIdx.x"))


def check(script: Any, *values: Any, target: str = "", schedule: Schedule = as_it_is) -> list[te.Tensor]:
    """What a script computes on a target ("": the interpreter) is what Python computes with the same function."""
    tensors = [te.placeholder(v.shape, str(v.dtype)) if isinstance(v, np.ndarray) else v for v in values]
    made, want = script(*tensors), script(*values)
    outs, wanted = (made, want) if isinstance(made, list) else ([made], [want])
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    args = [*(t for t in tensors if isinstance(t, te.Tensor)), *outs]
    s = te.create_schedule(outs[0].op)
    schedule(s, outs, target)
    results = [np.full([int(e) for e in o.shape], 77, str(o.dtype)) for o in outs]
    if not target:
        run(tw.lower(s, args)["main"], *arrays, *results, races=False)
    else:
        f, dev = build(s, args, target), tw.device(target)
        on_device = [tw.nd.array(a, dev) for a in (*arrays, *results)]
        f(*on_device)
        results = [a.numpy() for a in on_device[len(arrays) :]]
    for found, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
    return outs


@pytest.mark.parametrize("target", ["", "llvm"])
@pytest.mark.parametrize(("script", "values"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_programs(script: Any, values: tuple[Any, ...], target: str) -> None:
    outs = check(script, *values, target=target)
    arrays = dict(zip(outs[0].op.inputs, (v for v in values if isinstance(v, np.ndarray)), strict=True))
    want = script(*values)
    for found, expected in zip(reference(outs, arrays), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@every_target
@pytest.mark.parametrize("script", [row_statistics, outer_product, collatz])
def test_loops_on_threads(script: Any, target: str) -> None:
    values = next(values for known, values in PROGRAMS if known is script)
    check(script, *values, target=target, schedule=on_blocks)


@te.hybrid.script
def reversed_in_blocks(a):
    b = output_tensor(a.shape, "float32")
    for bx in bind("blockIdx.x", 4):
        tile = allocate((64,), "float32", "shared")
        for tx in bind("threadIdx.x", 64):
            tile[tx] = a[bx * 64 + tx]
        for tx in bind("threadIdx.x", 64):
            b[bx * 64 + tx] = tile[63 - tx]
    return b


@every_target
def test_threads_of_the_text(target: str) -> None:
    if target == "llvm":
        target = ""
    (out,) = check(reversed_in_blocks, floats(256), target=target)
    assert out.op.axis == ()
    if target == "opencl":
        f = build(te.create_schedule(out.op), [*out.op.inputs, out], target)
        assert f.imported_modules[0].get_source().count("barrier(") == 1


def lowered(s: te.Schedule, *args: te.Tensor) -> list[str]:
    """The statements of the program, without the lines that declare views."""
    lines = str(tw.lower(s, list(args))).partition("tir.noalias")[2].splitlines()[1:]
    return [line.strip() for line in lines if line and "= T.Buffer(" not in line]


def pair() -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    a, b = te.placeholder((20,), name="a"), te.placeholder((8,), name="b")
    c = outer_product(a, b)
    return te.create_schedule(c.op), a, b, c


def test_split_with_a_guard_reorder_and_vectorize() -> None:
    s, a, b, c = pair()
    outer, inner = s[c].split(c.op.axis[0], factor=3)
    s[c].reorder(c.op.axis[1], outer, inner)
    lines = lowered(s, a, b, c)
    assert lines == [
        "for j, i_outer, i_inner in T.grid(8, 7, 3):",
        "if T.likely(i_outer * 3 + i_inner < 20):",
        "outer_product_1[i_outer * 24 + i_inner * 8 + j] = a[i_outer * 3 + i_inner] * b[j]",
    ]
    s, a, b, c = pair()
    s[c].vectorize(c.op.axis[1])
    s[c].parallel(c.op.axis[0])
    assert lowered(s, a, b, c) == [
        "for i in T.parallel(20):",
        "outer_product_1[i * 8:i * 8 + 8] = T.Broadcast(a[i], 8) * b[0:8]",
    ]


def test_fuse_and_bind() -> None:
    s, a, b, c = pair()
    fused = s[c].fuse(*c.op.axis)
    x, t = s[c].split(fused, factor=32)
    s[c].bind(x, te.thread_axis("blockIdx.x"))
    s[c].bind(t, te.thread_axis("threadIdx.x"))
    assert lowered(s, a, b, c) == [
        'blockIdx_x = T.launch_thread("blockIdx.x", 5)',
        'threadIdx_x = T.launch_thread("threadIdx.x", 32)',
        "outer_product_1[blockIdx_x * 32 + threadIdx_x] = a[blockIdx_x * 4 + threadIdx_x // 8] * b[threadIdx_x % 8]",
    ]


@pytest.mark.parametrize("target", ["", "llvm"])
def test_what_schedules_do_keeps_the_values(target: str) -> None:
    def steps(s: te.Schedule, outs: list[te.Tensor], target: str) -> None:
        (c,) = outs
        i, j = c.op.axis
        io, ii = s[c].split(i, nparts=5)
        jo, ji = s[c].split(j, factor=3)
        s[c].reorder(ji, ii, io, jo)
        s[c].unroll(s[c].fuse(ii, io))

    check(outer_product, floats(13), floats(7), target=target, schedule=steps)


def test_loops_of_several_nests() -> None:
    def steps(s: te.Schedule, outs: list[te.Tensor], target: str) -> None:
        (b,) = outs
        outer, below, above = b.op.axis
        assert [axis.name for axis in b.op.axis] == ["i", "j", "j"]
        s[b].split(outer, factor=4)
        s[b].split(below, factor=4)
        s[b].vectorize(s[b].split(above, factor=2)[1])

    check(triangle, floats(6, 6), target="llvm", schedule=steps)
    check(triangle, floats(6, 6), schedule=steps)


def test_a_part_of_a_larger_program() -> None:
    """Computed from a script and read by one; what it reads may be computed at one of its loops."""
    x = te.placeholder((6,), name="x")
    before = te.compute((6,), lambda i: x[i] + 1, name="before")
    c = outer_product(before, before)
    after = te.compute((6, 6), lambda i, j: c[i, j] * 2, name="after")
    s = te.create_schedule(after.op)
    s[before].compute_at(s[c], c.op.axis[0])
    s[c].compute_at(s[after], after.op.axis[0])
    values = floats(6)
    out = tw.nd.empty((6, 6))
    tw.build(s, [x, after], "llvm")(tw.nd.array(values), out)
    np.testing.assert_allclose(out.numpy(), np.outer(values + 1, values + 1) * 2, rtol=1e-6)


def test_sizes_known_at_the_call() -> None:
    n = te.size_var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((5,), name="b")
    c = outer_product(a, b)
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=4)
    f = tw.build(s, [a, b, c], "llvm")
    for size in (1, 6, 8):
        x, y = floats(size), floats(5)
        out = tw.nd.empty((size, 5))
        f(tw.nd.array(x), tw.nd.array(y), out)
        np.testing.assert_allclose(out.numpy(), np.outer(x, y))


@te.hybrid.script
def with_a_size(a, n):
    b = output_tensor((4,), "float32")
    for i in range(4):
        b[i] = a[i] * n
    return b


def test_a_size_that_is_no_argument() -> None:
    n = te.var("n")
    a = te.placeholder((4,), name="a")
    b = with_a_size(a, n)
    s = te.create_schedule(b.op)
    with refused("lower", "uses the size 'n'", fix="add it to the arguments"):
        tw.lower(s, [a, b])
    out = tw.nd.empty((4,))
    tw.build(s, [a, n, b], "llvm")(tw.nd.array(np.ones(4, "float32")), 3, out)
    assert out.numpy().tolist() == [3, 3, 3, 3]


@te.hybrid.script
def roots(a, n):
    b = output_tensor((n,), "float32")
    assert n < 10, "n is to be below 10"
    for i in range(n):
        assert a[i] >= 0
        b[i] = sqrt(a[i])
    return b


@every_target
def test_assertions(target: str) -> None:
    n = te.size_var("n")
    a = te.placeholder((n,), name="a")
    b = roots(a, n)
    s = te.create_schedule(b.op)
    on_blocks(s, [b], target)
    f, dev = build(s, [a, b], target), tw.device(target)
    for values, says in (
        (np.ones(4, "float32"), ""),
        (-np.ones(4, "float32"), "`a[i] >= 0` does not hold"),
        (np.ones(12, "float32"), "n is to be below 10"),
        (np.ones(3, "float32"), ""),
    ):
        args = tw.nd.array(values, dev), tw.nd.empty(values.shape, device=dev)
        if says:
            with refused("assert", says, fix="test_hybrid.py:"):
                f(*args)
        else:
            f(*args)
            assert args[1].numpy().tolist() == values.tolist()


def test_assertions_of_a_saved_module(tmp_path: Any) -> None:
    a = te.placeholder((3,), name="a")
    b = roots(a, 3)
    tw.build(te.create_schedule(b.op), [a, b], "llvm").save(str(tmp_path / "roots.tw"))
    f = tw.runtime.load_module(str(tmp_path / "roots.tw"))
    with refused("assert", "does not hold"):
        f(tw.nd.array(-np.ones(3, "float32")), tw.nd.empty((3,)))


def test_mathematics() -> None:
    check(mathematics, (np.arange(20, dtype="float32") - 9.3) / 4)
    check(mathematics, (np.arange(20, dtype="float32") - 9.3) / 4, target="llvm")


def test_as_python() -> None:
    """On arrays the function is Python's: its exceptions come through, with a note."""
    assert outer_product(np.ones(2), np.ones(3)).shape == (2, 3)
    assert outer_product.__name__ == "outer_product"
    assert repr(outer_product) == "Script(outer_product(a, b))"
    with pytest.raises(IndexError) as caught:
        with_a_size(np.ones(2, "float32"), 1)
    assert "the script 'with_a_size'" in caught.value.__notes__[0]
    with pytest.raises(AssertionError):
        roots(-np.ones(2), 2)


def test_threads_of_the_target() -> None:
    @te.hybrid.script
    def blocks(a):
        b = output_tensor(a.shape, "float32")
        for i in bind("threadIdx.x", max_num_threads(True)):
            if i < a.shape[0]:
                b[i] = a[i]
        return b

    with tw.target.Target("cuda"):
        out = blocks(te.placeholder((8,), name="a"))
    assert 'launch_thread("threadIdx.x", 1024)' in str(tw.lower(te.create_schedule(out.op), [*out.op.inputs, out]))


def test_closures() -> None:
    scale, rows = np.float32(2.5), te.placeholder((3,), name="rows")

    @te.hybrid.script
    def scaled(a, many):
        b = output_tensor((3,), "float32")
        for i in range(3):
            b[i] = a[i] * scale + math.pi
            for k in const_range(len(many)):
                b[i] += many[k][i]
        return b

    out = scaled(rows, (rows, rows))
    got = tw.nd.empty((3,))
    tw.build(te.create_schedule(out.op), [rows, out], "llvm")(tw.nd.array(np.ones(3, "float32")), got)
    np.testing.assert_allclose(got.numpy(), 4.5 + math.pi, rtol=1e-6)
    ones = np.ones(3, "float32")
    np.testing.assert_allclose(scaled(ones, (ones, ones)), 4.5 + math.pi, rtol=1e-6)
