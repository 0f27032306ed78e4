"""Turns on a GPU: of this user's searches, one runs a kernel at a time, so that none lengthens another's times."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..core.cache_folder import cache_folder, private_folder
from ..core.system import try_lock, unlock
from ..runtime.device import Device

_POLL_SECONDS = 0.002
"""The pause between two looks at a lock that another process holds."""


@contextmanager
def turn(on: Device, patience: float) -> Iterator[None]:
    """Keep other searches off a GPU until the end of the `with` statement.

    Processes of this user share a lock file in the cache folder, one for each GPU. Without that folder, and for a
    processor, nothing is locked.

    Parameters
    ----------
    on : Device
        The device of the measurement.
    patience : float
        Seconds to wait for the lock at most. A process may have been stopped while it holds the lock; the measurement
        then begins without it.
    """
    file = _opened(on)
    if file is None:
        yield
        return
    mine = False
    try:
        end = time.monotonic() + patience
        while not (mine := try_lock(file)) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        if mine:
            unlock(file)
        os.close(file)


def _opened(on: Device) -> int | None:
    """The open lock file of a GPU; None if there is none."""
    folder = cache_folder()
    if on.kind == "cpu" or folder is None:
        return None
    with suppress(OSError):
        private_folder(folder)
        return os.open(os.path.join(folder, f"{on.kind}-{_number(on)}.turn"), os.O_RDWR | os.O_CREAT, 0o600)
    return None


def _number(on: Device) -> str:
    """The name of a GPU outside this process, to which the environment may show only some."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if on.kind == "cuda" else []
    named = visible[on.index].strip() if on.index < len(visible) else ""
    return "".join(c for c in named if c.isalnum() or c == "-") or str(on.index)
