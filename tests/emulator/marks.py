"""The mark of tests that run generated source on the emulated device."""

from __future__ import annotations

import pytest

from tests.emulator.device import compiler

emulates = pytest.mark.skipif(compiler() is None, reason="there is no g++ to compile generated source for this machine")
