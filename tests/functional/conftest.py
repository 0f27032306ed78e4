"""Calls in tests keep their kernels in a folder of the test run's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.codegen.llvm import compile as llvm


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One folder for all tests of a process: what one test compiles, the next one starts."""
    folder = tmp_path_factory.getbasetemp() / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(folder))


@pytest.fixture
def little_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's optimisation takes up to half of the time of tests with many kernels, and other tests are of it."""
    usual = llvm._optimised
    monkeypatch.setattr(llvm, "_optimised", lambda source, machine: usual(source, replace(machine, level=1)))
