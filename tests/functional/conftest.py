"""Fixtures for tests of calls."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.codegen.llvm import compile as llvm


@pytest.fixture
def little_optimisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's optimisation takes up to half of the time of tests with many kernels, and other tests are of it."""
    usual = llvm._optimised
    monkeypatch.setattr(llvm, "_optimised", lambda source, machine: usual(source, replace(machine, level=1)))
