"""Shipped kernels and first choices stay as they were timed: `python -m tests.frozen.cases` says how to change them."""

from __future__ import annotations

import pytest

from tests.frozen.cases import Case, cases, compared, held, in_parallel, value_of

SHARE = {"programs": 60, "choices": 45}
"""One case in so many runs by default; all run with `--slow`."""


def sample(table: str) -> list[Case]:
    """Return evenly spread cases, so that each file and each kind of layer has some."""
    return cases(table)[:: SHARE[table]]


@pytest.mark.parametrize("table", SHARE)
def test_a_sample_is_as_frozen(table: str) -> None:
    assert not (changed := compared(sample(table), lambda chosen: map(value_of, chosen))), "\n".join(changed)


@pytest.mark.parametrize("table", SHARE)
def test_files_hold_exactly_the_cases(table: str) -> None:
    assert list(held(table)) == [key for _, key in cases(table)]


@pytest.mark.slow
@pytest.mark.parametrize("table", SHARE)
def test_everything_is_as_frozen(table: str) -> None:
    assert not (changed := compared(cases(table), in_parallel)), "\n".join(changed)
