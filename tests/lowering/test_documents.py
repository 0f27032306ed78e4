"""The documents' programs lower to what the documents print, and to the CUDA source that we know."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

import tilewright
from tests.lowering.documents import PROGRAMS
from tests.lowering.same_program import differences

LEGACY = Path(__file__).parent / "legacy"
every_program = pytest.mark.parametrize("name", PROGRAMS)


@functools.cache
def printed(name: str) -> str:
    schedule, args = PROGRAMS[name]()
    return str(tilewright.lower(schedule, args, simple_mode=True))


def legacy(name: str) -> str:
    return (LEGACY / f"{name}.txt").read_text(encoding="utf-8")


@every_program
def test_the_program(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"documents/{name}.txt", printed(name))


@every_program
def test_the_program_is_the_documents(name: str) -> None:
    assert differences(printed(name), legacy(name)) == []


@every_program
def test_the_source(name: str, golden: Callable[[str, str], None]) -> None:
    schedule, args = PROGRAMS[name]()
    module = tilewright.build(schedule, args, "cuda -arch=sm_90")
    golden(f"documents/{name}.cu", module.imported_modules[0].get_source())


# The comparison itself.

MUTATIONS = [
    # program, what is replaced, by what, and what the comparison says of it
    ("conv1d_v2", "blockIdx_x * 8 + threadIdx_x - r]", "blockIdx_x * 8 + threadIdx_x - r + 1]", "index of A"),
    ("conv1d_v2", "threadIdx_x - r]", "threadIdx_x - r + 0]", "larger"),
    ("conv1d_v2", "if T.likely(blockIdx_x * 8 + threadIdx_x < 16415)", "if T.likely(True)", "guard"),
    ("conv1d_v2", "threadIdx_x < 16415", "threadIdx_x <= 16415", "guard"),
    ("conv1d_v2", "0 <= blockIdx_x", "1 <= blockIdx_x", "condition"),
    ("conv1d_v2", "- r < 16384", "- r < 16383", "condition"),
    ("conv1d_v2", '"blockIdx.x", 2052', '"blockIdx.x", 2053', "launch_thread"),
    ("conv1d_v2", '"threadIdx.x"', '"threadIdx.y"', "launch_thread"),
    ("conv1d_v2", "W: T.Buffer((32,)", "W: T.Buffer((31,)", "parameters"),
    ("conv1d_v2", "for r in range(32)", "for r in range(31)", "range"),
    ("conv1d_v2", "* W[r]", "+ W[r]", "W[r]"),
    ("conv1d_v2", "T.float32(0.0)", "T.float32(1)", "`0.0` is `1`"),
    ("conv1d_naive", "blockIdx_x - k < 0", "blockIdx_x - k < 1", "condition"),
    ("conv1d_naive", "32 <= blockIdx_x - k", "33 <= blockIdx_x - k", "condition"),
    ("conv1d_naive", "16384 <= k", "16385 <= k", "condition"),
    ("conv1d_v4", 'T.allocate([4], "float32", "shared")', 'T.allocate([8], "float32", "shared")', "allocate"),
    ("conv1d_v4", 'T.allocate([1], "float32", "local")', 'T.allocate([1], "float32", "shared")', "allocate"),
    ("conv1d_v4", 'scope="local"', 'scope="shared"', "scope='shared'"),
    ("conv1d_v4", "for ax0 in range(4)", "for ax1 in range(4)", "ax1"),
    ("conv1d_v5", "B_local_1[0] = T.float32(0.0)\n", "pass\n", "stands where"),
    ("depthwise_naive", "for c, h, w in T.grid(4, 16, 32)", "for h, c, w in T.grid(16, 4, 32)", "grid"),
    ("depthwise_v2", "blockIdx_x % 4 * 49", "blockIdx_x % 3 * 49", "index of W_1"),
    ("depthwise_v3", "cse_var_1: T.int32 = w_outer * 16", "cse_var_1: T.int32 = w_outer * 17", "index of"),
    ("depthwise_v4", "rx - 99", "rx - 98", "index of A_1"),
]


@pytest.mark.parametrize(("name", "text", "other", "says"), MUTATIONS)
def test_a_planted_difference_is_found(name: str, text: str, other: str, says: str) -> None:
    theirs = legacy(name)
    assert differences(theirs, theirs) == []
    assert text in theirs
    mutant = theirs.replace(text, other)
    # The larger side is ours: a mutant that grew is looked at from there.
    found = differences(mutant, theirs) if says == "larger" else differences(theirs, mutant)
    assert any(says in line for line in found), found


def test_a_statement_too_many_or_too_few_is_found() -> None:
    theirs = legacy("conv1d_v1")
    last = theirs.rstrip("\n").splitlines()[-1]
    twice = theirs + last + "\n"
    assert any("only theirs goes on" in line for line in differences(theirs, twice))
    assert any("only ours goes on" in line for line in differences(twice, theirs))


def test_how_constants_and_common_subexpressions_are_written_makes_no_difference() -> None:
    theirs = legacy("depthwise_v3")
    plain = "\n".join(
        line.replace("cse_var_1", "w_outer * 16").replace("T.float32(0.0)", "T.float32(0)")
        for line in theirs.splitlines()
        if "cse_var_1: " not in line
    )
    assert "cse_var" not in plain
    assert differences(plain, theirs) == differences(theirs, plain) == []
