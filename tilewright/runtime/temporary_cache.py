"""Temporary folders: one for PoCL's compiled kernels if the home cannot be written, and their removal."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "tilewright-pocl-"


def temporary_cache() -> str:
    """A folder that goes with this process; folders of killed processes are removed now."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and Path("/proc/self").exists() and not Path("/proc", owner).exists():
            shutil.rmtree(left, ignore_errors=True)
    made = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    atexit.register(remove_by_owner, made, os.getpid())
    return made


def remove_by_owner(folder: str | Path, owner: int) -> None:
    """Remove a folder if this process is its owner: a fork of the owner that ends leaves the folder."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
