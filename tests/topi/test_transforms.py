"""Operators that move elements against NumPy, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import nn, testing

RANDOM = np.random.default_rng(4)
A = RANDOM.normal(0, 1, (3, 4, 5)).astype("float32")
B = RANDOM.normal(0, 1, (3, 2, 5)).astype("float32")
IMAGES = RANDOM.normal(0, 1, (2, 8, 4, 6)).astype("float32")
WHOLE = RANDOM.integers(-9, 9, (6, 7)).astype("int32")
SLICES: list[tuple[Any, ...]] = [
    ([1, 0, 2], [3, 4, 5]),
    ([0, -3], [2, -1]),
    ([2, None, -1], [None, 3, 0], [-1, 2, -2]),
    ([1], [3], None, [2]),
    ([0, 1], [2, -1], None, [1, 2], "size"),
]


def sliced(a: np.ndarray, begin: Any, end: Any, strides: Any = None, axes: Any = None, mode: str = "end") -> np.ndarray:
    """The part of an array that `strided_slice` with these lists takes, by Python's slices."""
    along = axes or list(range(len(begin)))
    cut = [slice(None)] * a.ndim
    for place, d in enumerate(along):
        last = end[place]
        if mode == "size":
            last = None if last == -1 else begin[place] + last
        cut[d] = slice(begin[place], last, strides[place] if strides else 1)
    return np.ascontiguousarray(a[tuple(cut)])


