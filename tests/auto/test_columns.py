"""Sums of columns on GPUs: vectors of neighbours, shared terms, and sums that blocks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.auto.programs import assert_right_on_gpu
from tilewright import te, topi
from tilewright.auto.gpu_columns import ColumnTile, columns_of, default_tile, is_possible, schedule_columns
from tilewright.auto.program import AutomaticProgram
from tilewright.core.target import Target

Case = tuple[list[Any], Any, Callable[..., Any]]


def product(m: int, k: int, n: int, dtype: str) -> Case:
    a, b = te.placeholder((m, k), dtype, "a"), te.placeholder((k, n), dtype, "b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r), name="c")
    return [a, b], te.compute((m, n), lambda i, j: te.max(c[i, j], 0.0), name="d"), lambda x, y: np.maximum(x @ y, 0)


def channels(n: int, h: int, c: int) -> Case:
    a = te.placeholder((n, h, c), "float32", "a")
    return [a], topi.sum(a, axis=(0, 1)), lambda x: x.sum((0, 1))


def largest(n: int, c: int) -> Case:
    a, r = te.placeholder((n, c), "float32", "a"), te.reduce_axis((0, n), name="r")
    return [a], te.compute((c,), lambda j: te.max(a[r, j], axis=r), name="b"), lambda x: x.max(0)


CASES = {
    "half": lambda: product(1, 300, 96, "float16"),
    "rows": lambda: product(3, 257, 64, "float16"),
    "odd": lambda: product(1, 128, 71, "float32"),
    "channels": lambda: channels(5, 60, 72),
    "uneven": lambda: channels(7, 33, 77),
    "max": lambda: largest(200, 64),
}
TILES: dict[str, Callable[[ColumnTile], ColumnTile]] = {
    "default": lambda t: t,
    "warps": lambda t: replace(t, columns=32, threads=128, flying=2),
    "wide": lambda t: replace(t, columns=64, threads=64),
    "shares": lambda t: replace(t, vector=1, columns=32, threads=64, shares=2),
}


@pytest.mark.cuda
@pytest.mark.parametrize("tile", [pytest.param(t, marks=[pytest.mark.slow] * (t != "default")) for t in TILES])
@pytest.mark.parametrize("case", CASES)
def test_columns(case: str, tile: str) -> None:
    inputs, out, reference = CASES[case]()
    target = Target("cuda")
    program = AutomaticProgram([out.op], target)
    sums = columns_of(program.flow, program.kernels[0], program.target)
    assert sums is not None
    chosen = TILES[tile](default_tile(sums))
    if not is_possible(sums, chosen):
        chosen = replace(chosen, columns=32, vector=1)
    assert is_possible(sums, chosen)
    s = program.begun()
    schedule_columns(s, program.kernels[0], sums, chosen)
    assert_right_on_gpu(s, inputs, out, reference, target)


def test_which_kernels_sum_columns() -> None:
    assert all(columns_of(p.flow, p.kernels[0], p.target) is not None for p in
               (AutomaticProgram([made()[1].op], Target("cuda")) for made in CASES.values()))  # fmt: skip
    a = te.placeholder((64, 128), name="a")
    along = AutomaticProgram([topi.sum(a, axis=1).op], Target("cuda"))
    assert columns_of(along.flow, along.kernels[0], along.target) is None
