"""Shared memory whose 16-byte pieces are exchanged: the same numbers everywhere, no padding, and no bank conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from benchmarks.matmul import Tiling, product
from tests.codegen.test_matrix import CUDA, memory, statement, text
from tests.codegen.warp import Warp
from tests.passes.running import finish
from tests.programs.random_tensorized import Case, program
from tests.programs.test_matrix_instructions import ERRORS, draw, error, exact
from tilewright import intrin, te
from tilewright.codegen.vectors import known_divisor
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Store
from tilewright.loops.walk import statements


def swizzled(atom: str, tiling: Tiling, a_turned: bool, b_turned: bool) -> tuple[te.Schedule, list[Any]]:
    """The product of `benchmarks.matmul` with both operands swizzled."""
    m, n = tiling.block
    s, args = product(2 * m, n, 256, atom, tiling, a_turned=a_turned, b_turned=b_turned)
    for stage in s.stages:
        if stage.scope == "shared":
            stage.storage_swizzle()
    return s, args


WAYS = [
    ("float16", Tiling((64, 64), (32, 32), 64, 3), False, False),
    ("float16", Tiling((32, 64), (32, 32), 32, 1), True, True),
    ("3xtf32", Tiling((32, 32), (32, 16), 32, 2), False, True),
    ("int8", Tiling((32, 32), (32, 16), 64, 1), False, True),
]


@pytest.mark.parametrize(("atom", "tiling", "a_turned", "b_turned"), WAYS, ids=str)
@pytest.mark.parametrize("target", [CUDA, pytest.param("opencl", marks=pytest.mark.opencl),
                                    pytest.param("cuda", marks=pytest.mark.cuda)])  # fmt: skip
def test_a_swizzled_product_has_the_same_sums(
    atom: str, tiling: Tiling, a_turned: bool, b_turned: bool, target: str
) -> None:
    s, args = swizzled(atom, tiling, a_turned, b_turned)
    inputs = [draw(tensor) for tensor in args[:2]]
    wanted = exact(*inputs, a_turned, b_turned)
    found = np.full(wanted.shape, 77, DType(args[2].dtype).numpy)
    if target == CUDA:
        interpret(finish(lower_for(Target(CUDA), s, args).functions[0], CUDA, check=True), [*inputs, found])
        module = tw.build(s, args, CUDA)
        (used,) = module.resources.values()
        assert used.spill_store_bytes == used.stack_bytes == 0
        sizes = tiling.depth * (tiling.block[0] + tiling.block[1]) * DType(args[0].dtype).bytes * tiling.stages
        assert used.shared_bytes == sizes  # no padding
    else:
        arrays = [tw.nd.array(x, tw.device(target)) for x in (*inputs, found)]
        tw.build(s, args, target)(*arrays)
        found = arrays[2].numpy()
    assert error(found, wanted) <= ERRORS[atom] + 1e-6 * (target != "cuda")


def test_pieces_are_copied_as_vectors() -> None:
    s, args = swizzled("float16", Tiling((64, 64), (32, 32), 64), False, False)
    lines = [line.strip() for line in tw.build(s, args, CUDA).program.source.splitlines()]
    copies = [line for line in lines if line.partition(" = ")[0].count("_shared + ")]
    assert len(copies) == 2
    assert all(line.startswith("*(uint4*)(") for line in copies)


def test_divisors_of_operations_on_bits() -> None:
    numbers = np.random.default_rng(0).integers(0, 64, (200, 3))
    for a, b, c in numbers.tolist():
        x = te.var("x")
        made = ((x * a) ^ (b << 2)) | ((x * c) << 1)
        by = known_divisor(made)
        assert all((((value * a) ^ (b << 2)) | ((value * c) << 1)) % by == 0 for value in range(9)), (a, b, c, by)
    assert known_divisor((te.var("x") * 8) ^ (te.var("y") << 3)) == 8


@pytest.mark.parametrize(("a_turned", "b_turned"), [(False, False), (True, True), (False, True)])
def test_lanes_load_their_fragments_from_different_banks(a_turned: bool, b_turned: bool) -> None:
    """The source of a warp, run in Python on memory whose pieces are exchanged."""
    rows, columns, depth = 64, 64, 32
    s, args = swizzled("float16", Tiling((rows, columns), (rows, columns), depth), a_turned, b_turned)
    function = finish(lower_for(Target(CUDA), s, args).functions[0], CUDA)
    stmt = statement(function)
    held = {}
    for load, size, names in (
        (stmt.a, (rows, depth), ("row", "depth")),
        (stmt.b, (depth, columns), ("depth", "column")),
    ):
        tile, plain = memory(load, size, names)
        line = load.source.layout.swizzle // 2
        places = np.arange(len(plain))
        moved = np.empty_like(plain)
        moved[places ^ (places // line % 8 * 8)] = plain
        held[names] = tile, moved
    (a, a_memory), (b, b_memory) = held.values()
    sums = np.zeros((32, rows * columns // 32))
    Warp({"A_shared": a_memory, "B_shared": b_memory}, sums, (16, 8, 16)).run(text(function))
    np.testing.assert_array_equal(np.sort(sums.ravel()), np.sort((a @ b).ravel()))


def test_a_tile_in_an_arena_is_swizzled_too() -> None:
    """The tile of the results takes the place of the operands' tiles, all as views of one arena of bytes."""
    case = Case(
        0, "tf32", (False, True), (1, 1), (16, 8), 16, (32, 8, 80), batch=0, stages=(2, 1), vectors=True,
        pads_terms=False, epilogue="plain", through_shared=True, half=True, swizzled=(True, True),
    )  # fmt: skip
    s, args = program(case)
    function = finish(lower_for(Target(CUDA), s, args).functions[0], CUDA)
    stores = [part for part in statements(function.body) if isinstance(part, Store) and part.buffer.layout.swizzle]
    assert {store.buffer.memory.name for store in stores} == {"arena"}
    assert all("bitwise_xor" in repr(store) for store in stores)


def test_a_transpose_without_tensor_cores() -> None:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    block_i, block_j, i, j = s[B].tile(*B.op.axis, 32, 32)
    for axis, tag in ((block_i, "blockIdx.y"), (block_j, "blockIdx.x"), (i, "threadIdx.y"), (j, "threadIdx.x")):
        s[B].bind(axis, te.thread_axis(tag))
    s[tile].compute_at(s[B], block_j)
    s[tile].storage_swizzle()
    assert str(tw.lower(s, [A, B])).count("^") == 0
    module = tw.build(s, [A, B], CUDA)
    assert "^" in module.program.source
    a, b = np.random.default_rng(0).random((64, 64), "float32"), np.zeros((64, 64), "float32")
    interpret(finish(lower_for(Target(CUDA), s, [A, B]).functions[0], CUDA, check=True), [a, b])
    np.testing.assert_array_equal(b, a.T)


@pytest.mark.parametrize("row", [32, 64, 128, 256])
def test_the_drawing_shows_what_the_source_computes(row: int) -> None:
    line = max(row, 128)
    for number, shown in enumerate(intrin.draw_swizzle(row).splitlines()[1:]):
        for place, cell in enumerate(shown.split()):
            r, piece = map(int, cell.split("."))
            at = r * row + piece * 16
            assert at ^ (at // line % 8 * 16) == number * line + place * 16
