"""Operators that move elements, in NumPy, written from their definitions: one element at a time if that is clear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def gather_nd_python(a_np: np.ndarray, indices_np: np.ndarray) -> np.ndarray:
    """a[indices[0], indices[1], ...]"""
    return np.asarray(a_np[tuple(indices_np)])


def take_python(a_np: np.ndarray, indices_np: np.ndarray, axis: int | None, mode: str) -> np.ndarray:
    """np.take; with "nan", the result is NaN if the index is outside."""
    if mode != "nan":
        return np.take(a_np, indices_np, axis, mode="wrap" if mode == "wrap" else "clip")
    found = np.take(a_np, indices_np, axis, mode="clip").copy()
    size = a_np.size if axis is None else a_np.shape[axis]
    outside = (indices_np < 0) | (indices_np >= size)
    if axis is None:
        found[outside] = np.nan
    else:
        moved = np.moveaxis(found, range(axis, axis + indices_np.ndim), range(indices_np.ndim))
        moved[outside] = np.nan
    return found


def reverse_sequence_python(a_np: np.ndarray, lengths: np.ndarray, seq_axis: int, batch_axis: int) -> np.ndarray:
    """The first lengths[b] elements of sequence b in reverse, the others unchanged"""
    out = a_np.copy()
    for b, length in enumerate(lengths):
        here: list[slice | int] = [slice(None)] * a_np.ndim
        here[batch_axis] = b
        part = np.moveaxis(out[tuple(here)], seq_axis - (seq_axis > batch_axis), 0)
        part[:length] = part[:length][::-1].copy()
    return out


def one_hot_python(indices: np.ndarray, on: float, off: float, depth: int, axis: int, dtype: str) -> np.ndarray:
    """`on` at the place that each index names along a new dimension, `off` elsewhere"""
    out = np.full((*indices.shape, depth), off, dtype)
    for at in np.ndindex(*indices.shape):
        if 0 <= indices[at] < depth:
            out[(*at, int(indices[at]))] = on
    return np.ascontiguousarray(np.moveaxis(out, -1, axis))


def sequence_mask_python(a_np: np.ndarray, lengths: np.ndarray, value: float, axis: int) -> np.ndarray:
    """`value` behind the end of each sequence"""
    out = a_np.copy()
    for b, length in enumerate(lengths):
        if axis == 0:
            out[length:, b] = value
        else:
            out[b, length:] = value
    return out


def matrix_set_diag_python(
    a_np: np.ndarray, diagonal: np.ndarray, k: tuple[int, int], align: str = "RIGHT_LEFT"
) -> np.ndarray:
    """Diagonals k[0] ... k[1] replaced, the topmost of `diagonal` (..., diagonals, elements) first"""
    out = a_np.copy()
    height, width = a_np.shape[-2:]
    above, below = align.split("_")
    for d in range(k[0], k[1] + 1):
        places = [(m, m + d) for m in range(height) if 0 <= m + d < width]
        row = diagonal[..., k[1] - d, :]
        side = above if d >= 0 else below
        row = row[..., row.shape[-1] - len(places) :] if side == "RIGHT" else row[..., : len(places)]
        for number, (m, n) in enumerate(places):
            out[..., m, n] = row[..., number]
    return out


def layout_transform_python(a_np: np.ndarray, letters: str, to: str) -> np.ndarray:
    """Change the layout from one letter per dimension to blocks: "NCHW" to "NCHW4c" """
    size = int("".join(c for c in to if c.isdigit()))
    small = next(c for c in to if c.islower())
    order = [c for c in to if c.isalpha()]
    split: list[int] = []
    names: list[str] = []
    for n, letter in zip(a_np.shape, letters, strict=True):
        split += [n // size, size] if letter == small.upper() else [n]
        names += [letter, small] if letter == small.upper() else [letter]
    return np.ascontiguousarray(a_np.reshape(split).transpose([names.index(c) for c in order]))


def depth_to_space_python(a_np: np.ndarray, size: int, mode: str = "DCR") -> np.ndarray:
    """Images (N, C, H, W) with blocks of channels in their height and width"""
    n, c, h, w = a_np.shape
    left = c // size**2
    if mode == "DCR":
        parts = a_np.reshape(n, size, size, left, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = a_np.reshape(n, left, size, size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.ascontiguousarray(parts.reshape(n, left, h * size, w * size))


def space_to_depth_python(a_np: np.ndarray, size: int) -> np.ndarray:
    """Images (N, C, H, W) with blocks of height and width in their channels"""
    n, c, h, w = a_np.shape
    parts = a_np.reshape(n, c, h // size, size, w // size, size).transpose(0, 3, 5, 1, 2, 4)
    return np.ascontiguousarray(parts.reshape(n, c * size**2, h // size, w // size))


def space_to_batch_nd_python(
    a_np: np.ndarray, block: Sequence[int], before: Sequence[int], after: Sequence[int], value: float = 0.0
) -> np.ndarray:
    """Blocks of the dimensions behind the batch in the batch"""
    count = len(block)
    around = [(0, 0), *zip(before, after, strict=True), *[(0, 0)] * (a_np.ndim - 1 - count)]
    padded = np.pad(a_np, around, constant_values=value)
    parts = [
        padded[(slice(None), *(slice(o, None, b) for o, b in zip(offset, block, strict=True)))]
        for offset in np.ndindex(*block)
    ]
    return np.concatenate(parts)


def batch_to_space_nd_python(
    a_np: np.ndarray, block: Sequence[int], begin: Sequence[int], end: Sequence[int]
) -> np.ndarray:
    """The inverse of `space_to_batch_nd_python`"""
    times = int(np.prod(block))
    batch = a_np.shape[0] // times
    spatial = [n * b for n, b in zip(a_np.shape[1:], block, strict=False)]
    out = np.zeros((batch, *spatial, *a_np.shape[1 + len(block) :]), a_np.dtype)
    for number, offset in enumerate(np.ndindex(*block)):
        here = (slice(None), *(slice(o, None, b) for o, b in zip(offset, block, strict=True)))
        out[here] = a_np[number * batch : (number + 1) * batch]
    cut = (slice(b, n - e) for b, e, n in zip(begin, end, spatial, strict=True))
    return np.ascontiguousarray(out[(slice(None), *cut)])
