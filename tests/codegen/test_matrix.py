"""The source of matrix instructions, run by a warp in Python: fragments come from where the manual says, without bank
conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.matmul import Tiling, product
from tests.codegen.warp import Warp, fragment_d
from tests.covering import each_pair
from tests.passes.running import finish
from tilewright import intrin, te
from tilewright.codegen.matrix_fragments import extent_range
from tilewright.codegen.program import generate
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.expr import nodes
from tilewright.expr.nodes import Call, Expr, IntImm, Var
from tilewright.expr.traverse import post_order, variables
from tilewright.loops.nodes import Function, Tensorized

CUDA = "cuda -arch=sm_90"
TURNS = ((False, False), (False, True), (True, False), (True, True))
WAYS = [(atom, *turn) for atom in ("float16", "tf32", "float64") for turn in TURNS]
WAYS += [(atom, False, True) for atom in ("bfloat16", "float16_float16", "3xtf32", "3xtf32_one", "int8")]
WAYS += [("bf16x6", *turn) for turn in TURNS[:3]]


OF_ARRAYS: dict[Any, Any] = {
    nodes.Add: np.add, nodes.Sub: np.subtract, nodes.Mul: np.multiply,
    nodes.Div: np.floor_divide, nodes.FloorDiv: np.floor_divide, nodes.Mod: np.mod, nodes.FloorMod: np.mod,
    "bitwise_xor": np.bitwise_xor,
}  # fmt: skip


def at(index: Expr, size: tuple[int, int], names: tuple[str, str]) -> np.ndarray:
    """An index, which is never negative, at each place of a tile whose variables have these names; others are 0."""
    grid = dict(zip(names, np.indices(size), strict=True))
    known: dict[Expr, Any] = {var: grid.get(var.name.rpartition(".")[2], 0) for var in variables(index)}
    for node in post_order(index):
        if node not in known:
            known[node] = (
                node.value
                if isinstance(node, IntImm)
                else OF_ARRAYS[node.name if isinstance(node, Call) else type(node)](*map(known.get, node.children()))
            )
    return np.broadcast_to(known[index], size)


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


def lasting(function: Function) -> tuple[list[str], list[str]]:
    """The lines in front of the loop that declare sums which last over it, and those behind it that add them."""
    lines = generate((function,), Target(CUDA))[0].source.splitlines()
    found = [i for i, line in enumerate(lines) if "float low_sums" in line]
    if not found:
        return [], []
    declared = found[0] + next(i for i, line in enumerate(lines[found[0] :]) if line.strip().startswith("for (int k"))
    added = max(i for i, line in enumerate(lines) if "add_low(" in line)
    start = max(i for i, line in enumerate(lines[:added]) if "int i = 0" in line)
    return lines[found[0] : declared], lines[start : added + 3]


def memory(
    load: Any, size: tuple[int, int], names: tuple[str, str], tile: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A tile, of random integers unless given, and the shared memory that holds it among other values."""
    kind = DType(load.source.dtype).numpy
    tile = np.random.default_rng([*size, *"".join(names).encode()]).integers(-8, 9, size) if tile is None else tile
    held = np.full(int(load.source.shape[0]), 99, kind)
    places = at(load.indices[0], size, names)
    assert len(np.unique(places)) == tile.size
    held[places] = tile
    return tile, held


