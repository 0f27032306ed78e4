"""Reductions whose ranges are elements of tensors, on every target and under every schedule, against Python's loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.programs.harness import build, result
from tilewright import te

N, M = 7, 11
LENGTHS = np.array([4, 0, -3, 11, 1, 6, -(2**31)])
STARTS = np.array([3, 0, 2**31 - 1, 0, 10, 5, 2])
TARGETS = ["llvm", "c", *(pytest.param(gpu, marks=getattr(pytest.mark, gpu)) for gpu in ("opencl", "cuda"))]

rng = np.random.default_rng(0)
A = rng.integers(-4, 5, (N, M)).astype("float32")


class Case:
    """A computation of `B[i]` from `A` and integers, and its value by brute force."""

    def __init__(self, declare: Callable[..., Any], values: Callable[..., Any], ints: list[np.ndarray]) -> None:
        self.ints = ints
        self.a = te.placeholder((N, M), name="A")
        self.inputs = [te.placeholder(x.shape, str(x.dtype), f"L{k}") for k, x in enumerate(ints)]
        self.out = te.compute((N,), lambda i: declare(self.a, i, *self.inputs), name="B")
        self.wanted = np.array([values(A, i, *[x.tolist() for x in ints]) for i in range(N)])

    def check(self, target: str, schedule: Callable[..., Any], name: str, values: Any = None) -> None:
        """Build under a schedule and compare, for several values of the integers."""
        s = te.create_schedule(self.out.op)
        placed = Placed(s, self.out, target)
        schedule(placed)
        placed.finish()
        module = build(s, [self.a, *self.inputs, self.out], target)
        for ints, wanted in values or [(self.ints, self.wanted)]:
            got = result(module, [A, *ints], (N,), str(self.out.dtype))
            np.testing.assert_array_equal(got, wanted, err_msg=f"{target} {name}")


class Placed:
    """A schedule of a reduction, and where its data axis goes on a GPU."""

    def __init__(self, s: Any, out: Any, target: str) -> None:
        self.s, self.out, self.target = s, out, target
        self.gpu = target in ("opencl", "cuda")
        self.bound = False

    def finish(self) -> None:
        """Bind the data axis if the schedule has not."""
        if self.gpu and not self.bound:
            stage = self.s[self.out]
            self.threads(stage, stage.op.axis[0])

    def threads(self, stage: Any, axis: Any) -> None:
        outer, inner = stage.split(axis, factor=4)
        self.bound = True
        if self.gpu:
            stage.bind(outer, te.thread_axis("blockIdx.x"))
            stage.bind(inner, te.thread_axis("threadIdx.x"))


def first(dtype: str) -> list[np.ndarray]:
    info = np.iinfo(dtype)
    return [LENGTHS.clip(info.min, info.max).astype(dtype)]


def of_sums(a: Any, i: Any, n: Any) -> Any:
    r = te.reduce_axis((0, n[i]), "r")
    return te.sum(a[i, r], axis=r)


def window(a: Any, i: Any, begin: Any, end: Any) -> Any:
    r = te.reduce_axis((begin[i], end[i]), "r")
    return te.sum(a[i, r] * (r + 1), axis=r)


def nested(a: Any, i: Any, count: Any, width: Any) -> Any:
    p = te.reduce_axis((0, count[i]), "p")
    q = te.reduce_axis((0, width[p]), "q")
    return te.sum(a[p, q] * (i + 1), axis=[p, q])


COUNTS = np.array([3, 0, 7, 1, 2, 5, 6], "int32")
REDUCERS: dict[str, tuple[Callable[..., Any], Callable[..., float]]] = {
    "sum": (te.sum, sum),
    "prod": (te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), "prod"), math.prod),
    "max": (te.max, lambda xs: max(xs, default=-np.inf)),
    "min": (te.min, lambda xs: min(xs, default=np.inf)),
}


def reduced(name: str) -> Case:
    of, values = REDUCERS[name]

    def declare(a: Any, i: Any, n: Any) -> Any:
        r = te.reduce_axis((0, n[i]), "r")
        return of(a[i, r], axis=r)

    return Case(declare, lambda a, i, n: values(float(x) for x in a[i, : max(n[i], 0)]), first("int32"))


def sums(dtype: str = "int32") -> Case:
    return Case(of_sums, lambda a, i, n: sum(a[i, : max(n[i], 0)]), first(dtype))


def windows() -> Case:
    return Case(
        window,
        lambda a, i, b, e: sum(a[i, r] * (r + 1) for r in range(b[i], e[i])),
        [STARTS.astype("int32"), LENGTHS.astype("int32")],
    )


def nests() -> Case:
    return Case(
        nested,
        lambda a, i, c, w: sum(a[p, q] * (i + 1) for p in range(c[i]) for q in range(max(w[p], 0))),
        [COUNTS, LENGTHS.astype("int32")],
    )


def split(p: Placed, **how: int) -> tuple[Any, Any]:
    stage = p.s[p.out]
    pair: tuple[Any, Any] = stage.split(stage.op.reduce_axis[-1], **how)
    return pair


def unrolled(p: Placed) -> None:
    p.s[p.out].unroll(split(p, factor=3)[1])


def reordered(p: Placed) -> None:
    stage = p.s[p.out]
    i = stage.op.axis[0]
    outer, inner = split(p, factor=4)
    if not p.gpu:
        io, ii = stage.split(i, factor=2)
        stage.reorder(io, ii, outer, inner)
        stage.parallel(io)


def cached(p: Placed) -> None:
    cache = p.s.cache_write(p.out, "local")
    stage = p.s[p.out]
    outer, inner = stage.split(stage.op.axis[0], factor=4)
    if p.gpu:
        stage.bind(outer, te.thread_axis("blockIdx.x"))
        stage.bind(inner, te.thread_axis("threadIdx.x"))
        p.bound = True
    p.s[cache].compute_at(stage, inner)
    p.s[cache].split(p.s[cache].op.reduce_axis[-1], factor=3)


def cached_tile(p: Placed) -> None:
    """The cache holds a tile of elements, which reaches beyond the end of the tensor."""
    cache = p.s.cache_write(p.out, "local")
    stage = p.s[p.out]
    outer, _ = stage.split(stage.op.axis[0], factor=4)
    if p.gpu:
        stage.bind(outer, te.thread_axis("threadIdx.x"))
        p.bound = True
    p.s[cache].compute_at(stage, outer)


def across_threads(p: Placed) -> None:
    """The threads of a block share each reduction."""
    _, inner = split(p, factor=8)
    if p.gpu:
        stage = p.s[p.out]
        stage.bind(stage.op.axis[0], te.thread_axis("blockIdx.x"))
        stage.bind(inner, te.thread_axis("threadIdx.x"))
        p.bound = True


def across_threads_by_parts(p: Placed) -> None:
    outer, _ = split(p, nparts=8)
    if p.gpu:
        stage = p.s[p.out]
        o, i = stage.split(stage.op.axis[0], factor=2)
        stage.bind(o, te.thread_axis("blockIdx.x"))
        stage.bind(i, te.thread_axis("threadIdx.y"))
        stage.bind(outer, te.thread_axis("threadIdx.x"))
        p.bound = True


def virtual(p: Placed) -> None:
    if p.gpu:
        stage = p.s[p.out]
        o, i = stage.split(stage.op.axis[0], factor=4)
        v, i = stage.split(i, nparts=2)
        stage.bind(o, te.thread_axis("blockIdx.x"))
        stage.bind(v, te.thread_axis("vthread", name="vx"))
        stage.bind(i, te.thread_axis("threadIdx.x"))
        p.bound = True


def copied_ends(p: Placed) -> None:
    """The ranges are read from copies of the tensors."""
    reads = p.s[p.out].op.input_tensors
    for tensor in reads:
        if tensor.name != "A":
            copy = p.s.cache_read(tensor, "local", [p.out])
            if p.gpu:
                p.s[copy].compute_inline()


SCHEDULES: dict[str, Callable[[Placed], Any]] = {
    "plain": lambda p: None,
    "factor": lambda p: split(p, factor=4),
    "nparts": lambda p: split(p, nparts=3),
    "unrolled": unrolled,
    "reordered": reordered,
    "cached": cached,
    "cached tile": cached_tile,
    "across threads": across_threads,
    "across threads by parts": across_threads_by_parts,
    "virtual threads": virtual,
    "copied ends": copied_ends,
}


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_ranges_that_are_read(target: str) -> None:
    few = target != "llvm"  # the others take long to compile
    cases = ((sums(), ("across threads", "cached")), (windows(), SCHEDULES), (nests(), ("nparts", "virtual threads")))
    for case, some in cases:
        for name in some if few else SCHEDULES:
            case.check(target, SCHEDULES[name], name)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("opencl", marks=[pytest.mark.slow, pytest.mark.opencl]),
        pytest.param("cuda", marks=pytest.mark.cuda),
    ],
)
def test_every_schedule_on_a_grid(target: str) -> None:
    for case in (sums(), windows(), nests()):
        for name, schedule in SCHEDULES.items():
            case.check(target, schedule, name)


@pytest.mark.parametrize("target", TARGETS)
def test_other_reductions_of_ranges_that_are_read(target: str) -> None:
    for name in REDUCERS:
        reduced(name).check(target, SCHEDULES["factor"], name)


@pytest.mark.parametrize("target", TARGETS[:2])
def test_lengths_of_every_type(target: str) -> None:
    for dtype in ("int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64"):
        sums(dtype).check(target, SCHEDULES["nparts"], dtype)


# A range that does not depend on the element: L[0] for all.


def common(name: str = "sum") -> Case:
    def declare(a: Any, i: Any, n: Any) -> Any:
        r = te.reduce_axis((0, n[0]), "r")
        return REDUCERS[name][0](a[i, r], axis=r)

    return Case(declare, lambda a, i, n: REDUCERS[name][1](float(x) for x in a[i, : max(n[0], 0)]), first("int32"))


def factored(p: Placed) -> None:
    _, inner = split(p, factor=4)
    partial = p.s.rfactor(p.out, inner)
    if p.gpu:
        stage = p.s[p.out]
        p.threads(stage, stage.op.axis[0])
        p.s[partial].compute_at(stage, stage.leaf_iter_vars[1])


def fused(p: Placed) -> None:
    stage = p.s[p.out]
    if not p.gpu:
        stage.fuse(stage.op.axis[0], stage.op.reduce_axis[0])


def fused_and_split(p: Placed) -> None:
    stage = p.s[p.out]
    if not p.gpu:
        stage.split(stage.fuse(stage.op.axis[0], stage.op.reduce_axis[0]), factor=4)


def outermost(p: Placed) -> None:
    """On a GPU, host code runs the loop around the kernels."""
    stage = p.s[p.out]
    i, r = stage.op.axis[0], stage.op.reduce_axis[0]
    stage.reorder(r, i)
    if not p.gpu:
        stage.vectorize(i)


COMMON = {"factored": factored, "fused": fused, "fused and split": fused_and_split, "outermost": outermost}


@pytest.mark.parametrize("target", TARGETS)
def test_one_length_for_all_elements(target: str) -> None:
    for name, schedule in COMMON.items():
        reducer = "max" if name == "fused" else "sum"
        values = REDUCERS[reducer][1]
        rows = {k: np.array([values(map(float, row[: max(k, 0)])) for row in A]) for k in (4, 0, -2)}
        common(reducer).check(target, schedule, name, [([np.full(N, k, "int32")], row) for k, row in rows.items()])
