"""Sums of products with a low part: where they last over the loop around a product, and where losses are added."""

from __future__ import annotations

import re

import pytest

from benchmarks.matmul import Tiling, product
from tilewright import intrin, te
from tilewright.driver import build

CUDA = "cuda -arch=sm_90"
LOSS = "1.075e-07f"
"""Of four steps in 32 terms."""


def source(depth: int, atom: str = "3xtf32") -> str:
    s, args = product(32, 32, depth, atom, Tiling((32, 32), (32, 32), 32), b_turned=True)
    return str(build(s, args, CUDA).program.source)


def test_low_sums_are_declared_before_the_loop_over_slices_and_added_behind_it() -> None:
    before, loop, behind = source(128).partition("for (int k_outer = 0")
    assert "float low_sums[2][4][4];" in before
    assert "mma_3xtf32(high[i][j], low_sums[i][j]," in loop + behind
    assert behind.index("promote(D") < behind.index(f"add_low(D + i * 16 + j * 4, low_sums[i][j], {LOSS});")


def test_a_language_without_matrix_instructions_runs_the_loops() -> None:
    s, args = product(32, 32, 128, "3xtf32", Tiling((32, 32), (32, 32), 32), b_turned=True)
    text = str(build(s, args, "opencl").program.source)
    assert "low_sums" not in text
    assert "add_low" not in text


def test_one_slice_adds_its_own() -> None:
    text = source(32)
    assert "low_sums" not in text
    assert f"add_low(D + i * 16 + j * 4, low[i][j], {LOSS});" in text


def test_one_set_of_sums_has_no_low_ones() -> None:
    assert "add_low" not in source(128, "3xtf32_one")


@pytest.mark.parametrize("unrolled", [False, True])
def test_what_is_lost_is_made_up_for_once(unrolled: bool) -> None:
    """Behind both loops over slices; where they are two in a row, behind the second one, for both."""
    A, B = te.placeholder((16, 96), "float32", "A"), te.placeholder((16, 96), "float32", "B")
    k = te.reduce_axis((0, 96), "k")
    D = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="D")
    C = te.compute((16, 16), lambda i, j: D[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    block, _ = s[C].split(C.op.axis[0], 16)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    s[D].compute_at(s[C], block)
    outer, inner = s[D].split(k, 16)
    far, near = s[D].split(outer, 3)
    s[D].reorder(far, near, *D.op.axis, inner)
    for tile in tiles:
        s[tile].compute_at(s[D], near)
    s[D].tensorize(D.op.axis[0], intrin.mma("3xtf32"))
    if unrolled:
        s[D].unroll(far)
        s[D].pragma(far, "unroll_explicit", 1)
    text = build(s, [A, B, C], CUDA).program.source
    losses = re.findall(r"add_low\(D .*, (\S+)\);", text)
    assert [loss == "0.0f" for loss in losses] == ([True, False] if unrolled else [False])
    assert text.count("float low_sums") == len(losses)
