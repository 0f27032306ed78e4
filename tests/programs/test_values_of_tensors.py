"""Values of tensors in every place where an expression can stand, on every target, against Python.

What `lower` accepts, `build` accepts, for the CPU by LLVM and in C, for OpenCL and CUDA; and the result is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.programs.harness import build, result
from tilewright import te, tir
from tilewright.tensor.reference import reference

N, M = 6, 9
TARGETS = ["llvm", "c", *(pytest.param(gpu, marks=getattr(pytest.mark, gpu)) for gpu in ("opencl", "cuda"))]
A = np.random.default_rng(0).integers(-3, 4, (N, M)).astype("float32")
L = np.array([3, 0, -2, 9, 1, 5], "int32")
COUNTS = L.clip(0)
GRIDS = ("opencl", "cuda")


def inputs() -> tuple[Any, Any]:
    return te.placeholder((N, M), name="A"), te.placeholder((N,), "int32", "L")


def check(target: str, out: Any, given: tuple[Any, Any], wanted: Any, schedule: Any = None) -> None:
    lower_and_build = te.create_schedule(out.op)
    if schedule is not None:
        schedule(lower_and_build, target)
    elif target in GRIDS and out.op.body:
        lower_and_build[out].bind(out.op.axis[0], te.thread_axis("threadIdx.x"))
    module = build(lower_and_build, [*given, out], target)
    shape = tuple(int(extent) for extent in out.shape)
    np.testing.assert_allclose(result(module, [A, L], shape, str(out.dtype)), wanted)


def reduced(first: Callable[..., Any], last: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    def element(a: Any, n: Any, i: Any) -> Any:
        r = te.reduce_axis((first(n, i), last(n, i)), "r")
        return te.sum(a[i, r], axis=r, **{key: of(n, i, r) for key, of in more.items()})

    return element


IN_DECLARATIONS: dict[str, tuple[Callable[..., Any], Callable[[int], float]]] = {
    "extent": (reduced(lambda n, i: 0, lambda n, i: n[i]), lambda i: A[i, : COUNTS[i]].sum()),
    "extent of a sum": (reduced(lambda n, i: 0, lambda n, i: n[i] + n[2]), lambda i: A[i, : max(L[i] - 2, 0)].sum()),
    "extent read twice": (reduced(lambda n, i: 0, lambda n, i: n[te.max(n[0], 0)]), lambda i: A[i].sum()),
    "start": (reduced(lambda n, i: te.max(n[i], 0), lambda n, i: M), lambda i: A[i, COUNTS[i] :].sum()),
    "where": (
        reduced(lambda n, i: 0, lambda n, i: M, where=lambda n, i, r: r < n[i]),
        lambda i: A[i, : COUNTS[i]].sum(),
    ),
    "init": (
        reduced(lambda n, i: 0, lambda n, i: n[i], init=lambda n, i, r: n[i].astype("float32")),
        lambda i: L[i] + A[i, : COUNTS[i]].sum(),
    ),
    "index": (lambda a, n, i: a[i, te.max(te.min(n[i], M - 1), 0)], lambda i: A[i, min(COUNTS[i], M - 1)]),
    "condition": (lambda a, n, i: te.if_then_else(n[i] > 2, a[i, 0], a[i, 1]), lambda i: A[i, 0 if L[i] > 2 else 1]),
    "select": (lambda a, n, i: tir.Select(n[i] > 2, a[i, 0], a[i, 1]), lambda i: A[i, 0 if L[i] > 2 else 1]),
    "guarded index": (
        lambda a, n, i: te.if_then_else(te.all(n[i] >= 0, n[i] < M), a[i, n[i]], 0.5),
        lambda i: A[i, L[i]] if 0 <= L[i] < M else 0.5,
    ),
}


@pytest.mark.parametrize("target", TARGETS)
def test_in_declarations(target: str) -> None:
    for name, (element, value) in IN_DECLARATIONS.items():
        a, n = inputs()
        out = te.compute((N,), lambda i, a=a, n=n, element=element: element(a, n, i), name="B")
        wanted = np.array([value(i) for i in range(N)])
        check(target, out, (a, n), wanted)
        (found,) = reference([out], {a: A, n: L})
        np.testing.assert_array_equal(found, wanted, err_msg=name)


def loop_end(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    b[i] = 0.0
    with ib.for_range(0, n[i], "j") as j:
        b[i] = b[i] + a[i, j]


def loop_start(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    b[i] = 0.0
    with ib.for_range(te.max(n[i], 0), M, "j") as j:
        b[i] = b[i] + a[i, j]


def branch(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    with ib.if_scope(n[i] > 2):
        b[i] = a[i, 0]
    with ib.else_scope():
        b[i] = a[i, 1]


def repeated(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    count = ib.allocate("int32", 1, "count", scope="local")
    count[0] = 0
    b[i] = 0.0
    with ib.while_loop(count[0] < n[i]):
        b[i] = b[i] + a[i, count[0]]
        count[0] = count[0] + 1


def changing_end(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    """The range of a loop is that at its beginning."""
    count = ib.allocate("int32", 1, "count", scope="local")
    count[0] = n[i]
    b[i] = 0.0
    with ib.for_range(0, count[0], "j") as j:
        b[i] = b[i] + a[i, j]
        count[0] = count[0] - 1


def changing_start(ib: Any, a: Any, n: Any, b: Any, i: Any) -> None:
    count = ib.allocate("int32", 1, "count", scope="local")
    count[0] = te.min(te.max(n[i], 0), M - 2)
    b[i] = 0.0
    with ib.for_range(count[0], count[0] + 2, "j") as j:
        b[i] = b[i] + a[i, j]
        count[0] = count[0] + 1


IN_STATEMENTS: dict[Callable[..., None], Callable[[int], float]] = {
    loop_end: lambda i: A[i, : COUNTS[i]].sum(),
    loop_start: lambda i: A[i, COUNTS[i] :].sum(),
    branch: lambda i: A[i, 0 if L[i] > 2 else 1],
    repeated: lambda i: A[i, : COUNTS[i]].sum(),
    changing_end: lambda i: A[i, : COUNTS[i]].sum(),
    changing_start: lambda i: A[i, min(COUNTS[i], M - 2) :][:2].sum(),
}


def by_statement(target: str, a: Any, n: Any, write: Callable[..., None]) -> Any:
    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        buffers = [ib.buffer_ptr(buffer) for buffer in (*ins, *outs)]
        if target in GRIDS:
            thread = te.thread_axis("threadIdx.x")
            ib.scope_attr(thread, "thread_extent", N)
            write(ib, *buffers, thread.var)
        else:
            with ib.for_range(0, N, "i") as i:
                write(ib, *buffers, i)
        return ib.get()

    return te.extern((N,), [a, n], body, name="B", dtype="float32")


@pytest.mark.parametrize("target", TARGETS)
def test_in_statements(target: str) -> None:
    for write, value in IN_STATEMENTS.items():
        a, n = inputs()
        wanted = np.array([value(i) for i in range(N)])
        for each in dict.fromkeys((target, "cuda")) if target == "opencl" else (target,):
            out = by_statement(each, a, n, write)
            if each == "cuda":
                build(te.create_schedule(out.op), [a, n, out], each)
            else:
                check(target, out, (a, n), wanted, schedule=lambda s, target: None)


@pytest.mark.parametrize("target", TARGETS)
def test_host_code_reads_values_around_kernels(target: str) -> None:
    """On a grid, the loop, the branch and the number of threads are decided by host code."""

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        (a, n), b = map(ib.buffer_ptr, ins), ib.buffer_ptr(outs[0])

        def each(count: Any, store: Callable[[Any], None]) -> None:
            if target in GRIDS:
                with ib.new_scope():
                    thread = te.thread_axis("threadIdx.x")
                    ib.scope_attr(thread, "thread_extent", count)
                    store(thread.var)
            else:
                with ib.for_range(0, count, "i") as i:
                    store(i)

        def zero(i: Any) -> None:
            b[i] = 0.0

        def add(i: Any) -> None:
            b[i] = b[i] + a[i, 0]

        each(N, zero)
        with ib.for_range(0, n[0] * 2 - n[4], "k"), ib.if_scope(n[3] * 2 > 5):
            each(n[5], add)
        return ib.get()

    a, n = inputs()
    out = te.extern((N,), [a, n], body, name="B", dtype="float32")
    wanted = np.where(np.arange(N) < 5, 5 * A[:, 0], 0)
    check(target, out, (a, n), wanted, schedule=lambda s, target: None)


@pytest.mark.parametrize("target", TARGETS)
def test_in_a_scan(target: str) -> None:
    a, n = inputs()
    state, first = te.placeholder((N, M), name="S"), te.compute((1, M), lambda t, j: a[t, j], name="first")

    def following(t: Any, j: Any) -> Any:
        r = te.reduce_axis((0, n[t]), "r")
        return te.sum(te.if_then_else(n[t] > 2, state[t - 1, r] * a[t, j], 1.0), axis=r)

    update = te.compute((N, M), following, name="update")
    out = te.scan(first, update, state, inputs=[a, n], name="B")

    def schedule(s: Any, target: str) -> None:
        if target in GRIDS:
            thread = te.thread_axis((0, M), "threadIdx.x")
            s[out].env_threads([thread])
            for part in (first, update):
                s[part].bind(part.op.axis[1], thread)

    wanted = A.copy()
    for t in range(1, N):
        before = wanted[t - 1].copy()
        wanted[t] = [sum(before[r] * A[t, j] if L[t] > 2 else 1 for r in range(COUNTS[t])) for j in range(M)]
    check(target, out, (a, n), wanted, schedule)


def test_in_scripts() -> None:
    @te.hybrid.script
    def sums(a, n):  # type: ignore[no-untyped-def]
        b = output_tensor((a.shape[0],), "float32")  # type: ignore[name-defined]  # noqa: F821
        for i in range(a.shape[0]):
            b[i] = 0.0
            for k in range(n[i]):
                if n[k] < 5:
                    b[i] = b[i] + a[i, k]
        return b

    a, n = inputs()
    out = sums(a, n)
    lengths = L.clip(max=N)
    wanted = [sum(A[i, k] for k in range(max(lengths[i], 0)) if lengths[k] < 5) for i in range(N)]
    for target, factor in (("llvm", 0), ("c", 0), ("llvm", 4)):
        s = te.create_schedule(out.op)
        if factor:
            s[out].split(s[out].op.axis[1], factor=factor)
        found = result(build(s, [a, n, out], target), [A, lengths], (N,), "float32")
        np.testing.assert_array_equal(found, wanted)


def test_gradients_of_ranges_that_are_read() -> None:
    a, n = inputs()
    head = te.placeholder((N,), name="head")
    weights = np.arange(1, N + 1).astype("float32")
    distinct = np.random.default_rng(1).permutation(N * M).reshape(N, M).astype("float32")

    def largest(i: Any) -> Any:
        r = te.reduce_axis((0, n[i]), "r")
        return te.max(a[i, r] * 2, axis=r)

    def total(i: Any) -> Any:
        r = te.reduce_axis((0, n[i]), "r")
        return te.sum(a[i, r] * a[i, 0], axis=r)

    best, sums = np.zeros((N, M)), np.zeros((N, M))
    for i, count in enumerate(COUNTS):
        if count:
            best[i, distinct[i, :count].argmax()] = 2 * weights[i]
            sums[i, :count] += weights[i] * distinct[i, 0]
            sums[i, 0] += weights[i] * distinct[i, :count].sum()
    for element, wanted in ((largest, best), (total, sums)):
        (made,) = te.gradient(te.compute((N,), element, name="B"), [a], head=head)
        module = build(te.create_schedule(made.op), [a, n, head, made], "llvm")
        np.testing.assert_allclose(result(module, [distinct, L, weights], (N, M), "float32"), wanted)
