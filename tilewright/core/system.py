"""Facilities of the operating system that some platforms lack: forks, file locks, users, flags of files, processors.

Linux has all of them. On macOS and Windows, nothing forks: measuring starts its workers afresh.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

FORKS = sys.platform == "linux" and hasattr(os, "fork")
"""Whether measuring forks its builders. On macOS, a fork of a process that has used its system libraries may crash."""

WITHOUT_WAITING: int = getattr(os, "O_NONBLOCK", 0)
"""The flag of `os.open` to open a pipe without waiting for the process at its other end; 0 on Windows."""
AS_BYTES: int = getattr(os, "O_BINARY", 0)
"""The flag of `os.open` to write bytes as they are, which only Windows needs."""

_FAMILIES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}
"""Other names of families of processors."""


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def user() -> int | None:
    """The number of the user of this process; None if the platform has no such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def process_library() -> ctypes.CDLL:
    """The C functions that this process has loaded; on Windows, of the C run-time library only."""
    try:
        return ctypes.CDLL(None)
    except TypeError:
        return ctypes.CDLL("ucrtbase")


def at_fork(
    before: Callable[[], None] | None = None,
    after_in_parent: Callable[[], None] | None = None,
    after_in_child: Callable[[], None] | None = None,
) -> None:
    """Have functions called when this process forks, if the platform has forks."""
    if hasattr(os, "register_at_fork"):
        hooks = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
        os.register_at_fork(**{name: hook for name, hook in hooks.items() if hook is not None})


@contextmanager
def locked(file: int) -> Iterator[None]:
    """Lock a file against other processes that lock it; without locks on the platform, do nothing."""
    fcntl = _fcntl()
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        unlock(file)


def try_lock(file: int) -> bool:
    """Lock a file until it is closed; return False if another process, or another open file of this one, locks it.

    Without locks on the platform, return True.
    """
    fcntl = _fcntl()
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def unlock(file: int) -> None:
    """Release the lock of a file, also for forks of this process: closing the file leaves it to them."""
    fcntl = _fcntl()
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


def _fcntl() -> Any:
    """The module of file locks; None on Windows: a lock there would keep out this process's own writes, too."""
    try:
        return import_module("fcntl")
    except ImportError:
        return None


def family_of(triple: str) -> str:
    """The family of processors of a triple, such as "aarch64" of "arm64-apple-darwin"; "" is of this machine."""
    name = (triple or platform.machine()).partition("-")[0].lower()
    return _FAMILIES.get(name, name)
