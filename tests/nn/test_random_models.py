"""Random models, of which `python -m tests.nn.random_models` draws more."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.nn import random_models  # noqa: E402  # needs PyTorch

pytestmark = pytest.mark.usefixtures("our_kernels")
COUNT = 6


@pytest.mark.parametrize("seed", [*range(COUNT), *[pytest.param(n, marks=pytest.mark.slow) for n in range(COUNT, 60)]])
def test_a_random_model_agrees_with_itself_in_float64(seed: int) -> None:
    trial = random_models.Trial(seed, "fuse")
    trial.run()
    assert all(row.replaced or row.why for report in trial.reports for row in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_a_random_model_that_is_compiled(seed: int) -> None:
    random_models.Trial(seed, "compile").run()
