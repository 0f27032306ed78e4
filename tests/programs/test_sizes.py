"""Every kind of program, static and symbolic, in every type, at sizes that are 0, 1, prime, and anything else."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs.harness import FLOATS, INTEGERS, build, every_target, result
from tests.programs.zoo import CONV1D, MATMUL, PROGRAMS, Program
from tilewright import te

EDGES = (0, 1, 2, 3, 5, 7, 11, 13, 16, 17, 31, 32, 33, 64, 97)
DTYPES = (*FLOATS, *INTEGERS)
BY_NAME = {program.name: program for program in PROGRAMS}


@functools.cache
def module(name: str, dtype: str, target: str, sizes: tuple[tuple[str, int], ...] = ()) -> Any:
    """The module of a program: for sizes known at the call, unless `sizes` are given."""
    program = BY_NAME[name]
    given_sizes: dict[str, Any] = dict(sizes) or {size: te.size_var(size) for size in program.names}
    tensors = program.declare(given_sizes, dtype)
    s = te.create_schedule(tensors[-1].op)
    program.schedule(s, tensors, target)
    return build(s, tensors, target)


def check(program: Program, dtype: str, target: str, sizes: dict[str, int], static: bool) -> None:
    """The result is what NumPy says."""
    made = module(program.name, dtype, target, tuple(sizes.items()) if static else ())
    inputs = program.inputs(sizes, dtype)
    got = result(made, inputs, program.shapes(sizes)[-1], dtype)
    np.testing.assert_array_equal(got.astype("float64"), program.expected(inputs, dtype).astype("float64"))


def drawn(data: st.DataObject, program: Program) -> dict[str, int]:
    """Sizes for a program."""
    most = {"b": 3, "c": 5, "k": 13}
    edges = {name: [e for e in EDGES if e <= most.get(name, 97)] for name in program.names}
    sizes = {name: data.draw(st.sampled_from(edges[name]), label=name) for name in program.names}
    if program is CONV1D:
        sizes["n"] = max(sizes["n"], sizes["k"] - 1)  # no shorter, or the result had a negative extent
    return sizes


@every_target
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_a_program_built_once_runs_for_every_size(program: Program, target: str, data: st.DataObject) -> None:
    check(program, "float32", target, drawn(data, program), static=False)


@every_target
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(dtype: str, target: str) -> None:
    """Half of the programs for each type, so that each pair of kinds is met often enough."""
    number = DTYPES.index(dtype)
    for program in PROGRAMS[number % 2 :: 2]:
        for size in (1, 13, 32):
            least = dict.fromkeys(program.names, size) | {name: 3 for name in program.names if name in "bck"}
            if program is CONV1D:
                least["k"] = min(3, size)
            check(program, dtype, target, least, static=False)


@every_target
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@settings(max_examples=settings.default.max_examples // 30)
@given(data=st.data())
def test_sizes_that_are_numbers(program: Program, target: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(("float32", "float64", "int8", "int32")), label="dtype")
    sizes = drawn(data, program)
    if program is MATMUL:  # the stages share their threads, so an output tile is whole, or there is none
        sizes |= {name: max(16, size) for name, size in sizes.items() if name != "k" and size}
    check(program, dtype, target, sizes, static=True)
