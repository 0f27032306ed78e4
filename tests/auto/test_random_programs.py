"""Automatic schedules of random programs: `python -m tests.fuzz --auto` draws more of them."""

from __future__ import annotations

import pytest

from tests.fuzz.automatic import TARGETS, draw_automatic
from tests.fuzz.cases import Case
from tests.fuzz.engines import judge

COUNT = 40
INSIDE = {
    "one element of a reduction per thread": (
        "A = te.placeholder((1, 1), name='A')",
        "k = te.reduce_axis((0, 1), name='k')",
        "B = te.compute((1,), lambda i: te.sum(A[i, k], axis=k), name='B')",
        "T = te.compute((1,), lambda i: B[i // 2], name='T')",
    ),
    "a reduction of columns that another reduction reads": (
        "A = te.placeholder((1, 8, 1), name='A')",
        "k, r = te.reduce_axis((0, 1), name='k'), te.reduce_axis((0, 8), name='r')",
        "B = te.compute((8, 1), lambda i, j: te.max(A[k, i, j], axis=k), name='B')",
        "T = te.compute((1,), lambda i: te.sum(B[r, i], axis=r), name='T')",
    ),
    "a result without dimensions": (
        "A = te.placeholder((32,), name='A')",
        "k = te.reduce_axis((0, 32), name='k')",
        "B = te.compute((), lambda: te.max(A[k], axis=k), name='B')",
        "T = te.compute((), lambda: tir.Select(B[()] > 0.0, B[()], B[()] + 1.0), name='T')",
    ),
    "two results of one sum": (
        "A = te.placeholder((120,), name='A')",
        "k = te.reduce_axis((0, 120), name='k')",
        "B = te.compute((), lambda: te.sum(A[k], axis=k), name='B')",
        "T, U = te.compute((), lambda: (B[()] + 1.0, B[()] * 2.0), name='T')",
    ),
    "a pair of any size": (
        "n, m = te.size_var('n'), te.size_var('m')",
        "A = te.placeholder((n, m), name='A')",
        "k = te.reduce_axis((0, m), name='k')",
        "both = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), "
        "lambda a, b: (tir.const(0, a), tir.const(-99, b)))",
        "U, V = te.compute((n,), lambda i: both((A[i, k], A[i, k] * 2.0), axis=k), name='U')",
        "T = te.compute((n,), lambda i: U[i] + V[i], name='T')",
    ),
}
"""Programs in which a kernel has a reduction and its readers."""


@pytest.mark.parametrize("name", INSIDE)
def test_a_program_has_a_schedule(name: str) -> None:
    outputs = ["T", "U"] if "T, U" in INSIDE[name][-1] else ["T"]
    lines = (*INSIDE[name], "kept = []", f"outputs = {outputs}", f"s = auto_schedule([T], {TARGETS['cuda']!r})")
    sizes = ((13, 7),) if "n, m" in INSIDE[name][0] else ()
    verdict = judge(Case("automatic", 0, lines, ("A", *outputs), (), sizes), ("interpreter",))
    assert verdict.outcome == "right", verdict.detail


@pytest.mark.parametrize("part", range(2))
def test_random_programs_are_right(part: int) -> None:
    """None is wrong, none is refused, and each schedule replays from its text."""
    for case in map(draw_automatic, range(part, COUNT, 2)):
        verdict = judge(case, ("text", "interpreter", "llvm"))
        assert verdict.outcome == "right", f"seed {case.seed}: {verdict}\n{case.text}"