@every_target
def test_shapes_and_orders(target: str) -> None:
    lengths = np.array([4, 0, 2], "int32")
    cases = [
        Case("expand_dims", lambda x: topi.expand_dims(x, 1, 2), [A], A[:, None, None]),
        Case("expand_dims last", lambda x: topi.expand_dims(x, -1), [A], A[..., None]),
        Case("expand_like", lambda x, y: topi.expand_like(x, y, [1]), [A[:, 0], A], np.repeat(A[:, :1], 4, 1)),
        Case("squeeze", topi.squeeze, [A[:1, :, :1]], A[0, :, 0]),
        Case("squeeze one", lambda x: topi.squeeze(x, -1), [A[:1, :, :1]], A[:1, :, 0]),
        Case("transpose", topi.transpose, [A], A.T),
        Case("transpose to", lambda x: topi.transpose(x, (1, -1, 0)), [A], A.transpose(1, 2, 0)),
        Case("flip", lambda x: topi.flip(x, 1), [A], A[:, ::-1]),
        Case("flip two", lambda x: topi.flip(x, (0, -1)), [A], A[::-1, :, ::-1]),
        Case("reshape", lambda x: topi.reshape(x, (5, 12)), [A], A.reshape(5, 12)),
        Case("reshape open", lambda x: topi.reshape(x, (2, -1, 3)), [A], A.reshape(2, -1, 3)),
        Case("flatten", nn.flatten, [A], A.reshape(3, -1)),
        Case(
            "reverse_sequence",
            lambda x, n: topi.reverse_sequence(x, n, 1, 0),
            [A, lengths],
            testing.reverse_sequence_python(A, lengths, 1, 0),
        ),
        Case("layout", lambda x: topi.layout_transform(x, "NCHW", "NCHW4c"), [IMAGES],
             testing.layout_transform_python(IMAGES, "NCHW", "NCHW4c")),
        Case("layout back", lambda x: topi.layout_transform(x, "NCHW4c", "NHWC"),
             [testing.layout_transform_python(IMAGES, "NCHW", "NCHW4c")], IMAGES.transpose(0, 2, 3, 1)),
        Case("layout blocks", lambda x: topi.layout_transform(x, "NCHW4c", "HWNC2c"),
             [testing.layout_transform_python(IMAGES, "NCHW", "NCHW4c")],
             testing.layout_transform_python(IMAGES, "NCHW", "HWNC2c")),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_joining_and_parts(target: str) -> None:
    cases = [
        Case("concatenate", lambda *x: topi.concatenate(x, 1), [A, B, A], np.concatenate([A, B, A], 1)),
        Case("stack", lambda *x: topi.stack(x, -1), [A, A[::-1], -A], np.stack([A, A[::-1], -A], -1)),
        Case("split", lambda x: topi.split(x, 2, 1), [A], np.split(A, 2, 1)),
        Case("split at", lambda x: topi.split(x, [1, 4], -1), [A], np.split(A, [1, 4], -1)),
        Case("repeat", lambda x: topi.repeat(x, 3, 1), [A], np.repeat(A, 3, 1)),
        Case("tile", lambda x: topi.tile(x, (2, 1, 3)), [A], np.tile(A, (2, 1, 3))),
        Case("tile more", lambda x: topi.tile(x, (2, 3, 1)), [WHOLE], np.tile(WHOLE, (2, 3, 1))),
        Case("tile last", lambda x: topi.tile(x, 2), [A], np.tile(A, 2)),
        Case("slice of tensors", lambda x, b, e, s: topi.dynamic_strided_slice(x, b, e, s, (2, 2, 5)),
             [A, *(np.array(v, "int64") for v in ([1, -1], [3, 0], [1, -2]))], A[1:3, -1:0:-2]),
        Case("slice of nothing", lambda x: topi.strided_slice(x, [0, 2], [3, 2]) + 1, [A], A[0:3, 2:2]),
        Case("reshape of nothing", lambda x: topi.reshape(x, (2, 0)), [A[:, :0, :4]], np.zeros((2, 0), "float32")),
        Case("bits", lambda x: topi.reinterpret(x, "int32"), [A], A.view("int32")),
    ]  # fmt: skip
    for number, cut in enumerate(SLICES):
        cases.append(Case(f"slice {number}", lambda x, c=cut: topi.strided_slice(x, *c), [A], sliced(A, *cut)))
    check(cases, target)


@every_target
def test_indexing(target: str) -> None:
    where = np.array([[0, 3, -1], [7, 2, 1]], "int32")
    inside, nd = RANDOM.integers(0, 4, (3, 2, 5)).astype("int32"), RANDOM.integers(0, 3, (2, 6)).astype("int64")
    matrices, diagonals = RANDOM.normal(0, 1, (2, 4, 5)), RANDOM.normal(0, 1, (2, 3, 4))
    truth = A > 0
    lengths = np.array([2, 0, 3, 1], "int32")
    cases = [
        Case(f"take {axis} {mode}", lambda x, i, a=axis, m=mode: topi.take(x, i, a, mode=m), [A, where],
             testing.take_python(A, where, axis, mode))
        for axis in (None, 1) for mode in ("clip", "wrap", "nan")
    ]  # fmt: skip
    batch = np.stack([np.take(A[b], inside[b, 0], 0) for b in range(3)])
    cases += [
        Case("take batch", lambda x, i: topi.take(x, i, 1, 1, "fast"), [A, inside[:, 0]], batch),
        Case("gather", lambda x, i: topi.gather(x, 1, i), [A, inside], np.take_along_axis(A, inside, 1)),
        Case("gather_nd", topi.gather_nd, [A, nd], testing.gather_nd_python(A, nd)),
        Case("gather_nd floats", topi.gather_nd, [A, nd.astype("float32")], testing.gather_nd_python(A, nd)),
        Case("where", topi.where, [truth, A, -2 * A], np.where(truth, A, -2 * A)),
        Case("where mixed", lambda c, y: topi.where(c, 1.5, y), [WHOLE[:4, :5], A],
             np.where(WHOLE[:4, :5], np.float32(1.5), A)),
        Case("one_hot", lambda i: topi.one_hot(i, 2.5, -1, 4, 1, "float32"), [where],
             testing.one_hot_python(where, 2.5, -1, 4, 1, "float32")),
        Case("sequence_mask", lambda x, n: topi.sequence_mask(x, n, -1), [A, lengths],
             testing.sequence_mask_python(A, lengths, -1, 0)),
        Case("sequence_mask 1", lambda x, n: topi.sequence_mask(x, n, 7, 1), [A, lengths[:3]],
             testing.sequence_mask_python(A, lengths[:3], 7, 1)),
        Case("trilu", lambda x: topi.trilu(x, 1, True), [A], np.triu(A, 1)),
        Case("trilu low", lambda x: topi.trilu(x, -1, False), [WHOLE], np.tril(WHOLE, -1)),
        Case("set_diag", topi.matrix_set_diag, [matrices, diagonals[:, 0]],
             testing.matrix_set_diag_python(matrices, diagonals[:, :1], (0, 0))),
    ]  # fmt: skip
    for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
        expected = testing.matrix_set_diag_python(matrices, diagonals, (-1, 1), align)
        setting = lambda x, d, a=align: topi.matrix_set_diag(x, d, (-1, 1), a)
        cases.append(Case(f"set_diag {align}", setting, [matrices, diagonals], expected))
    check(cases, target)


@every_target
def test_ranges(target: str) -> None:
    row, column = np.arange(3, dtype="float32"), np.arange(5, dtype="float32") * 2
    flat = RANDOM.integers(0, 60, (2, 7)).astype("int32")
    cases = [
        Case("arange", lambda: topi.arange(7), [], np.arange(7, dtype="float32")),
        Case("arange down", lambda: topi.arange(9, -2, -3, "int32"), [], np.arange(9, -2, -3, "int32")),
        Case("arange half", lambda: topi.arange(0.5, 3, 0.25), [], np.arange(0.5, 3, 0.25, "float32")),
        Case("meshgrid", lambda *x: topi.meshgrid(x, "ij"), [row, column], np.meshgrid(row, column, indexing="ij")),
        Case("meshgrid xy", lambda *x: topi.meshgrid(x, "xy"), [row, column], np.meshgrid(row, column)),
        Case("unravel_index by a tensor", topi.unravel_index, [flat, np.array([3, 4, 5], "int32")],
             np.stack(np.unravel_index(flat, (3, 4, 5))).astype("int32")),
        Case("unravel_index", lambda i: topi.unravel_index(i, (3, 4, 5)), [flat],
             np.stack(np.unravel_index(flat, (3, 4, 5))).astype("int32")),
        Case("shape", topi.shape, [A], np.array([3, 4, 5], "int32")),
        Case("ndarray_size", lambda x: topi.ndarray_size(x, "int64"), [A], np.asarray(60, "int64")),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_borders_and_blocks(target: str) -> None:
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    deep, wide = testing.depth_to_space_python(IMAGES, 2), testing.space_to_depth_python(IMAGES, 2)
    batch = testing.space_to_batch_nd_python(last, (2, 3), (1, 0), (1, 3), 0.5)
    cases = [
        Case("pad", lambda x: nn.pad(x, [1, 0, 2], [0, 3, 1], 1.5), [A],
             np.pad(A, ((1, 0), (0, 3), (2, 1)), constant_values=1.5)),
        Case("dilate", lambda x: nn.dilate(x, [2, 1, 3], 0.5), [A], testing.dilate_python(A, [2, 1, 3], 0.5)),
        Case("mirror", lambda x: nn.mirror_pad(x, [1, 0, 2], [2, 3, 0]), [A],
             np.pad(A, ((1, 2), (0, 3), (2, 0)), "symmetric")),
        Case("reflect", lambda x: nn.mirror_pad(x, [1, 0, 2], [2, 3, 0], "REFLECT"), [A],
             np.pad(A, ((1, 2), (0, 3), (2, 0)), "reflect")),
        Case("depth_to_space", lambda x: nn.depth_to_space(x, 2), [IMAGES], deep),
        Case("depth_to_space CRD", lambda x: nn.depth_to_space(x, 2, mode="CRD"), [IMAGES],
             testing.depth_to_space_python(IMAGES, 2, "CRD")),
        Case("depth_to_space CDR", lambda x: nn.depth_to_space(x, 2, mode="CDR"), [IMAGES],
             testing.depth_to_space_python(IMAGES, 2, "CRD")),
        Case("depth_to_space last", lambda x: nn.depth_to_space(x, 2, "NHWC"), [last], deep.transpose(0, 2, 3, 1)),
        Case("space_to_depth", lambda x: nn.space_to_depth(x, 2), [IMAGES], wide),
        Case("space_to_batch", lambda x: nn.space_to_batch_nd(x, [2, 3], [1, 0], [1, 3], 0.5), [last], batch),
        Case("batch_to_space", lambda x: nn.batch_to_space_nd(x, [2, 3], [1, 0], [1, 3]), [batch],
             testing.batch_to_space_nd_python(batch, (2, 3), (1, 0), (1, 3))),
    ]  # fmt: skip
    check(cases, target)
