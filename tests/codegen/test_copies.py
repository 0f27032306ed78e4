"""How asynchronous copies are written: predicates for guards, shared addresses, and their place beside a product."""

from __future__ import annotations

import re
from typing import Any

import tilewright
from benchmarks.matmul import Tiling, product
from tests.passes.test_place_awaits import sums
from tilewright import te
from tilewright.core.target import Target
from tilewright.topi.templates import Conv2dLayer, named

CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")

CUDA = Target("cuda -arch=sm_90")


def source(s: Any, args: list[Any]) -> str:
    return tilewright.build(s, args, "cuda -arch=sm_90").imported_modules[0].get_source()


def in_order(text: str, *parts: str) -> bool:
    """Whether the parts occur one after the other."""
    at = 0
    for part in parts:
        at = text.find(part, at) + 1
        if not at:
            return False
    return True


def test_guards_around_copies_are_predicates() -> None:
    text = source(*sums(3))
    assert "const bool runs = k_outer < 6;" in text
    assert "copy_16_where(runs, " in text
    assert "if (" not in text


def test_guards_of_copies_from_where_memory_says_stay_branches() -> None:
    """The table must not be read where the guard does not hold."""
    A, T = te.placeholder((64, 16), name="A"), te.placeholder((30,), "int32", "T")
    k = te.reduce_axis((0, 30), "k")
    G = te.compute((30, 16), lambda y, x: A[T[y], x], "G")
    C = te.compute((16,), lambda i: te.sum(G[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    s[G].set_scope("shared")
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    s[G].compute_at(s[C], outer)
    s[G].bind(G.op.axis[1], tx)
    s[G].pipeline(2)
    text = source(s, [A, T, C])
    assert "copy_16(" in text
    assert "_where(" not in text


def test_copies_are_issued_behind_the_first_loads_of_a_product() -> None:
    """Of one with a single step, whose fragments are not loaded for the next iteration."""
    s, args = product(256, 256, 256, "float16", Tiling((128, 128), (64, 64), 16, 3))
    text = source(s, args)
    assert in_order(
        text, "for (int k_outer", "wait_group", "__syncthreads", "ldmatrix_x4(", "copy_16_where", "mma_float"
    )
    assert in_order(text, "for (int k_outer", "copy_16_where", "commit_group", "mma_float16(")


def test_the_first_fragments_of_an_iteration_are_loaded_during_the_last_step_of_the_one_before() -> None:
    s, args = product(256, 256, 256, "float16", Tiling((128, 128), (64, 64), 32, 3))
    text = source(s, args)
    assert in_order(
        text, "commit_group", "wait_group 1", "__syncthreads", "ldmatrix_x4(a_fragment[0]", "for (int k_outer"
    )
    loop = ("ldmatrix_x4(a_fragment[(step + 1)", "copy_16_where", "commit_group", "mma_float16(D")
    assert in_order(text, "for (int k_outer", *loop, "wait_group 1", "__syncthreads", "a_fragment[0]", "mma_float16(D")
    # Rounds share their addresses: the distances are part of the instructions.
    assert re.search(r"copy_16_where<\d+, \d+>\(runs, copy_to_\d+, copy_from_\d+\);", text)
    # The next slot follows from the one of the iteration, with a counter or without.
    assert "(k_outer_slot_1 < 2 ? k_outer_slot_1 + 1 : 0) * 5120" in text
    s, args = product(256, 256, 256, "float16", Tiling((128, 128), (64, 64), 32, 4))
    assert "(k_outer + 1) % 4 * 5120" in source(s, args)


def test_the_steps_of_an_iteration_share_its_copies() -> None:
    """Those that are awaited in the same iteration are issued during the first half of its steps."""
    for stages, steps in ((3, 3), (2, 2)):
        s, args = product(256, 256, 256, "float16", Tiling((128, 128), (64, 64), 64, stages))
        loop = source(s, args).partition("for (int k_outer")[2].partition("wait_group")[0]
        parts = re.split(r"if \(step == \d\)", loop)
        assert len(parts) == steps + 1
        assert "copy_16" not in parts[0]
        counts = [part.count("copy_16_where") for part in parts[1:]]
        assert sum(counts) == 16
        assert max(counts) <= -(-17 // steps)
        assert "commit_group" in parts[-1]


def test_borders_are_tested_copy_by_copy_on_addresses_that_are_shared() -> None:
    """The rows of a tile are neighbouring pixels: where each is in its image matters to its guard alone."""
    of = Conv2dLayer.of((4, 32, 14, 14), 64, layout="NHWC", dtype="float16", weights="OHWI")
    strategy = CONV2D_MMA.strategy(CUDA)
    wanted = {"rows": [2, 32], "columns": [1, 64], "depth": 32, "split": 1, "stages": 3, "store": "fragments"}
    text = source(*CONV2D_MMA.program(strategy.nearest(of, wanted), of, CUDA))
    loop = text.partition("for (int k_outer")[2].partition("wait_group")[0]
    copies = re.findall(
        r"copy_16_or_zeros_where(?:<\d+, \d+>)?\(runs, .* && 1 <= index_div_\d+ .*, (\w+), (\w+)\);", loop
    )
    assert len(copies) == 4
    assert len(set(copies)) == 1
    address = next(line for line in loop.splitlines() if "const copy_from" in line)
    assert "/" not in address
    assert "%" not in address


def test_a_ring_is_filled_asynchronously_in_the_memory_of_a_larger_tile() -> None:
    """That of the results, which a block stores through shared memory."""
    of = Conv2dLayer.of((4, 32, 14, 14), 64, layout="NHWC", weights="OHWI")
    strategy = CONV2D_TF32.strategy(CUDA)
    wanted = {"rows": [2, 32], "columns": [1, 64], "depth": 16, "split": 1, "stages": 3, "store": "shared"}
    text = source(*CONV2D_TF32.program(strategy.nearest(of, wanted), of, CUDA))
    assert "copy_16_or_zeros_where" in text
    assert in_order(text, "for (int k_outer", "wait_group 0", "__syncthreads", "float4")


def test_copies_that_are_awaited_at_once_and_test_borders_come_first() -> None:
    """Nothing else in such an iteration is worth more than the time that they have."""
    of = Conv2dLayer.of((4, 32, 14, 14), 64, layout="NHWC", dtype="float16", weights="OHWI")
    strategy = CONV2D_MMA.strategy(CUDA)
    wanted = {"rows": [2, 32], "columns": [1, 64], "depth": 32, "split": 1, "stages": 2, "store": "fragments"}
    text = source(*CONV2D_MMA.program(strategy.nearest(of, wanted), of, CUDA))
    assert in_order(
        text,
        "for (int k_outer",
        "wait_group 0",
        "__syncthreads",
        "copy_16_or_zeros_where",
        "ldmatrix_x4(",
        "copy_16_where",
    )


def test_the_last_iteration_loads_no_fragments_from_beyond_a_ring_with_a_slot_for_each() -> None:
    for depth, stages, last in ((64, 3, 1), (96, 3, 2), (128, 4, 3)):
        s, args = product(128, 128, depth, "float16", Tiling((128, 128), (64, 64), 32, stages))
        assert f"A_shared + min(k_outer + 1, {last}) * 5120" in source(s, args)


def test_fragments_stay_where_they_are_where_an_odd_number_of_steps_leaves_no_room() -> None:
    s, args = product(240, 256, 288, "float16", Tiling((48, 128), (48, 64), 48, 3))
    assert in_order(source(s, args), "for (int k_outer", "wait_group", "__syncthreads", "ldmatrix_x4(", "mma_float16(D")
