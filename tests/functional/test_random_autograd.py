"""Random uses of autograd; `random_autograd.py` describes them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.usefixtures("little_optimisation", "our_kernels")
from tests.functional.random_autograd import judged  # noqa: E402  # it needs PyTorch

EMPTY_JACOBIAN = 1049


def test_random_uses() -> None:
    for seed in (EMPTY_JACOBIAN, *range(2)):
        assert not judged(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_500_random_uses(part: int) -> None:
    for seed in range(10000 + 50 * part, 10050 + 50 * part):
        assert not judged(seed)
