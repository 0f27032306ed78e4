"""Random schedules around matrix instructions: a few here, many by `python -m tests.programs.random_tensorized`."""

from __future__ import annotations

import pytest

from tests.emulator.marks import emulates
from tests.programs.random_tensorized import draw, emulated, interpreted, main


@pytest.mark.parametrize("seed", range(8))  # the same in every process that shares the tests out
def test_a_random_program_is_right_by_the_interpreter(seed: int) -> None:
    assert interpreted(draw(seed, small=True)) <= 1, f"seed {seed}"


@emulates
@pytest.mark.parametrize("seed", [1008, 3005, 3015])  # an arena of swizzled tiles, two operands a piece, a ring
def test_the_source_of_a_random_program_is_right(seed: int) -> None:
    assert emulated(draw(seed)) == ""


@emulates
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2000, 2040))
def test_the_source_of_many_random_programs_is_right(seed: int) -> None:
    assert emulated(draw(seed)) == ""


@pytest.mark.cuda
def test_random_programs_are_right_on_a_gpu() -> None:
    assert main(40, 1000) == 0
