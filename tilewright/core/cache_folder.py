"""The folder for what is kept between processes."""

from __future__ import annotations

import os

DIRECTORY_VARIABLE = "TILEWRIGHT_CACHE"
_OFF = ("", "0", "off")


def cache_folder() -> str | None:
    """The folder that the environment names, or the usual one; None where it says to keep nothing.

    It is text: importing `pathlib` takes a tenth of the time in which a process starts a known kernel.
    """
    given = os.environ.get(DIRECTORY_VARIABLE)
    if given is not None:
        return None if given.lower() in _OFF else given
    base = os.environ.get("XDG_CACHE_HOME") or ""
    usual = base if base.startswith("/") else os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(usual, "tilewright", "kernels")
