"""Random models, of which `python -m tests.nn.random_models` draws more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright.functional.planning import plans, rivals

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.nn import random_models  # noqa: E402  # needs PyTorch

COUNT = 6


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(rivals, "reason_for_rival", lambda problem, on: "")
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (1.0, 1.0))
    monkeypatch.setattr(rivals, "is_undecided", lambda problem, on: False)
    plans.forget()
    yield
    plans.forget()


@pytest.mark.parametrize("seed", [*range(COUNT), *[pytest.param(n, marks=pytest.mark.slow) for n in range(COUNT, 60)]])
def test_a_random_model_agrees_with_itself_in_float64(seed: int) -> None:
    trial = random_models.Trial(seed, "fuse")
    trial.run()
    assert all(row.replaced or row.why for report in trial.reports for row in report.rows)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_a_random_model_that_is_compiled(seed: int) -> None:
    random_models.Trial(seed, "compile").run()
