"""A folder for PoCL's compiled kernels if the home cannot be written."""

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
    made, me = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"), os.getpid()

    def remove() -> None:
        if os.getpid() == me:  # a fork of the owner that ends leaves the folder
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made
