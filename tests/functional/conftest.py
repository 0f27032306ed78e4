"""Calls in tests keep their kernels in a folder of the test run's own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder for all tests of a process: what one test compiles, the next one starts."""
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))
