"""Nothing of the public API goes by accident: `python -m tests.api.names --update` says how to change it on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("installed", ["without PyTorch", pytest.param("PyTorch", marks=pytest.mark.torch)])
def test_the_public_api_is_as_held(installed: str) -> None:
    """In a process of its own: what other tests register or import shows in the names of a module.

    With PyTorch, in `make test-torch`, it includes `tilewright.nn`.
    """
    done = subprocess.run([sys.executable, "-m", "tests.api.names"], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("no difference\n", 0), done.stdout + done.stderr


FACES = "te tir ir auto_scheduler autotvm autotvm.task autotvm.tuner autotvm.record autotvm.measure"
"""Modules whose names type checkers read from `__all__`."""
UNLISTED = f"""
from importlib import import_module
for name in "{FACES}".split():
    face = import_module(f"tilewright.{{name}}")
    print(*({{name for name in vars(face) if name[0] != "_"}} - set(face.__all__)))
"""


def test_faces_export_all_of_their_names() -> None:
    done = subprocess.run([sys.executable, "-c", UNLISTED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
