"""`s.explain`: its numbers against what follows from the programs by hand, and its text."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.explain.schedules import bind, convolution, product, strided, transpose
from tilewright import intrin, te
from tilewright.core.hardware import MemoryScope
from tilewright.core.occupancy import Limiter
from tilewright.explain.counting import AccessCount
from tilewright.explain.explanation import Explanation, KernelExplanation
from tilewright.explain.explanation_data import arithmetic_seconds
from tilewright.report.units import duration


def only(explanation: Explanation) -> KernelExplanation:
    (kernel,) = explanation.kernels
    return kernel


def access(kernel: KernelExplanation, name: str, stores: bool = False) -> AccessCount:
    found = [a for a in kernel.counts.accesses.values() if a.buffer == name and a.stores is stores]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(("step", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (100, 32)])
def test_sectors_of_strided_loads(step: int, sectors: int) -> None:
    kernel = only(strided(4096, step).explain("cuda"))
    load, store = access(kernel, "A"), access(kernel, "B", stores=True)
    assert load.requests == store.requests == pytest.approx(4096 / 32)
    assert (load.per_request, load.best) == (pytest.approx(sectors), pytest.approx(4))
    assert store.per_request == pytest.approx(4)


@pytest.mark.parametrize("padded", [False, True])
def test_bank_conflicts_of_a_transpose(padded: bool) -> None:
    kernel = only(transpose(padded=padded).explain("cuda"))
    load, store = access(kernel, "A.shared"), access(kernel, "A.shared", stores=True)
    assert load.conflict_degree == pytest.approx(1 if padded else 32)
    assert store.conflict_degree == pytest.approx(1)
    assert kernel.shared_bytes == 4 * 32 * (33 if padded else 32)
    assert kernel.occupancy is not None
    assert kernel.occupancy.limiters == (Limiter.WARPS,)


def test_work_of_a_convolution() -> None:
    kernel = only(convolution().explain("cuda"))
    assert (kernel.blocks, kernel.threads) == (129, 128)
    assert kernel.counts.all_operations == pytest.approx(2 * 32 * 16415, rel=0.02)
    assert access(kernel, "A").lanes == pytest.approx(32 * 16384, rel=0.02)
    assert access(kernel, "W").per_request == pytest.approx(1)
    assert kernel.least_bytes == 4 * (16384 + 32 + 16415)
    # Of eight distances to the start of a sector, one needs four sectors, the others five.
    assert access(kernel, "A").per_request == pytest.approx((4 + 7 * 5) / 8, rel=0.01)


@pytest.mark.parametrize(("rows", "guarded"), [(64, False), (60, True)])
def test_sums_stay_in_a_register_unless_their_stores_are_guarded(rows: int, guarded: bool) -> None:
    a = te.placeholder((rows, 100), name="A")
    k = te.reduce_axis((0, 100), name="k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    bind(s[b], *zip(s[b].split(b.op.axis[0], factor=32), ("blockIdx.x", "threadIdx.x"), strict=True))
    kernel = only(s.explain("cuda"))
    loads = [found for found in kernel.counts.accesses.values() if found.buffer == "B" and not found.stores]
    if guarded:
        assert loads[0].lanes == pytest.approx(60 * 100)
        assert access(kernel, "B", stores=True).lanes == pytest.approx(60 * 101)
    else:  # one store before the loop, one after it
        assert loads == []
        assert access(kernel, "B", stores=True).lanes == pytest.approx(64 * 2)


@pytest.mark.parametrize(("unrolled", "width", "degree"), [(True, 16, 2), (False, 4, 8)])
def test_loads_of_neighbours_by_an_unrolled_loop_are_one(unrolled: bool, width: int, degree: int) -> None:
    a = te.placeholder((32 * 8,), name="A")
    b = te.compute((32 * 8,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    shared = s.cache_read(a, "shared", [b])
    thread, own = s[b].split(b.op.axis[0], factor=8)
    bind(s[b], (thread, "threadIdx.x"))
    s[shared].compute_root()
    block = s[b].fuse()
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[shared].compute_at(s[b], block)
    if unrolled:
        s[b].pragma(own, "auto_unroll_max_step", 16)
        s[b].pragma(own, "unroll_explicit", 0)
    load = access(only(s.explain("cuda")), "A.shared")
    assert (load.width, load.conflict_degree) == (width, pytest.approx(degree))


def test_a_guard_of_one_thread_that_seldom_holds_is_met() -> None:
    a = te.placeholder((4096,), name="A")
    b = te.compute((4096,), lambda i: te.if_then_else(te.all(i >= 100, i < 110), a[i], 0.0), name="B")
    s = te.create_schedule(b.op)
    bind(s[b], (b.op.axis[0], "blockIdx.x"))
    load = access(only(s.explain("cuda")), "A")
    assert 5 < load.lanes < 15
    assert load.per_request == pytest.approx(1)


def test_every_guard_has_a_reason() -> None:
    explanation = convolution(threads=100).explain("cuda")
    assert explanation.reasons["B"] == ("split of i: 165 × 100 iterations are 85 more than its 16415",)
    text = str(explanation)
    assert "blockIdx.x * 100 + threadIdx.x < 16415" in text
    assert "a condition of B.local, as declared" in text
    assert "holds in 99." in text


def test_a_tile_of_a_product() -> None:
    kernel = only(product().explain("cuda"))
    assert kernel.counts.all_operations == pytest.approx(2 * 256**3)
    assert kernel.counts.barriers == pytest.approx(2 * 32 * 16 * 2)  # two in each of 32 iterations, for two warps
    # Four rows of threads read rows of A four apart, of eight words: all in one bank. Columns of B lie side by side.
    for name, degree in (("A.shared", 4), ("B.shared", 1)):
        assert access(kernel, name).conflict_degree == pytest.approx(degree)
        assert access(kernel, name, stores=True).scope is MemoryScope.SHARED
    assert access(kernel, "C", stores=True).best < access(kernel, "C", stores=True).per_request
    assert {b.name: b.bytes for b in kernel.buffers if b.scope is MemoryScope.SHARED} == {
        "A.shared": 64 * 8 * 4,
        "B.shared": 64 * 8 * 4,
    }


def test_the_tree_has_the_region_of_each_loop() -> None:
    regions = {node.loop: node.extents() for node in product().explain("cuda").tree if node.stage == "C"}
    assert regions == {
        "": "256, 256",
        "i.outer": "64, 256",
        "j.outer": "64, 64",
        "i.inner.outer": "32, 64",
        "j.inner.outer": "32, 32",
        "i.inner.inner.outer": "4, 32",
        "j.inner.inner.outer": "4, 4",
        "i.inner.inner.inner": "1, 4",
        "j.inner.inner.inner": "1, 1",
    }


def test_the_text_says_it_all() -> None:
    text = str(product().explain("cuda"))
    for part in ("A.shared in shared", "run as", "vthread", "bank conflicts", "sectors per request", "limited by",
                 "operations per byte", "NVIDIA H200", "16 blocks of 64 threads", "per thread"):  # fmt: skip
        assert part in text, part


def test_other_targets_have_what_they_have() -> None:
    opencl = only(strided().explain("opencl"))
    assert opencl.occupancy is None
    assert opencl.resources is None
    assert opencl.counts.all_operations == pytest.approx(2 * 4096)
    B = te.compute((1000,), lambda i: te.const(2.0, "float32") * i, name="B")
    text = str(te.create_schedule(B.op).explain("llvm"))
    for part in ("one: no loop is parallel", "1,000 operations for B", "peaks of this target are not known"):
        assert part in text, part


def test_sizes_that_are_known_at_the_call() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 32)
    bind(s[B], (block, "blockIdx.x"), (thread, "threadIdx.x"))
    for sizes in ({"n": 640}, {n: 640}):
        kernel = only(s.explain("cuda", sizes=sizes))
        assert (kernel.blocks, kernel.counts.all_operations) == (20, pytest.approx(640))
    with pytest.raises(tw.UserError, match=r"the value of n is known only .*\n.*sizes=\{\"n\": 1024\}"):
        s.explain("cuda")
    with pytest.raises(tw.UserError, match="sizes are 7, which is not a mapping"):
        s.explain("cuda", sizes=7)
    with pytest.raises(tw.UserError, match=r"sizes are array\(\[1, 2\]\), which is not a mapping"):
        s.explain("cuda", sizes=np.array([1, 2]))
    with pytest.raises(tw.UserError, match="sizes are positive integers, got n=0"):
        s.explain("cuda", sizes={"n": 0})


def test_indices_that_are_data_are_not_guessed() -> None:
    A, at = te.placeholder((1024,), name="A"), te.placeholder((1024,), "int32", name="at")
    B = te.compute((1024,), lambda i: A[at[i]], name="B")
    s = te.create_schedule(B.op)
    bind(s[B], (B.op.axis[0], "threadIdx.x"))
    explanation = s.explain("cuda")
    assert access(only(explanation), "A").unknown == pytest.approx(32)
    assert "by data" in str(explanation)


def test_boards_are_known_or_not() -> None:
    explanation = strided().explain("cuda")
    assert explanation.board_name == "NVIDIA H200"
    assert strided().explain("cuda -arch=sm_120").board_name == "NVIDIA GeForce RTX 5090"
    text = str(strided().explain("cuda -arch=sm_121"))
    assert "no board of this target is known; a multiprocessor completes at most 256 operations of float32" in text


@pytest.mark.parametrize(
    ("arch", "dtype", "seconds"),
    [
        # Operations: 2 of 2**20 elements; multiprocessors × clock × operations per cycle, by NVIDIA's documents.
        ("sm_90", "float32", 2**21 / (132 * 1.98e9 * 256)),
        ("sm_90", "float64", 2**21 / (132 * 1.98e9 * 128)),
        ("sm_90", "float16", 2**21 / (132 * 1.98e9 * 512)),
        ("sm_90", "int32", 2**21 / (132 * 1.98e9 * 128)),
        ("sm_80", "bfloat16", 2**21 / (108 * 1.41e9 * 256)),
        ("sm_100", "float64", 2**21 / (148 * 1.965e9 * 128)),
        ("sm_120", "float64", 2**21 / (170 * 2.407e9 * 4)),
        ("sm_120", "float16", 2**21 / (170 * 2.407e9 * 256)),
    ],
)
def test_the_arithmetic_of_each_type_has_its_own_peak(arch: str, dtype: str, seconds: float) -> None:
    a = te.placeholder((2**20,), dtype, name="A")
    b = te.compute((2**20,), lambda i: a[i] * a[i] + a[i], name="B")
    s = te.create_schedule(b.op)
    bind(s[b], *zip(s[b].split(b.op.axis[0], factor=128), ("blockIdx.x", "threadIdx.x"), strict=True))
    explanation = s.explain(f"cuda -arch={arch}")
    assert explanation.board is not None
    assert arithmetic_seconds(only(explanation).counts, explanation.board) == {dtype: pytest.approx(seconds)}
    assert f"{duration(seconds)} for the arithmetic at " in str(explanation)
    assert f"of {dtype}, " in str(explanation)


def test_a_scan_and_its_inputs() -> None:
    n = te.size_var("n")
    X, state = te.placeholder((16, n), name="X"), te.placeholder((16, n), name="state")
    first = te.compute((1, n), lambda _, i: X[0, i], name="first")
    update = te.compute((16, n), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    s = te.create_schedule(te.scan(first, update, state, inputs=[X]).op)
    for stage in (first, update):
        block, thread = s[stage].split(stage.op.axis[1], factor=32)
        bind(s[stage], (block, "blockIdx.x"), (thread, "threadIdx.x"))
    explanation = s.explain("cuda", sizes={"n": 64})
    assert [kernel.launches for kernel in explanation.kernels] == [1, 15]
    done = sum(kernel.counts.all_operations * kernel.launches for kernel in explanation.kernels)
    assert done == pytest.approx(15 * 64)
    assert access(explanation.kernels[1], "X").per_request == pytest.approx(4)
    assert "launched 15 times" in str(explanation)


@pytest.mark.parametrize("target", ["cuda", "opencl"])
def test_what_cannot_be_built_is_refused_as_by_build(target: str) -> None:
    B = te.compute((8,), lambda i: te.const(1.0, "float32"), name="B")
    with pytest.raises(tw.UserError, match="stage 'B' is computed outside of any kernel"):
        te.create_schedule(B.op).explain(target)


def test_indices_of_bits_are_counted() -> None:
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[(i ^ 33) & 1023] + A[i >> 1 | 0], name="B")
    s = te.create_schedule(B.op)
    bind(s[B], *zip(s[B].split(B.op.axis[0], 64), ("blockIdx.x", "threadIdx.x"), strict=True))
    found = access(only(s.explain("cuda")), "A")
    assert (found.unknown, found.requests, found.units) == (0, pytest.approx(64), pytest.approx(32 * 4 + 32 * 2))


def test_asynchronous_copies_load_once() -> None:
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64,), lambda i: te.sum(A[k, 63 - i], axis=k), name="C")
    s = te.create_schedule(C.op)
    tile = s.cache_read(A, "shared", [C])
    bind(s[C], (C.op.axis[0], "threadIdx.x"))
    outer, _ = s[C].split(k, 8)
    s[tile].compute_at(s[C], outer)
    bind(s[tile], (tile.op.axis[1], "threadIdx.x"))
    s[tile].pipeline(3)
    load = access(only(s.explain("cuda")), "A")
    assert load.lanes * load.width == pytest.approx(64 * 64 * 4)


def test_a_grid_without_blocks() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 1,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], *zip(s[B].split(B.op.axis[0], 64), ("blockIdx.x", "threadIdx.x"), strict=True))
    explanation = s.explain("cuda", args=[A, B], sizes={n: 1})
    assert only(explanation).counts.all_operations == 0
    assert "0 blocks of 64 threads" in str(explanation)


def test_sizes_of_one_name_are_told_apart_as_variables() -> None:
    rows, columns = te.var("n"), te.var("n")
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], *zip(B.op.axis, ("blockIdx.x", "threadIdx.x"), strict=True))
    kernel = only(s.explain("cuda", sizes={rows: 64, columns: 128}))
    assert (kernel.blocks, kernel.threads) == (64, 128)


@pytest.mark.parametrize(("inner", "width"), [(8, 16), (4, 2)])
def test_fragments_are_counted_as_they_are_loaded(inner: int, width: int) -> None:
    """Where eight terms are not neighbours, each element is a load of its own."""
    A, B = (te.placeholder((32 // inner, 16, inner), "float16", name) for name in "AB")
    r, c = te.reduce_axis((0, 32 // inner), "r"), te.reduce_axis((0, inner), "c")

    def term(i: te.Var, j: te.Var) -> te.Expr:
        return te.sum(A[r, i, c].astype("float32") * B[r, j, c].astype("float32"), axis=[r, c])

    D = te.compute((16, 16), term, name="D")
    C = te.compute((16, 16), lambda i, j: D[i, j] + D[i, j], name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block = s[C].fuse()
    s[C].reorder(block, *C.op.axis)
    bind(s[C], (block, "blockIdx.x"))
    for stage in (D, *tiles):
        s[stage].compute_at(s[C], block)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    kernel = only(s.explain("cuda -arch=sm_90"))
    for name in ("A.shared", "B.shared"):
        load = access(kernel, name)
        assert (load.width, load.lanes * load.width) == (width, pytest.approx(16 * 32 * 2))
    source = tw.build(s, [A, B, C], "cuda -arch=sm_90").imported_modules[0].get_source()
    assert ("ldmatrix" in source) is (width == 16)


def test_what_both_sides_of_a_choice_share_is_evaluated_once() -> None:
    A = te.placeholder((1024,), name="A")

    def element(i: te.Var) -> te.Expr:
        twice = A[i] * 2.0
        return te.if_then_else(i % 2 == 0, twice + 1.0, twice * twice)

    B = te.compute((1024,), element, name="B")
    s = te.create_schedule(B.op)
    bind(s[B], *zip(s[B].split(B.op.axis[0], 64), ("blockIdx.x", "threadIdx.x"), strict=True))
    kernel = only(s.explain("cuda"))
    load = access(kernel, "A")
    assert (load.lanes, load.requests, load.units) == (pytest.approx(1024), pytest.approx(32), pytest.approx(128))
    assert kernel.counts.all_operations == pytest.approx(2 * 1024)