def held_sums(stmt: Tensorized, sums: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The sums that the lanes of a warp hold, by row and column."""
    i, j = np.indices(size)
    found: np.ndarray = sums[i % 8 * 4 + j % 8 // 2, at(stmt.sums.indices[0], size, ("row", "column"))]  # type: ignore[attr-defined]
    return found


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


def emulated(atom: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sums of a tile of float32, as the source of a warp computes them one tile of terms after the other."""
    (rows, depth), columns, total = a.shape, b.shape[1], np.zeros((a.shape[0], b.shape[1]))
    tile = 32
    s, args = product(rows, columns, 2 * tile, atom, Tiling((rows, columns), (rows, columns), tile), b_turned=True)
    function = finish(lower_for(Target(CUDA), s, args).functions[0], CUDA)
    stmt, lines = statement(function), text(function)
    piece = (stmt.atom.m, stmt.atom.n, stmt.atom.k)
    sums, (before, behind), warp = np.zeros((32, rows * columns // 32)), lasting(function), None
    for start in range(0, depth, tile):
        terms = slice(start, start + tile)
        _, a_memory = memory(stmt.a, (rows, tile), ("row", "depth"), a[:, terms])
        _, b_memory = memory(stmt.b, (tile, columns), ("depth", "column"), b[terms])
        if warp is None:
            warp = Warp({"A_shared": a_memory, "B_shared": b_memory}, sums, piece)
            warp.run(before)
        warp.shared |= {"A_shared": a_memory, "B_shared": b_memory}
        warp.run(lines)
    assert warp is not None
    warp.run(behind)
    total[:] = held_sums(stmt, sums, (rows, columns))
    return total


@pytest.mark.parametrize("low", [-1, 0])
def test_six_products_of_bfloat16_are_as_exact_as_three_of_tf32(low: int) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.uniform(low, 1, size).astype("float32") for size in ((16, 256), (256, 16)))
    exact = a.astype("float64") @ b.astype("float64")
    errors = {
        atom: float(np.linalg.norm(emulated(atom, a, b) - exact) / np.linalg.norm(exact))
        for atom in ("3xtf32", "bf16x6", "3xtf32_one")
    }
    in_order = np.zeros((16, 16), "float32")
    for i in range(256):
        in_order += a[:, i : i + 1] * b[i : i + 1]
    plain = float(np.linalg.norm(in_order - exact) / np.linalg.norm(exact))
    assert errors["bf16x6"] <= 1.2 * errors["3xtf32"] < plain
    assert errors["3xtf32"] < errors["3xtf32_one"] < 3e-7
    assert errors["3xtf32"] < 1.5e-7


def test_what_truncated_sums_lose_is_made_up_for_but_where_they_are_exact() -> None:
    """Sums of positive numbers are neither too small nor too large on average; those of short operands are exact."""
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(0.5, 1, size).astype("float32") for size in ((16, 256), (256, 16)))
    exact = a.astype("float64") @ b.astype("float64")
    assert abs(np.mean(emulated("3xtf32", a, b) / exact - 1)) < 3e-8
    a, b = (rng.integers(-255, 256, size).astype("float32") for size in ((16, 256), (256, 16)))
    assert (emulated("3xtf32", a, b) == a.astype("float64") @ b.astype("float64")).all()


def check(atom: str, a_turned: bool, b_turned: bool, align: int | None) -> None:
    """Run the source of a product, the rows of whose operands in shared memory may have a stride of their own."""
    rows, columns, depth = (32, 24, 32)
    tiling = Tiling((rows, columns), (rows, columns), depth)
    s, args = product(rows, columns, 2 * depth, atom, tiling, a_turned=a_turned, b_turned=b_turned)
    for stage in s.stages if align else ():
        if stage.scope == "shared":
            stage.storage_align(stage.op.axis[0], align, 0)
    run(s, args, (rows, columns, depth))


def run(s: te.Schedule, args: Any, extents: tuple[int, int, int], conflicts: bool = False) -> None:
    """Run the source of a product of one warp, and check its sums."""
    rows, columns, depth = extents
    function = finish(lower_for(Target(CUDA), s, args).functions[0], CUDA)
    stmt = statement(function)
    a, a_memory = memory(stmt.a, (rows, depth), ("row", "depth"))
    b, b_memory = memory(stmt.b, (depth, columns), ("depth", "column"))
    piece = (stmt.atom.m, stmt.atom.n, stmt.atom.k)
    sums = np.zeros((32, rows * columns // 32))
    before, behind = lasting(function)
    warp = Warp({"A_shared": a_memory, "B_shared": b_memory}, sums, piece, conflicts)
    warp.run([*before, *text(function), *behind])
    wanted = a @ b
    assert isinstance(stmt.lane, Var)
    assert (held_sums(stmt, sums, (rows, columns)) == wanted).all()


TYPES = {"float16": "float16", "tf32": "float32", "bf16x6": "float32", "int8": "int8", "float64": "float64"}
"""The type of the operands of some atoms."""


@pytest.mark.filterwarnings("ignore:.* lanes of .* want one bank")
@pytest.mark.parametrize(
    ("atom", "padding", "terms"),
    each_pair(TYPES, [None, (8, 4), (4, 1), (16, 2)], [(2, 16), (4, 8), (8, 4), (16, 2), (8, 12), (4, 24)]),
)
def test_terms_of_two_dimensions_lie_anywhere(atom: str, padding: Any, terms: tuple[int, int]) -> None:
    """Between the outer ones lie all rows, or what pads the inner ones: pieces of 16 bytes begin and end there."""
    outer, inner = terms
    dtype, between = TYPES[atom], padding is None
    r, c = te.reduce_axis((0, outer), "r"), te.reduce_axis((0, inner), "c")
    k = te.reduce_axis((0, 2), "k")
    operands = [
        te.placeholder((2, outer, n, inner) if between else (2, n, outer, inner), dtype, name)
        for name, n in (("A", 16), ("B", 16))
    ]
    kind = intrin.mma(atom).accumulator

    def term(i: Any, j: Any) -> Any:
        a, b = (T[k, r, x, c] if between else T[k, x, r, c] for T, x in zip(operands, (i, j), strict=True))
        return te.sum(a.astype(kind) * b.astype(kind), axis=[k, r, c])

    run(*_of_one_warp(operands, term, (k, r, c), atom, padding and (2, *padding)), (16, 16, outer * inner), True)


@pytest.mark.filterwarnings("ignore:.* lanes of .* want one bank")
@pytest.mark.parametrize("atom", TYPES)
@pytest.mark.parametrize(("high", "wide", "gap"), [(8, 4, 0), (4, 8, 0), (4, 12, 0), (8, 4, 1), (4, 8, 2), (2, 24, 3)])
def test_rows_of_two_dimensions_lie_anywhere(atom: str, high: int, wide: int, gap: int) -> None:
    """Rows of an image that is wider than the tile, or as wide, with pixels or terms as neighbours."""
    dtype, kind, depth = TYPES[atom], intrin.mma(atom).accumulator, 32
    for turned in (False, True)[: 1 if atom == "int8" else 2]:
        A = te.placeholder((depth, high, wide) if turned else (high, wide, depth), dtype, "A")
        B = te.placeholder((8, depth), dtype, "B")
        k = te.reduce_axis((0, depth), "k")

        def term(y: Any, x: Any, j: Any, A: Any = A, B: Any = B, k: Any = k, turned: bool = turned) -> Any:
            return te.sum((A[k, y, x] if turned else A[y, x, k]).astype(kind) * B[j, k].astype(kind), axis=k)

        align = (1 if turned else 0, wide + gap, 0) if gap else None
        run(*_of_one_warp([A, B], term, (k,), atom, align, (high, wide, 8)), (high * wide, 8, depth), True)


def _of_one_warp(
    operands: Any, term: Any, terms: Any, atom: str, align: Any, shape: tuple[int, ...] = (16, 16)
) -> tuple[te.Schedule, list[Any]]:
    """A product that one warp computes; `align` is what `storage_align` of the operands' copies is given, by place."""
    D = te.compute(shape, term, "D")
    C = te.compute(shape, lambda *i: D(*i) + D(*i), "C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in operands]
    block = s[C].fuse()
    s[C].reorder(block, *C.op.axis)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    for stage in (D, *tiles):
        s[stage].compute_at(s[C], block)
    outside = terms[:-2]
    s[D].reorder(*outside, *D.op.axis, *terms[len(outside) :])
    for tile in tiles:
        if outside:
            s[tile].compute_at(s[D], outside[-1])
        if align and len(tile.op.axis) > 2:
            s[tile].storage_align(tile.op.axis[align[0]], *align[1:])
    s[D].tensorize(D.op.axis[0], intrin.mma(atom))
    return s, [*operands, C]


@pytest.mark.parametrize(("axis", "term", "sums", "stages"), [("i", "step", "high", 1), ("j", "r", "a_low", 3)])
def test_loops_and_tensors_may_have_the_names_of_the_statement(axis: str, term: str, sums: str, stages: int) -> None:
    """Inside the statement, what is outside of it has other names."""
    A, B = te.placeholder((2, 16, 64), "float32", "A"), te.placeholder((2, 64, 16), "float32", "B")
    k = te.reduce_axis((0, 64), term)
    names = [axis, "m", "n"]

    def product_of(*at: Any) -> Any:
        return te.sum(A[at[0], at[1], k] * B[at[0], k, at[2]], axis=k)

    D = te.compute((2, 16, 16), product_of, sums, varargs_names=names)
    C = te.compute((2, 16, 16), lambda *at: D(*at) + 1.0, "C", varargs_names=names)
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    block = s[C].fuse()
    s[C].reorder(block, *C.op.axis)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    outer, inner = s[D].split(k, 16)
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    s[D].compute_at(s[C], block)
    g, m, n = D.op.axis
    s[D].reorder(outer, g, m, n, inner)
    for tile in tiles:
        s[tile].compute_at(s[D], outer)
        if stages > 1:
            _, lane = s[tile].split(s[tile].fuse(*tile.op.axis), 4)
            s[tile].vectorize(lane)
            s[tile].pipeline(stages)
    s[D].tensorize(m, intrin.mma("3xtf32"))
    source = build(s, [A, B, C], CUDA).program.source
    assert f"auto const {axis}_outside = {axis};" in source
    assert f"auto const {sums}_outside = {sums};" in source
    assert f"promote({sums}_outside" in source


def test_bounds_of_pieces_are_the_numbers_that_others_get() -> None:
    """Equal numbers are one node: one whose type is text would be in every expression from then on."""
    assert all(isinstance(bound.dtype, DType) for bound in extent_range(977))
