"""Arrays whose elements lie apart: taken where the program declares strides, refused with the way out elsewhere."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.programs.harness import every_target, spread
from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device
from tilewright.runtime.from_dlpack import from_dlpack
from tilewright.runtime.module import Module


def doubled(target: str, declare: Any) -> Module:
    """B = 2 A for matrices of any size; `declare(A, name)` gives the buffer of A and of B, or None."""
    n, m = te.size_var("n"), te.size_var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    binds = {tensor: made for tensor in (A, B) if (made := declare(tensor)) is not None}
    return tilewright.build(s, [A, B], target, binds=binds)


def any_strides(tensor: te.Tensor) -> tir.Buffer:
    """A buffer whose strides and first element are known at the call."""
    steps = [te.var(f"{tensor.name}_stride_{i}") for i in range(tensor.ndim)]
    return tir.decl_buffer(tensor.shape, tensor.dtype, tensor.name, strides=steps, elem_offset=te.var("first"))


VIEWS = (
    ((6, 8), (1, 6), 0),  # transposed
    ((3, 2), (12, 2), 7),  # every other row and column
    ((8, 6), (6, 1), 0),
    ((4, 3), (0, 1), 5),  # one row for all
    ((1, 1), (9, 9), 47),
    ((0, 4), (1, 1), 0),
    ((7, 0), (1, 1), 0),
)


@every_target
@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_strides_are_read_off_the_array(target: str, view: tuple[Any, Any, int]) -> None:
    on = device(target)
    a = array(np.arange(48, dtype="float32"), on).as_strided(*view)
    b = empty(view[0], device=on)
    doubled(target, lambda t: any_strides(t) if t.name == "A" else None)(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())


@every_target
def test_results_may_be_strided(target: str) -> None:
    on = device(target)
    a, whole = array(np.arange(12, dtype="float32").reshape(3, 4), on), array(np.zeros(100, "float32"), on)
    b = whole.as_strided((3, 4), (2, 20), 5)
    doubled(target, any_strides)(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())
    assert whole.numpy().sum() == 2 * np.arange(12).sum()


@every_target
def test_strides_may_be_numbers(target: str) -> None:
    on = device(target)
    columns = doubled(target, lambda t: tir.decl_buffer(t.shape, t.dtype, strides=[1, t.shape[0]]))
    a, b = (array(np.arange(12, dtype="float32"), on).as_strided((3, 4), (1, 3)) for _ in range(2))
    columns(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())
    with pytest.raises(
        UserError, match=r"has strides \(4, 1\): the stride of dimension 0 is 4, but .* built for 1\n  fix"
    ):
        columns(array(np.zeros((3, 4), "float32"), on), b)
    if target == "opencl":  # elsewhere an address includes the offset
        moved = array(np.zeros(24, "float32"), on).as_strided((3, 4), (1, 3), 8)
        with pytest.raises(UserError, match=r"starts 8 elements into its memory, but .* built for 0\n  fix: declare"):
            columns(moved, b)


@every_target
def test_without_a_declaration_only_rows_are_taken(target: str) -> None:
    on = device(target)
    plain = doubled(target, lambda t: None)
    a = array(np.arange(48, dtype="float32").reshape(8, 6), on)
    for view in VIEWS[:2]:
        with pytest.raises(UserError, match=r"has (strides|an offset).*contiguous elements\n  fix: pass a"):
            plain(a.as_strided(*view), empty(view[0], device=on))
    plain(a.as_strided((1, 6), (99, 1)), empty((1, 6), device=on))  # the stride of a single row does not matter


@every_target
def test_what_is_written_overlaps_nothing(target: str) -> None:
    on = device(target)
    run = doubled(target, any_strides)
    a = array(np.arange(48, dtype="float32"), on)
    with pytest.raises(UserError, match=re.escape("argument 0 of main (A: float32[n, m]) and argument 1")):
        run(a.as_strided((4, 4), (4, 1)), a.as_strided((4, 4), (4, 1)))
    if target != "opencl":
        run(a.as_strided((4, 4), (4, 1)), a.as_strided((4, 4), (4, 1), 16))
        np.testing.assert_array_equal(a.numpy()[16:32], 2 * np.arange(16))
        with pytest.raises(UserError, match="share memory"):
            run(a.as_strided((4, 4), (4, 1)), a.as_strided((4, 4), (4, 1), 15))


def test_torch_tensors_with_strides() -> None:
    torch = pytest.importorskip("torch")
    run = doubled("llvm", any_strides)
    x, y = torch.arange(12.0).reshape(3, 4).T, torch.zeros(4, 6)[:, ::2]
    run(from_dlpack(x), from_dlpack(y))
    assert torch.equal(y, 2 * x)


@pytest.mark.cuda
def test_torch_tensors_with_strides_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    run = doubled("cuda", any_strides)
    x, y = torch.arange(12.0, device="cuda").reshape(3, 4).T, torch.zeros(4, 6, device="cuda")[:, ::2]
    run(from_dlpack(x), from_dlpack(y))
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)


def test_the_lowered_program_shows_strides() -> None:
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] * 2, name="B")
    buffer = tir.decl_buffer(A.shape, A.dtype, "A", strides=[te.var("step"), 1])
    for args in ([A, B], [buffer, B]):
        text = str(tilewright.lower(te.create_schedule(B.op), args, binds={A: buffer}))
        assert 'A: T.Buffer((8, 6), "float32", strides=(step, 1))' in text
        assert "= A_1[i * step + j]" in text


def test_declarations_must_make_sense() -> None:
    n = te.var("n")
    for wrong, message in (
        ({"strides": [1]}, "has 2 dimensions, but 1 stride"),
        ({"strides": [1, -1]}, "`-1` is not a stride or offset"),
        ({"strides": [1, 1.5]}, "is not a stride or offset"),
        ({"scope": "texture"}, "there is no memory scope 'texture'"),
        ({"data": n}, "data=n is not supported"),
        ({"buffer_type": "broadcast"}, "buffer_type='broadcast' is not supported"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            tir.decl_buffer((4, n), **wrong)
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    for binds, message in (
        ({A: A}, "binds maps Tensor"),
        ({A: tir.decl_buffer((8, 7))}, "binds maps 'A', float32[8, 6], to a buffer of float32[8, 7]"),
        ({A: tir.decl_buffer((8, 6), "int8")}, "to a buffer of int8[8, 6]"),
        ({A: tir.decl_buffer((8, 6), strides=[n * 2, 1])}, "n in the stride or offset `n * 2` cannot be found"),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            tilewright.build(s, [A, B], "opencl", binds=binds)
