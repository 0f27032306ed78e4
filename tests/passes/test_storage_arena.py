"""Shared buffers of different types overlap in an arena of bytes where that takes less memory."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.programs import alloc, buf, load, store
from tests.passes.kernels import A, B, kernel, tx
from tests.passes.running import finish
from tilewright import nd, te
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Load
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import InterpretError, interpret
from tilewright.loops.nodes import Allocate, Buffer, Function, seq
from tilewright.passes.share_storage import arena_offsets

TYPES = ("float32", "int8", "int16", "int32", "float64", "int64", "float16", "uint8")


def allocated(function: Function) -> list[Buffer]:
    nodes = [node for node in post_order(function.body) if isinstance(node, Allocate)]
    return [node.buffer for node in nodes if node.buffer.scope is MemoryScope.SHARED]


@pytest.mark.parametrize("seed", range(60))
def test_the_planner_keeps_clashing_buffers_apart_and_aligned(seed: int) -> None:
    rng = random.Random(seed)
    buffers = [
        buf(f"b{i}", rng.randint(1, 70), dtype=rng.choice(TYPES), scope="shared") for i in range(rng.randint(2, 5))
    ]
    for buffer in buffers:
        buffer.align = rng.choice((1, 4, 16, 64))
    clashes = {frozenset(pair) for pair in combinations(buffers, 2) if rng.random() < 0.5}
    alignment = rng.choice((16, 128))
    offsets = arena_offsets(buffers, clashes, alignment)
    sizes = {b: b.shape[0].value * b.dtype.bytes for b in buffers}  # type: ignore[attr-defined]
    taken = {b: set(range(offset, offset + sizes[b])) for b, offset in offsets.items()}
    assert set(offsets) == set(buffers)
    for one, other in combinations(buffers, 2):
        assert frozenset((one, other)) not in clashes or not taken[one] & taken[other]
    for buffer, offset in offsets.items():
        assert not any(offset % step for step in (alignment, buffer.align, buffer.dtype.bytes))

    largest = max(alignment, *(b.align for b in buffers))

    def rounded(size: int) -> int:
        return -(-size // largest) * largest

    whole = max(offset + sizes[b] for b, offset in offsets.items())
    assert whole <= sum(map(rounded, sizes.values()))
    heaviest = max(sum(sizes[b] for b in group) for group in _cliques(buffers, clashes))
    assert heaviest <= whole


def _cliques(buffers: list[Buffer], clashes: set[frozenset[Buffer]]) -> list[tuple[Buffer, ...]]:
    """All groups of buffers of which any two clash: their bytes are all needed at once."""
    groups = [group for size in range(1, len(buffers) + 1) for group in combinations(buffers, size)]
    return [group for group in groups if all(frozenset(pair) in clashes for pair in combinations(group, 2))]


def test_a_read_of_bytes_that_another_type_has_overwritten_is_its_value() -> None:
    """The interpreter has one memory for both, so that a wrong plan shows."""
    arena = buf("arena", 64, dtype="uint8", scope="shared")
    floats = Buffer("F", "float32", buf("x", 8).shape, MemoryScope.SHARED, alias_of=arena, byte_offset=0)
    ints = Buffer("I", "int32", floats.shape, MemoryScope.SHARED, alias_of=arena, byte_offset=0)
    body = seq(store(floats, tx, load(A, tx)), store(B, tx, load(ints, tx).astype("float32")))
    a, b = np.arange(A.shape[0].value, dtype="float32"), np.zeros(B.shape[0].value, "float32")  # type: ignore[attr-defined]
    interpret(kernel(alloc(arena, body)), [a, b], check=True)
    np.testing.assert_array_equal(b[:8], a[:8].view("int32").astype("float32"))
    unwritten = Buffer("U", "int32", floats.shape, MemoryScope.SHARED, alias_of=arena, byte_offset=32)
    body = seq(store(floats, tx, load(A, tx)), store(B, tx, load(unwritten, tx).astype("float32")))
    with pytest.raises(InterpretError, match="never written"):
        interpret(kernel(alloc(arena, body)), [a, b], check=True)


def test_views_of_bytes_conflict_where_they_overlap() -> None:
    arena = buf("arena", 64, dtype="uint8", scope="shared")

    def view(dtype: str, size: int, offset: int | None) -> Buffer:
        shape = buf("x", size).shape
        return Buffer("V", dtype, shape, MemoryScope.SHARED, alias_of=arena, byte_offset=offset)

    floats = view("float32", 8, 0)
    assert not floats.overlaps(view("int8", 8, 32))
    assert floats.overlaps(view("int8", 8, 31))
    assert floats.overlaps(view("uint8", 64, None))
    assert floats.overlaps(arena)
    assert not floats.overlaps(buf("T", 8, scope="shared"))


def test_blocks_of_one_thread_keep_types_apart() -> None:
    Y, schedule = chain(random.Random(1), 4, threads=1)
    made = finish(tilewright.lower(schedule, Y).functions[0], check=True)
    assert all(buffer.name != "arena" for buffer in allocated(made))


def chain(rng: random.Random, length: int, threads: int = 32) -> tuple[list[Any], Any]:
    """A chain of stages in shared memory, each of another type and reading its producer, and sometimes an older one."""
    X = te.placeholder((64,), name="X")
    stages = [X]
    for i in range(length):
        last, old = stages[-1], rng.choice(stages[-2:])
        kind, turn = rng.choice(TYPES), rng.randint(1, 63)
        if i == length - 1:
            kind = "float32"

        def value(j: Any, last: Any = last, old: Any = old, kind: str = kind, turn: int = turn) -> Any:
            return last[(j + turn) % 64].astype(kind) + old[63 - j].astype(kind)

        stages.append(te.compute((64,), value, f"S{i}"))
    Y = stages[-1]
    s = te.create_schedule(Y.op)
    outer, inner = s[Y].split(Y.op.axis[0], nparts=1)
    s[Y].bind(outer, te.thread_axis("blockIdx.x"))
    _, inner = s[Y].split(inner, factor=threads)
    s[Y].bind(inner, te.thread_axis("threadIdx.x"))
    for stage in stages[1:-1]:
        s[stage].set_scope("shared")
        s[stage].compute_at(s[Y], outer)
        _, inner = s[stage].split(stage.op.axis[0], factor=threads)
        s[stage].bind(inner, te.thread_axis("threadIdx.x"))
    return [X, Y], s


def reference(x: Any, args: list[Any], s: Any) -> Any:
    y = np.full(64, np.nan, "float32")
    plain = te.create_schedule(args[1].op)
    interpret(finish(tilewright.lower(plain, args).functions[0]), [x, y])
    return y


@pytest.mark.parametrize("seed", range(8))
def test_chains_of_mixed_types_mean_the_same_in_less_memory(seed: int) -> None:
    rng = random.Random(seed)
    args, s = chain(rng, rng.randint(4, 7))
    x, y = np.asarray([rng.randint(0, 1) for _ in range(64)], "float32"), np.full(64, np.nan, "float32")
    lowered = tilewright.lower(s, args).functions[0]
    made = finish(lowered, check=True)
    interpret(made, [x, y], outputs=made.buffers[1:], check=True, races=True)
    wanted = reference(x, args, s)
    np.testing.assert_array_equal(y, wanted)
    out = nd.array(np.full(64, np.nan, "float32"), nd.opencl(0))
    tilewright.build(s, args, "opencl")(nd.array(x, nd.opencl(0)), out)
    np.testing.assert_array_equal(out.numpy(), wanted)
    tilewright.build(s, args, "cuda -arch=sm_80")  # NVRTC takes it


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(24))
def test_chains_of_mixed_types_on_a_gpu(seed: int) -> None:
    rng = random.Random(seed)
    args, s = chain(rng, rng.randint(4, 7), threads=rng.choice((16, 32, 64)))
    x, dev = np.asarray([rng.randint(0, 1) for _ in range(64)], "float32"), nd.cuda(0)
    out = nd.array(np.full(64, np.nan, "float32"), dev)
    tilewright.build(s, args, "cuda")(nd.array(x, dev), out)
    np.testing.assert_array_equal(out.numpy(), reference(x, args, s))


def test_mixed_types_take_the_memory_of_the_largest_that_are_in_use_together() -> None:
    """64 doubles, then 64 ints, then 64 doubles, each read by the next: the third one overlaps the first."""
    X = te.placeholder((64,), name="X")
    D = te.compute((64,), lambda i: X[63 - i].astype("float64"), "D")
    E = te.compute((64,), lambda i: D[63 - i].astype("int32"), "E")
    F = te.compute((64,), lambda i: E[63 - i].astype("float32"), "F")
    Y = te.compute((64,), lambda i: F[63 - i] + 1.0, "Y")
    s = te.create_schedule(Y.op)
    outer, inner = s[Y].split(Y.op.axis[0], nparts=1)
    s[Y].bind(outer, te.thread_axis("blockIdx.x"))
    s[Y].bind(inner, te.thread_axis("threadIdx.x"))
    for stage in (D, E, F):
        s[stage].set_scope("shared")
        s[stage].compute_at(s[Y], outer)
        s[stage].bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))
    made = finish(tilewright.lower(s, [X, Y]).functions[0], check=True)
    (arena,) = allocated(made)
    assert arena.constant_bytes == 64 * 8 + 64 * 4
    assert {(b.name, b.byte_offset) for b in _views(made)} == {("D", 0), ("E", 512), ("F", 0)}
    source = tilewright.build(s, [X, Y], "cuda -arch=sm_80").imported_modules[0].get_source()
    assert "int* const E = (int*)(arena + 512);" in source


def _views(function: Function) -> set[Any]:
    loads = (node for node in post_order(function.body) if isinstance(node, Load))
    return {load.source for load in loads if getattr(load.source, "alias_of", None) is not None}
