"""`s.explain("llvm")`: vectors, orders of accesses and footprints, against numbers by hand and by brute force."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from tilewright import te
from tilewright.explain.footprint import Touched, bytes_of
from tilewright.explain.processor import AccessPattern, ProcessorAccess, ProcessorUse
from tilewright.expr.operators import const
from tilewright.loops.nodes import Buffer

AVX512 = "llvm -mcpu=skylake-avx512"


def use_of(s: Any, target: str = AVX512, **options: Any) -> ProcessorUse:
    (kernel,) = s.explain(target, **options).kernels
    assert kernel.processor is not None
    return kernel.processor


def access(use: ProcessorUse, name: str, stores: bool = False) -> ProcessorAccess:
    (found,) = [each for each in use.accesses if each.buffer == name and each.stores is stores]
    return found


def product() -> Any:
    """Tiles of 8 × 16 results of a product of 256 × 1024 by 1024 × 512."""
    a, b = te.placeholder((256, 1024), name="A"), te.placeholder((1024, 512), name="B")
    k = te.reduce_axis((0, 1024), name="k")
    c = te.compute((256, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    io, ii = s[c].split(c.op.axis[0], 8)
    jo, ji = s[c].split(c.op.axis[1], 16)
    ko, ki = s[c].split(k, 4)
    s[c].reorder(io, jo, ko, ki, ii, ji)
    s[c].vectorize(ji)
    s[c].parallel(io)
    s[c].unroll(ii)
    return s


def test_a_product_in_tiles() -> None:
    use = use_of(product())
    table = {loop.loop: (loop.bytes, loop.operations, loop.cache and loop.cache.name) for loop in use.loops}
    assert table == {
        # All of A and C, and of B; nothing of a core holds them.
        "i.outer": ({"C": 256 * 512 * 4, "A": 256 * 1024 * 4, "B": 1024 * 512 * 4}, 2.0 * 256 * 512 * 1024, None),
        "j.outer": ({"C": 8 * 512 * 4, "A": 8 * 1024 * 4, "B": 1024 * 512 * 4}, 2.0 * 8 * 512 * 1024, None),
        # A tile of C, eight rows of A, and a line of each row of B.
        "k.outer": ({"C": 8 * 64, "A": 8 * 1024 * 4, "B": 1024 * 64}, 2.0 * 8 * 16 * 1024, "L2"),
        # Four elements of each of eight rows of A: a line each.
        "k.inner": ({"C": 8 * 64, "A": 8 * 64, "B": 4 * 64}, 2.0 * 8 * 16 * 4, "L1"),
    }
    assert [loop.loop for loop in use.parallel] == ["i.outer"]
    for name, stores in (("B", False), ("C", True)):
        found = access(use, name, stores)
        assert (found.lanes, found.element, found.pattern) == (16, 4, AccessPattern.CONTIGUOUS)
    scalar = access(use, "A")
    assert (scalar.lanes, scalar.shared, scalar.pattern, scalar.loop) == (1, 16, AccessPattern.CONTIGUOUS, "k.inner")
    text = str(product().explain(AVX512))
    for part in (
        "a vector register has 64 bytes", "16 × float32, 64 bytes", "one float32 for 16 lanes", "L1 32,768 bytes",
        "the 32 iterations of i.outer are distributed over threads", "operations per byte", "98,816",
    ):  # fmt: skip
        assert part in text, part


def test_a_vector_wider_than_a_register_takes_several() -> None:
    text = str(product().explain("llvm -mcpu=haswell"))
    assert "a vector register has 32 bytes" in text
    assert "16 × float32, 64 bytes, 2 registers" in text
    assert "L2 262,144 bytes" in text


@pytest.mark.parametrize("vectorized", [False, True])
@pytest.mark.parametrize(
    ("index", "pattern", "stride"),
    [
        (lambda a, i, j: a[i, j], AccessPattern.CONTIGUOUS, 4),
        (lambda a, i, j: a[j, i], AccessPattern.STRIDED, 64 * 4),
        (lambda a, i, j: a[i, 63 - j], AccessPattern.STRIDED, 4),
        (lambda a, i, j: a[i, j * 2 % 64], AccessPattern.STRIDED, 8),
        (lambda a, i, j: a[i, i], AccessPattern.SAME, 0),
    ],
)
def test_orders_of_accesses(index: Any, pattern: AccessPattern, stride: int, vectorized: bool) -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: index(a, i, j) + 1.0, name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[1], 8)
    if vectorized:
        s[b].vectorize(inner)
    found = access(use_of(s), "A")
    if pattern is AccessPattern.SAME and vectorized:
        assert (found.lanes, found.shared) == (1, 8)
        return
    assert (found.pattern, found.stride) == (pattern, stride)
    assert found.lanes == (8 if vectorized else 1)
    assert found.loop == ("" if vectorized else "j.inner")


def test_positions_that_are_data() -> None:
    a, at = te.placeholder((4096,), name="A"), te.placeholder((1024,), "int32", name="at")
    b = te.compute((1024,), lambda i: a[at[i]], name="B")
    s = te.create_schedule(b.op)
    use = use_of(s)
    assert access(use, "A").pattern is AccessPattern.DATA
    assert use.loops[0].bytes == {"A": 4096 * 4, "at": 4096, "B": 4096}
    assert "by data, or uneven" in str(s.explain(AVX512))


def test_rows_of_a_window_overlap() -> None:
    a = te.placeholder((66, 64), name="A")
    k = te.reduce_axis((0, 3), name="k")
    b = te.compute((64, 64), lambda y, x: te.sum(a[y + k, x], axis=k), name="B")
    s = te.create_schedule(b.op)
    yo, yi = s[b].split(b.op.axis[0], 8)
    xo, xi = s[b].split(b.op.axis[1], 16)
    s[b].reorder(yo, xo, yi, k, xi)
    s[b].vectorize(xi)
    use = use_of(s)
    touched = {loop.loop: loop.bytes["A"] for loop in use.loops if "A" in loop.bytes}
    assert touched["k"] == 3 * 64
    assert touched["y.inner"] == 10 * 64, "ten rows, not eight times three"
    assert touched["x.outer"] == 10 * 256
    s[b].unroll(k)
    assert {loop.loop: loop.bytes["A"] for loop in use_of(s).loops if "A" in loop.bytes}["y.inner"] == 10 * 64


def test_sizes_that_are_known_at_the_call() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="B")
    use = use_of(te.create_schedule(b.op), sizes={"n": 100})
    assert [(loop.extent, loop.all_bytes) for loop in use.loops] == [(100, 2 * 40_000), (100, 2 * 448)]
    assert use.loops[1].cache is not None
    assert use.loops[1].cache.name == "L1"


def test_footprints_of_tiles_and_windows_are_exact() -> None:
    """Against the set of all addresses: images of random widths, tiles and windows of random sizes, in any order."""
    chance = random.Random(0)
    for _ in range(300):
        width = chance.choice([24, 40, 64])
        rows, columns = chance.randint(1, 4), chance.randint(1, 6)
        window_rows, window_columns = chance.randint(1, 4), chance.randint(1, 4)
        planes = chance.randint(1, 3)
        loops = [(width * 64, planes), (width, rows), (1, columns), (width, window_rows), (1, window_columns)]
        chance.shuffle(loops)
        line = chance.choice([4, 64])
        unrolled = loops.pop() if chance.random() < 0.5 else (0, 1)
        offsets = [unrolled[0] * i for i in range(unrolled[1])]
        positions = {
            offset + sum(stride * i for (stride, _), i in zip(loops, point, strict=True))
            for offset in offsets
            for point in itertools.product(*(range(extent) for _, extent in loops))
        }
        buffer = Buffer("A", "float32", (const(1 << 20, "int32"),))
        accesses = []
        for offset in offsets:
            one = Touched(buffer, 4, (), offset * 4)
            for stride, extent in loops:
                one = one.within(stride * 4, extent)
            accesses.append(one)
        found = bytes_of(accesses, line, {buffer: 4 << 20})[buffer]
        bytes_touched = np.array(sorted(positions)) * 4
        if line == 4:
            assert found == 4 * len(positions), (loops, offsets)
        else:  # pieces that begin within a line may take one more
            pieces = 1 + int((np.diff(bytes_touched) > 4).sum())
            exact = 64 * len({int(at) // 64 for at in bytes_touched})
            assert exact - 64 * pieces <= found <= exact + 64 * pieces, (loops, offsets)
