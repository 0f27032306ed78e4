"""Fills of shared memory that are distributed over the threads of a block, and those that are left alone."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tilewright import te
from tilewright.bounds.infer import infer_bounds
from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.core.options import DEFAULT_OPTIONS
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Ramp
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import For, Function, If, Launch, Let, Stmt, Store
from tilewright.refine.cooperative_fetch import cooperative_fetch
from tilewright.tensor.reference import reference
from tilewright.transform import PassContext

CUDA = Target("cuda -arch=sm_90")
Fill = Callable[[Any, Any], None]


def bind(s: Any, stage: Any, axis: Any, tag: str) -> None:
    s[stage].bind(axis, te.thread_axis(tag))


def tile(s: Any, B: Any, block: tuple[int, int]) -> Any:
    """One block of block[0] threads along y and block[1] along x computes B; returns the innermost thread loop."""
    (y, yi), (x, xi) = (s[B].split(axis, nparts=parts) for axis, parts in zip(B.op.axis, block, strict=True))
    s[B].reorder(y, x, yi, xi)
    bind(s, B, y, "threadIdx.y")
    bind(s, B, x, "threadIdx.x")
    return x


def copied(fill: Fill, shape: tuple[int, int] = (8, 16), block: tuple[int, int] = (4, 8)) -> tuple[Any, list[Any]]:
    """B is A turned by half a turn, through a copy in shared memory that `fill(s, copy)` schedules."""
    n, m = shape
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda i, j: A[n - 1 - i, m - 1 - j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    s[AS].compute_at(s[B], tile(s, B, block))
    fill(s, AS)
    return s, [A, B]


def parts(*tags: str, how: str = "nparts") -> Fill:
    """The elements of the fill in one loop, cut for each of the thread indices in turn."""

    def fill(s: Any, AS: Any) -> None:
        rest = s[AS].fuse(*AS.op.axis)
        for tag in tags:
            outer, inner = s[AS].split(rest, **{how: {"y": 4, "x": 8}[tag]})
            bind(s, AS, outer if how == "nparts" else inner, f"threadIdx.{tag}")
            rest = inner if how == "nparts" else outer

    return fill


def vectors(lanes: int) -> Fill:
    def fill(s: Any, AS: Any) -> None:
        outer, lane = s[AS].split(s[AS].fuse(*AS.op.axis), factor=lanes)
        s[AS].vectorize(lane)
        bind(s, AS, s[AS].split(outer, nparts=8)[0], "threadIdx.x")

    return fill


def changes(s: Any) -> bool:
    bounds = infer_bounds(s.value)
    return cooperative_fetch(s.value, bounds, CUDA, DEFAULT_OPTIONS) is not bounds


def compiled(s: Any, args: list[Any]) -> Function:
    """The finished function, its fills not loaded ahead; checked to compute what NumPy does."""
    (function,) = lower_for(CUDA, s, args).functions
    for prefetches in (True, False):
        made = finish(function, without=[] if prefetches else ["register_prefetch"])
        *inputs, output = args
        rng = np.random.default_rng(0)
        values = [rng.integers(-3, 4, [int(e) for e in t.shape]).astype(t.dtype.numpy) for t in inputs]
        result = np.full([int(e) for e in output.shape], np.nan, output.dtype.numpy)
        interpret(made, [*values, result], outputs=made.buffers[-1:])
        np.testing.assert_array_equal(result, *reference([output], dict(zip(inputs, values, strict=True))))
    return made


def fills(made: Function) -> list[str]:
    """Where shared memory is stored to, with the guards around it."""
    found: list[str] = []

    def visit(node: Any, guards: tuple[str, ...]) -> None:
        if isinstance(node, If):
            guards = (*guards, str(node.condition).removeprefix("T.likely(").removesuffix(")"))
        if isinstance(node, Store) and node.buffer.scope is MemoryScope.SHARED:
            found.append(" if ".join((str(node.indices[0]), *guards)))
        for child in node.children():
            visit(child, guards)

    visit(made.body, ())
    return found


# What is distributed.


@pytest.mark.parametrize(
    "fill",
    [parts("x"), parts("y"), parts("x", "y"), parts("y", "x"), parts("y", how="factor"), parts("y", "x", how="factor")],
    ids=["x", "y", "x outside y", "y outside x", "rounds over y", "y inside x"],
)
def test_neighbouring_threads_store_neighbouring_elements(fill: Fill) -> None:
    """Whichever thread indices the schedule of the fill uses, all of those around it take part, x fastest."""
    s, args = copied(fill)
    assert changes(s)
    assert fills(compiled(s, args)) == ["A.shared.round * 32 + threadIdx.y * 8 + threadIdx.x"]


def test_a_fill_that_uses_no_thread_index_is_shared_too() -> None:
    s, args = copied(lambda s, AS: None)
    assert fills(compiled(s, args)) == ["A.shared.round * 32 + threadIdx.y * 8 + threadIdx.x"]


def test_one_round_needs_no_loop() -> None:
    s, args = copied(parts("x"), shape=(4, 8))
    assert fills(compiled(s, args)) == ["threadIdx.y * 8 + threadIdx.x"]


def test_what_the_last_round_has_too_many_threads_for_is_guarded() -> None:
    s, args = copied(parts("x"), shape=(4, 9))
    guarded = [text for text in fills(compiled(s, args)) if " if " in text]
    assert guarded == ["threadIdx.y * 8 + threadIdx.x + 32 if threadIdx.y * 8 + threadIdx.x < 4"]


def test_more_threads_than_elements() -> None:
    s, args = copied(parts("y"), shape=(4, 8))
    W = te.placeholder((3,), name="W")
    B = te.compute((4, 8), lambda i, j: args[0][i, j] * W[(i + j) % 3], name="B")
    s = te.create_schedule(B.op)
    WS = s.cache_read(W, "shared", [B])
    s[WS].compute_at(s[B], tile(s, B, (4, 8)))
    (text,) = fills(compiled(s, [args[0], W, B]))
    where, *guards = text.split(" if ")
    assert (where, guards[-1]) == ("threadIdx.y * 8 + threadIdx.x", "threadIdx.y * 8 + threadIdx.x < 3")


def test_three_thread_indices() -> None:
    A = te.placeholder((2, 3, 10), name="A")
    B = te.compute((2, 3, 10), lambda i, j, k: A[1 - i, 2 - j, 9 - k], name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    x, _ = s[B].split(B.op.axis[2], nparts=5)
    for axis, tag in zip((*B.op.axis[:2], x), "xyz", strict=True):
        bind(s, B, axis, f"threadIdx.{tag}")
    s[AS].compute_at(s[B], x)
    assert fills(compiled(s, [A, B])) == ["A.shared.round * 30 + threadIdx.z * 6 + threadIdx.y * 2 + threadIdx.x"]


@pytest.mark.parametrize("lanes", [2, 4])
def test_vectors_stay_vectors(lanes: int) -> None:
    s, args = copied(vectors(lanes), shape=(8, 64))
    made = compiled(s, args)
    stores = [n for n in post_order(made.body) if isinstance(n, Store) and n.buffer.scope is MemoryScope.SHARED]
    (index,) = stores[0].indices
    assert isinstance(index, Ramp)
    assert (index.lanes, str(index.stride)) == (lanes, "1")
    assert f"threadIdx.y * {8 * lanes}" in str(index.base)
    assert f"threadIdx.x * {lanes}" in str(index.base)


def test_vectors_that_would_cross_rows_are_left_alone() -> None:
    s, args = copied(vectors(4), shape=(8, 10))
    assert not changes(s)
    compiled(s, args)


def test_padded_rows_stay_padded() -> None:
    def fill(s: Any, AS: Any) -> None:
        s[AS].storage_align(AS.op.axis[0], 8, 1)
        parts("x")(s, AS)

    s, args = copied(fill, shape=(8, 8))
    assert changes(s)
    (text,) = fills(compiled(s, args))
    assert "* 9" in text


def test_doubled_buffers_stay_doubled() -> None:
    A, k = te.placeholder((32, 16), name="A"), te.reduce_axis((0, 32), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    bind(s, C, C.op.axis[0], "threadIdx.x")
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    s[AS].compute_at(s[C], outer)
    s[AS].double_buffer()
    bind(s, AS, s[AS].split(s[AS].fuse(*AS.op.axis), nparts=16)[0], "threadIdx.x")
    assert changes(s)
    texts, half = fills(compiled(s, [A, C])), "T.truncmod(k.outer + 1, 2)"
    own = "A.shared.round * 64 + threadIdx.x * 4"
    assert texts == [f"T.Ramp({own}, 1, 4)", f"T.Ramp({half} * 128 + {own}, 1, 4) if k.outer < 3"]


def test_a_stage_of_several_results_is_dealt_out_together() -> None:
    A = te.placeholder((8, 16), name="A")
    U, V = te.compute((8, 16), lambda i, j: (A[i, j] + 1.0, A[i, j] * 2.0), name="U")
    B = te.compute((8, 16), lambda i, j: U[7 - i, 15 - j] - V[i, j], name="B")
    s = te.create_schedule(B.op)
    s[U].set_scope("shared")
    s[U].compute_at(s[B], tile(s, B, (4, 8)))
    assert len(set(fills(compiled(s, [A, B])))) == 1
    assert changes(s)


def test_what_the_fill_computes_may_be_guarded() -> None:
    """Zeros around an image, written while it is copied."""
    A = te.placeholder((6, 7), name="A")
    inside = lambda i, j: te.all(i >= 1, i < 7, j >= 1, j < 8)
    P = te.compute((8, 9), lambda i, j: te.if_then_else(inside(i, j), A[i - 1, j - 1], 0.0), name="P")
    B = te.compute((6, 7), lambda i, j: P[i, j] + P[i + 2, j + 2] + P[i + 1, j], name="B")
    s = te.create_schedule(B.op)
    s[P].set_scope("shared")
    s[P].compute_at(s[B], tile(s, B, (2, 4)))
    parts_of_two = s[P].split(s[P].fuse(*P.op.axis), nparts=2)
    bind(s, P, parts_of_two[0], "threadIdx.y")
    assert changes(s)
    compiled(s, [A, B])


def test_the_copies_of_virtual_threads_fill_once() -> None:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[7 - i, 15 - j], name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    v, i = s[B].split(B.op.axis[0], nparts=2)
    bind(s, B, v, "vthread")
    bind(s, B, i, "threadIdx.y")
    x, _ = s[B].split(B.op.axis[1], nparts=8)
    bind(s, B, x, "threadIdx.x")
    s[AS].compute_at(s[B], x)
    assert set(fills(compiled(s, [A, B]))) == {"A.shared.round * 32 + threadIdx.y * 8 + threadIdx.x"}


# What is left alone.


def rows(s: Any, AS: Any) -> None:
    """The order in which it would be dealt out anyway."""
    rest, x = s[AS].split(s[AS].fuse(*AS.op.axis), factor=8)
    rest, y = s[AS].split(rest, factor=4)
    bind(s, AS, x, "threadIdx.x")
    bind(s, AS, y, "threadIdx.y")


def with_pragma(s: Any, AS: Any) -> None:
    parts("x")(s, AS)
    s[AS].pragma(s[AS].leaf_iter_vars[0], "auto_unroll_max_step", 16)


def in_threads_own_memory(s: Any, AS: Any) -> None:
    s[AS].set_scope("local")


@pytest.mark.parametrize("fill", [rows, with_pragma, in_threads_own_memory])
def test_left_as_scheduled(fill: Fill) -> None:
    s, args = copied(fill)
    assert not changes(s)
    compiled(s, args)


def test_a_single_thread_has_nothing_to_deal_out() -> None:
    s, args = copied(lambda s, AS: None, block=(1, 1))
    assert not changes(s)
    compiled(s, args)


def test_a_reduction_in_shared_memory() -> None:
    A, k = te.placeholder((16, 8), name="A"), te.reduce_axis((0, 8), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), "C")
    B = te.compute((4, 16), lambda i, j: C[15 - j] * te.const(1.0), name="B")
    s = te.create_schedule(B.op)
    s[C].set_scope("shared")
    s[C].compute_at(s[B], tile(s, B, (2, 8)))
    bind(s, C, s[C].split(C.op.axis[0], nparts=8)[0], "threadIdx.x")
    assert not changes(s)
    compiled(s, [A, B])


def test_a_stage_that_another_is_computed_in() -> None:
    A = te.placeholder((8, 16), name="A")
    P = te.compute((8, 16), lambda i, j: A[i, j] * 2.0, name="P")
    Q = te.compute((8, 16), lambda i, j: P[i, j] + 1.0, name="Q")
    B = te.compute((8, 16), lambda i, j: Q[7 - i, 15 - j], name="B")
    s = te.create_schedule(B.op)
    s[Q].set_scope("shared")
    s[Q].compute_at(s[B], tile(s, B, (4, 8)))
    x, _ = s[Q].split(Q.op.axis[1], nparts=8)
    bind(s, Q, x, "threadIdx.x")
    s[P].set_scope("local")
    s[P].compute_at(s[Q], x)
    assert not changes(s)
    compiled(s, [A, B])


def test_sizes_that_are_known_at_the_call() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 16), name="A")
    B = te.compute((n, 16), lambda i, j: A[n - 1 - i, 15 - j], name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    s[B].reorder(B.op.axis[1], B.op.axis[0])
    bind(s, B, B.op.axis[1], "threadIdx.x")
    s[AS].compute_at(s[B], B.op.axis[1])
    assert not changes(s)


def test_a_thread_index_of_which_the_extent_is_known_at_the_call() -> None:
    n = te.size_var("n")
    A, W = te.placeholder((n,), name="A"), te.placeholder((5,), name="W")
    B = te.compute((n,), lambda i: A[i] * W[i % 5], name="B")
    s = te.create_schedule(B.op)
    WS = s.cache_read(W, "shared", [B])
    bind(s, B, B.op.axis[0], "threadIdx.x")
    s[WS].compute_at(s[B], B.op.axis[0])
    assert not changes(s)


def test_a_single_element_without_dimensions() -> None:
    """All threads store the same; there is no axis to deal out."""
    A, C = te.placeholder((8, 16), name="A"), te.placeholder((), name="C")
    B = te.compute((8, 16), lambda i, j: A[i, j] * C[()], name="B")
    s = te.create_schedule(B.op)
    CS = s.cache_read(C, "shared", [B])
    s[CS].compute_at(s[B], tile(s, B, (4, 8)))
    assert not changes(s)
    compiled(s, [A, C, B])


def test_a_stage_outside_of_kernels() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    assert not changes(s)


# What the driver makes of it.


def test_lower_prints_the_program_as_scheduled() -> None:
    s, args = copied(parts("x"))
    lowered = tilewright.lower(s, args)
    before = str(lowered)
    assert "ax0_ax1_fused" in before
    assert "round" not in before
    tilewright.build(lowered, target="cuda -arch=sm_90")
    lowered.explain("cuda")
    assert str(lowered) == before
    with PassContext(disabled_pass=["cooperative_fetch"]):
        assert str(tilewright.lower(s, args)) == before


def sources(lowered: Any, args: Any = None, target: str = "cuda -arch=sm_90") -> str:
    source: str = tilewright.build(lowered, args, target).imported_modules[0].get_source()
    return source


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "opencl -device=gpu"])
def test_a_lowered_program_builds_to_what_its_schedule_does(target: str) -> None:
    s, args = copied(parts("x"))
    lowered = tilewright.lower(s, args)
    source = sources(s, args, target)
    assert "A_shared_round" in source
    assert sources(lowered, target=target) == source
    assert sources([lowered], target=target) == source
    assert sources({"main": lowered}, target=target) == source
    assert sources({"main": (s, args)}, target=target) == source
    assert sources(lower_for(Target(target), s, args), target=target) == source


def test_the_pass_can_be_left_out() -> None:
    s, args = copied(parts("x"))
    lowered = tilewright.lower(s, args)
    with PassContext(disabled_pass=["cooperative_fetch"]):
        assert "round" not in sources(s, args)
        assert "round" not in sources(lowered)
        assert sources(s, args) == sources(lowered)
    assert "round" in sources(lowered)


def test_explanations_name_it() -> None:
    s, args = copied(parts("x"))
    lowered = tilewright.lower(s, args)
    assert "── cooperative_fetch" in lowered.explain("cuda")
    assert "cooperative_fetch" not in lowered.explain()
    assert "── cooperative_fetch" in lowered.explain("opencl -device=gpu")
    assert "cooperative_fetch" not in lowered.explain("opencl")  # which may be a CPU
    s, args = copied(rows)
    assert "cooperative_fetch" not in tilewright.lower(s, args).explain("cuda")


def test_the_cpu_runs_what_the_schedule_says() -> None:
    """Its loops are those of the schedule: there are no blocks to deal out to."""
    s, args = copied(parts("x"))
    (function,) = lower_for(Target("llvm"), s, args).functions
    assert str(lower_for(Target("llvm"), s, args)) == str(tilewright.lower(s, args))
    kinds = {loop.kind for loop in post_order(function.body) if isinstance(loop, For)}
    assert LoopKind.THREAD in kinds
    assert all("round" not in loop.var.name for loop in post_order(function.body) if isinstance(loop, For))


def test_explaining_a_build_shows_what_became_of_the_fill(capsys: pytest.CaptureFixture[str]) -> None:
    s, args = copied(parts("x"))
    with PassContext(config={"tilewright.explain": True}):
        tilewright.build(s, args, "cuda")
    told = capsys.readouterr().err
    change = told.partition("── cooperative_fetch")[2].partition("──")[0]
    assert "\n+" in change
    assert "A.shared.round" in change or "A_shared_round" in change


# Fills outside of the loops over threads, which name no thread index at all.


def in_blocks(fill: Fill, shape: tuple[int, int] = (8, 16), block: tuple[int, int] = (4, 8)) -> tuple[Any, list[Any]]:
    """Twice over: blocks that turn their tile by half a turn, through a copy that stands right below the grid."""
    n, m = shape
    A = te.placeholder((2 * n, m), name="A")
    B = te.compute((2 * n, m), lambda i, j: A[i // n * n + n - 1 - i % n, m - 1 - j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    b, i = s[B].split(B.op.axis[0], nparts=2)
    bind(s, B, b, "blockIdx.x")
    (y, yi), (x, xi) = (s[B].split(axis, nparts=k) for axis, k in zip((i, B.op.axis[1]), block, strict=True))
    s[B].reorder(y, x, yi, xi)
    bind(s, B, y, "threadIdx.y")
    bind(s, B, x, "threadIdx.x")
    s[AS].compute_at(s[B], b)
    fill(s, AS)
    return s, [A, B]


def nothing(s: Any, AS: Any) -> None:
    pass


def fused(s: Any, AS: Any) -> None:
    s[AS].fuse(*AS.op.axis)


def reordered(s: Any, AS: Any) -> None:
    s[AS].reorder(*reversed(AS.op.axis))


def unrolled(s: Any, AS: Any) -> None:
    s[AS].unroll(s[AS].split(AS.op.axis[1], factor=2)[1])


def vectorized(s: Any, AS: Any) -> None:
    s[AS].vectorize(s[AS].split(AS.op.axis[1], factor=4)[1])


def padded(s: Any, AS: Any) -> None:
    s[AS].storage_align(AS.op.axis[0], 8, 1)


ANY_BLOCK = [nothing, fused, reordered, unrolled, vectorized, padded]
FOR_4_BY_8 = [parts("x"), parts("y"), parts("x", "y")]
TRIES = [(fill, block) for fill in ANY_BLOCK for block in ((4, 8), (1, 16), (8, 1), (2, 2))]


@pytest.mark.parametrize(("fill", "block"), [*TRIES, *((fill, (4, 8)) for fill in FOR_4_BY_8)])
def test_a_fill_below_the_grid_is_dealt_out(fill: Fill, block: tuple[int, int]) -> None:
    """Bound or not, every thread stores its part once."""
    s, args = in_blocks(fill, block=block)
    stored = per_thread(compiled(s, args))
    elements = 8 * 16 // (4 if fill is vectorized else 1)
    assert set(stored.values()) == {elements // (block[0] * block[1])}
    assert len(stored) == 2 * block[0] * block[1]


SHARED = MemoryScope.SHARED


def per_thread(made: Function) -> dict[tuple[int, ...], int]:
    """How many stores to shared memory each thread of the grid does, by counting through its loops and guards."""
    (kernel,) = [node for node in post_order(made.body) if isinstance(node, Launch)]
    counts: dict[tuple[int, ...], int] = {}
    extents = [[int(str(extent))] for _, _, extent in kernel.threads]
    for place in itertools.product(*(range(extent) for (extent,) in extents)):
        values = {var: i for (_, var, _), i in zip(kernel.threads, place, strict=True)}
        counts[place] = stores(kernel.body, values)
    return counts


def stores(stmt: Any, values: dict[Any, int]) -> int:
    """Stores to shared memory of one thread."""
    if isinstance(stmt, Store):
        return int(stmt.buffer.scope is SHARED)
    if isinstance(stmt, For):
        low, extent = (int(evaluate(e, values)) for e in (stmt.min, stmt.extent))
        return sum(stores(stmt.body, {**values, stmt.var: i}) for i in range(low, low + extent))
    if isinstance(stmt, If):
        taken = stmt.then if evaluate(stmt.condition, values) else stmt.orelse
        return 0 if taken is None else stores(taken, values)
    if isinstance(stmt, Let):
        return stores(stmt.body, {**values, stmt.var: int(evaluate(stmt.value, values))})
    return sum(stores(child, values) for child in stmt.children() if isinstance(child, Stmt))


def test_what_cannot_be_dealt_out_is_said() -> None:
    """A reduction in shared memory that names no thread index: every thread would sum all of it."""
    A, k = te.placeholder((16, 8), name="A"), te.reduce_axis((0, 8), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), "C")
    B = te.compute((4, 16), lambda i, j: C[15 - j] * te.const(1.0), name="B")
    s = te.create_schedule(B.op)
    s[C].set_scope("shared")
    s[C].compute_at(s[B], B.op.axis[0])
    bind(s, B, B.op.axis[0], "blockIdx.x")
    bind(s, B, B.op.axis[1], "threadIdx.x")
    said = "every thread of a block computes all of the shared stage 'C', since it is a reduction"
    with pytest.warns(UserWarning, match=said) as caught:
        lower_for(CUDA, s, [A, B])
    assert caught[0].filename == __file__
    bind(s, C, C.op.axis[0], "threadIdx.x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower_for(CUDA, s, [A, B])
        lower_for(Target("opencl"), s, [A, B])


def test_a_fill_that_is_stored_under_a_condition_keeps_its_loops() -> None:
    """The condition is for the threads that the schedule has it run on: here for one, which stores all elements."""
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[63 - i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    tx = te.thread_axis("threadIdx.x")
    outer, inner = s[B].split(B.op.axis[0], 32)
    bind(s, B, outer, "blockIdx.x")
    s[B].bind(inner, tx)
    s[AS].compute_at(s[B], inner)
    s[AS].set_store_predicate(tx.var.equal(0))
    assert not changes(s)
    compiled(s, [A, B])
