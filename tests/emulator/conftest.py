"""Tests of this folder run on the emulated device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.emulator.device import compiler, emulation


@pytest.fixture(autouse=True)
def emulated_device() -> Iterator[None]:
    """Have the emulated device in place of a GPU."""
    if compiler() is None:
        pytest.skip("there is no g++ to compile generated source for this machine")
    with emulation():
        yield
