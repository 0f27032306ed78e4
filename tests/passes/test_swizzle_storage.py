"""Indices of swizzled buffers are permuted within eight lines of pieces, alike for loads and stores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops.programs import alloc, exprs, function, launch, load, loop, ramp, store
from tests.passes.kernels import A, B, copy, kernel, tx
from tests.passes.running import run_pass
from tilewright.core.errors import UserError
from tilewright.core.hardware import MemoryScope
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Expr, Ramp, Var
from tilewright.loops.interpret import interpret
from tilewright.loops.layout import StorageLayout
from tilewright.loops.nodes import Buffer, Function, Store, seq
from tilewright.loops.walk import statements
from tilewright.passes.swizzle_storage import swizzle_storage

i = Var("i")


def tile(elements: int, line: int = 128, dtype: str = "float32") -> Buffer:
    """A swizzled buffer in shared memory, in lines of so many bytes."""
    return Buffer("tile", dtype, exprs(elements), MemoryScope.SHARED, layout=StorageLayout(swizzle=line))


def stored_at(made: Function, buffer: Buffer) -> Expr:
    (found,) = (s.indices[0] for s in statements(made.body) if isinstance(s, Store) and s.buffer is buffer)
    return found


def filling(buffer: Buffer, index: Expr) -> Function:
    """A kernel that stores to the buffer at an index."""
    body = alloc(buffer, store(buffer, index, 0 if buffer.dtype.is_int else 0.0))
    return function((A, B), launch(loop(i, 4096, body), tx=(tx, 1)))


@pytest.mark.parametrize(("dtype", "line"), [("float32", 128), ("float32", 256), ("float16", 128), ("int8", 512)])
def test_pieces_are_permuted_within_eight_lines(dtype: str, line: int) -> None:
    buffer = tile(4096, line, dtype)
    index = stored_at(run_pass(swizzle_storage, filling(buffer, i)), buffer)
    size, piece = buffer.dtype.bytes, 16 // buffer.dtype.bytes
    places = np.array([evaluate(index, {i: n}) for n in range(4096)])
    elements = np.arange(4096)
    number = elements * size // line % 8  # of the line
    np.testing.assert_array_equal(places, elements ^ number * piece)
    assert len(set(places.tolist())) == 4096
    columns = places.reshape(-1, line // size)[:8, 0] * size % 128 // 16
    assert sorted(columns.tolist()) == list(range(8))  # the same piece of eight lines: different banks


def test_what_is_stored_is_what_is_loaded() -> None:
    buffer = tile(64)
    at = tx * 8 + i
    turned = (tx % 8) + i * 8
    body = alloc(buffer, loop(i, 8, store(buffer, at, load(A, at))), loop(i, 8, store(B, at, load(buffer, turned))))
    made = run_pass(swizzle_storage, function((A, B), launch(body, tx=(tx, 8))))
    assert made.body is not body
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    interpret(made, [a, b], races=False)
    np.testing.assert_array_equal(b.reshape(8, 8), a.reshape(8, 8).T)


def test_a_vector_within_a_piece_stays_one() -> None:
    buffer = tile(4096)
    index = stored_at(run_pass(swizzle_storage, filling(buffer, ramp(i * 4, 4))), buffer)
    assert isinstance(index, Ramp)
    assert index.lanes == 4


@pytest.mark.parametrize("index", [ramp(i * 8, 8), ramp(i * 4 + 1, 4), ramp(i, 4, 2)])
def test_a_vector_across_pieces_is_refused(index: Expr) -> None:
    with pytest.raises(UserError, match=r"a vector of \d elements of 'tile' .* is not within one piece of 16 bytes"):
        run_pass(swizzle_storage, filling(tile(4096), index))


def test_other_buffers_are_left_as_they_are() -> None:
    before = kernel(seq(copy(tx)))
    assert run_pass(swizzle_storage, before) is before
