"""Random schedules around matrix instructions: a few here, many by `python -m tests.programs.random_tensorized`."""

from __future__ import annotations

import os

import pytest

from tests.programs.random_tensorized import draw, interpreted, main

FIRST = int.from_bytes(os.urandom(2), "little")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 8))
def test_a_random_program_is_right_by_the_interpreter(seed: int) -> None:
    assert interpreted(draw(seed, small=True)) <= 1, f"seed {seed}"


@pytest.mark.cuda
def test_random_programs_are_right_on_a_gpu() -> None:
    assert main(40, FIRST) == 0
