"""The script that counts the modules of a path."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

from tests.paths import ROOT
from tilewright.core import padding


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("entered_modules")


def test_functions_of_the_package_count_and_imports_do_not(tool: Any) -> None:
    program = "from tilewright.core import padding\npadding.centred([3, 3])"

    def imports_and_calls() -> None:
        exec(compile(program, "tilewright/a.py", "exec"), {"__name__": "tilewright.a"})  # as an import runs it
        padding.centred([3, 3])

    alone = tool.entered(lambda: padding.centred([3, 3]))
    assert list(alone) == ["tilewright.core.padding"]
    assert tool.entered(imports_and_calls) == alone
    assert sys.getprofile() is None
