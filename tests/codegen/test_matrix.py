"""The source of matrix instructions, run by a warp in Python: fragments come from where the manual says, without bank
conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.matmul import Tiling, product
from tests.codegen.warp import Warp, fragment_d
from tests.passes.running import finish
from tilewright import intrin
from tilewright.codegen.program import generate
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Expr, Var
from tilewright.expr.traverse import post_order, variables
from tilewright.loops.nodes import Function, Tensorized

CUDA = "cuda -arch=sm_90"
TURNS = ((False, False), (False, True), (True, False), (True, True))
WAYS = [(atom, *turn) for atom in ("float16", "tf32", "float64") for turn in TURNS]
WAYS += [(atom, False, True) for atom in ("bfloat16", "3xtf32", "int8")]


def at(index: Expr, **values: Any) -> int:
    """An index for values of the variables of the tile; every other variable is 0."""
    known = dict.fromkeys(variables(index), 0)
    names = {var.name.rpartition(".")[2]: var for var in known}
    known |= {names[name]: value for name, value in values.items() if name in names}
    return int(evaluate(index, known))


def statement(function: Function) -> Tensorized:
    """The matrix instruction of a function."""
    return next(node for node in post_order(function.body) if isinstance(node, Tensorized))


def text(function: Function) -> list[str]:
    """The lines of its source, from the lane's number on."""
    lines = generate((function,), Target(CUDA))[0].source.splitlines()
    start = next(i for i, line in enumerate(lines) if "(rows, columns, depth) by" in line)
    depth = 0
    for i in range(start, len(lines)):
        depth += lines[i].count("{") - lines[i].count("}")
        if depth < 0:
            return lines[start:i]
    raise AssertionError("the block of the statement is not closed")


def memory(load: Any, size: tuple[int, int], names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """A tile of random integers, and the shared memory that holds it among other values."""
    kind = DType(load.source.dtype).numpy
    tile = np.random.default_rng().integers(-8, 9, size)
    held = np.full(int(load.source.shape[0]), 99, kind)
    for i in range(size[0]):
        for j in range(size[1]):
            held[at(load.indices[0], **{names[0]: i, names[1]: j})] = tile[i, j]
    return tile, held


@pytest.mark.parametrize(("atom", "a_turned", "b_turned"), WAYS)
def test_lanes_load_and_hold_what_the_manual_says(atom: str, a_turned: bool, b_turned: bool) -> None:
    check(atom, a_turned, b_turned, None)


@pytest.mark.parametrize("atom", ["float16", "float64"])
def test_the_drawing_shows_what_the_manual_says(atom: str) -> None:
    shown = [line.split() for line in intrin.mma(atom).draw().splitlines()[1:]]
    held = fragment_d(intrin.mma(atom).m)
    assert (len(shown), len(shown[0])) == (intrin.mma(atom).m, 8)
    for lane in range(32):
        for register, (row, column) in enumerate(held[lane]):
            assert shown[row][column] == f"{lane}.{register}"


@pytest.mark.parametrize(("atom", "a_turned", "b_turned"), [*WAYS[:4], ("int8", False, True)])
def test_rows_that_are_not_aligned_are_loaded_by_element(atom: str, a_turned: bool, b_turned: bool) -> None:
    check(atom, a_turned, b_turned, 33)


def check(atom: str, a_turned: bool, b_turned: bool, align: int | None) -> None:
    """Run the source of a product, the rows of whose operands in shared memory may have a stride of their own."""
    rows, columns, depth = (32, 24, 32)
    tiling = Tiling((rows, columns), (rows, columns), depth)
    s, args = product(rows, columns, 2 * depth, atom, tiling, a_turned=a_turned, b_turned=b_turned)
    for stage in s.stages if align else ():
        if stage.scope == "shared":
            stage.storage_align(stage.op.axis[0], align, 0)
    function = finish(lower_for(Target(CUDA), s, args).functions[0], CUDA)
    stmt = statement(function)
    a, a_memory = memory(stmt.a, (rows, depth), ("row", "depth"))
    b, b_memory = memory(stmt.b, (depth, columns), ("depth", "column"))
    piece = (stmt.atom.m, stmt.atom.n, stmt.atom.k)
    sums = np.zeros((32, rows * columns // 32))
    Warp({"A_shared": a_memory, "B_shared": b_memory}, sums, piece).run(text(function))
    wanted = a @ b
    assert isinstance(stmt.lane, Var)
    for i in range(rows):
        for j in range(columns):
            lane = i % 8 * 4 + j % 8 // 2
            assert sums[lane, at(stmt.sums.indices[0], row=i, column=j)] == wanted[i, j]  # type: ignore[attr-defined]
