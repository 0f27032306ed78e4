"""Refusals without anyone hooked in say what was asked; the package's face hooks its words in."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from tilewright.core import refusals
from tilewright.core.errors import UserAttributeError
from tilewright.core.refusals import hook_in, missing, missing_from_module, refusal, refuses


@refuses("made-up thing", "len pow")
class Thing:
    """A class that refuses two protocols of Python's."""


def test_a_refusal_without_words_says_what_was_asked() -> None:
    with pytest.raises(TypeError, match="this made-up thing does not support len"):
        len(Thing())  # type: ignore[arg-type]
    assert isinstance(refusal("made-up thing", "iter", Thing()), TypeError)


def test_who_is_hooked_in_finds_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_modules_of_subjects", {})
    words: Any = ModuleType("made_up_words")
    words.error_for = lambda asked, thing, *operands: ValueError(f"{asked} with {operands}")
    monkeypatch.setitem(sys.modules, words.__name__, words)
    hook_in("made-up thing", words.__name__)
    with pytest.raises(ValueError, match=r"pow with \(2,\)"):
        Thing() ** 2  # type: ignore[operator]


def test_a_missing_name_without_words_is_a_plain_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_modules_of_subjects", {})
    error = missing("the stage", "tensorize", ["split"])
    assert type(error) is AttributeError
    assert str(error) == "the stage has no attribute 'tensorize'"
    assert str(missing_from_module("tilewright.te", "scan", [])) == "module 'tilewright.te' has no attribute 'scan'"


def test_a_missing_name_of_the_legacy_api_has_words() -> None:
    assert isinstance(missing("the stage", "axis", ["split"]), UserAttributeError)


def test_words_are_loaded_when_they_are_needed() -> None:
    program = (
        "import sys, tilewright; from tilewright import te; te.placeholder((3,))\n"
        "loaded = lambda: [m for m in sys.modules if m.startswith('tilewright.compat.messages.')]\n"
        "print(loaded()); hasattr(te, 'extern_primfunc'); print(loaded())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['tilewright.compat.messages.names']"]


def test_only_names_of_the_package_are_listed() -> None:
    """What `tilewright.` completes to holds nothing that the package itself imports."""
    program = "import tilewright; print(*[name for name in dir(tilewright) if not name.startswith('_')])"
    listed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"conv2d", "te", "lower", "accelerate"} <= {*listed}
    assert {"Any", "annotations", "import_module", "hook_in_all", "missing_from_module"}.isdisjoint(listed)
