"""Nothing of the public API goes by accident: `python -m tests.api.names --update` says how to change it on purpose."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_public_api_is_as_held() -> None:
    """In a process of its own: what other tests register or import shows in the names of a module."""
    done = subprocess.run([sys.executable, "-m", "tests.api.names"], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("no difference\n", 0), done.stdout + done.stderr
