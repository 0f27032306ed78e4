"""The release tool: versions agree, archives are whole, and its first program is right."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = _tool()


def test_versions_agree() -> None:
    code = (ROOT / "tilewright/core/version.py").read_text(encoding="utf-8")
    release.check_versions(release.version(), code, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("code", "changelog", "says"),
    [
        ('__version__ = "1.1"', "## 1.2 - 2026-01-01", "version.py does not"),
        ('__version__ = "1.2"', "## Unreleased", "no section `## 1.2 - "),
        ('__version__ = "1.2"', "## 1x2 - 2026-01-01", "no section"),
    ],
)
def test_versions_that_differ_are_refused(code: str, changelog: str, says: str) -> None:
    with pytest.raises(release.Wrong, match=says):
        release.check_versions("1.2", code, changelog)


def test_an_archive_without_its_files_is_refused() -> None:
    release.check_contents(["a-1/LICENSE", "a-1/x.py"], ["LICENSE"], "wheel")
    with pytest.raises(release.Wrong, match=r"the wheel lacks y\.py"):
        release.check_contents(["a-1/LICENSE"], ["LICENSE", "y.py"], "wheel")


def test_a_command_that_fails_is_told_with_its_output() -> None:
    with pytest.raises(release.Wrong, match="exits with 3:\nsaid"):
        release.run(sys.executable, "-c", "print('said'); raise SystemExit(3)", cwd=ROOT)


def test_the_first_program_is_right() -> None:
    done = subprocess.run([sys.executable, "-c", release.PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_programs_of_a_document_are_those_in_python() -> None:
    text = "```python\na = 1\n```\n\n```sh\nls\n```\n\n```python\nb = 2\n```\n"
    assert release.programs(text) == ["a = 1\n", "b = 2\n"]
    assert len(release.programs((ROOT / "README.md").read_text(encoding="utf-8"))) >= 2
