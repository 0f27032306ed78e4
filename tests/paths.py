"""Where the processes that tests start find modules: this tree first, then whatever PYTHONPATH names already."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]


def python_path(*first: Path) -> str:
    """Return PYTHONPATH with the given folders, or this tree where none is given, ahead of the inherited ones."""
    return os.pathsep.join([*map(str, first or (ROOT,)), *filter(None, [os.environ.get("PYTHONPATH")])])
