"""A few of the layers of `python -m tests.functional.random_problems`."""

from __future__ import annotations

import pytest

from tests.functional.random_problems import draw, gradients_of, judged

LARGE = (0, 4)
"""Seeds whose layers take seconds each."""
QUICK = [seed for seed in range(14) if seed not in LARGE]


@pytest.mark.parametrize("part", range(4))
def test_random_layers_are_right_on_this_cpu_and_compile_for_a_gpu(part: int) -> None:
    for seed in QUICK[part::4]:
        case = draw(seed)
        assert not judged(case), f"seed {seed}: {case.problem}"


@pytest.mark.parametrize("part", range(2))
def test_random_gradients_are_right_on_this_cpu_and_compile_for_a_gpu(part: int) -> None:
    for seed in QUICK[:7][part::2]:
        for case in gradients_of(draw(seed)):
            assert not judged(case), f"seed {seed}: {case.problem}"


@pytest.mark.slow
def test_more_random_layers_are_right() -> None:
    for seed in (*LARGE, *range(14, 120)):
        case = draw(seed)
        assert not judged(case), f"seed {seed}: {case.problem}"


@pytest.mark.cuda
def test_random_layers_are_right_on_a_gpu() -> None:
    for seed in range(1, 101, 2):
        for case in (draw(seed), *gradients_of(draw(seed))):
            assert not judged(case, ("cuda",)), f"seed {seed}: {case.problem}"


def test_a_seed_determines_its_layer() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(9)


def test_some_layers_have_wide_groups_whose_filters_are_not_whole_tiles() -> None:
    problems = [draw(seed).problem for seed in range(40)]
    wide = [p for p in problems if p.groups > 1 and p.shape[1] // p.groups >= 32]
    assert any(p.filters // p.groups % 16 for p in wide)
