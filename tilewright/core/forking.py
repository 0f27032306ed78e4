"""Forking while other threads work: nobody forks in the middle of a build, and locks are free in the child.

A forked child has one thread. A lock that another thread holds at that moment is never released in the child. Examples
are locks of LLVM, NVRTC, Python's own caches, and modules that are being imported. So `os.fork`, by whomever, waits for
the builds and imports of other threads to end, and builds that begin meanwhile wait for the fork.
"""

from __future__ import annotations

import functools
import gc
import importlib
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakSet

from .system import at_fork

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST = 60.0
"""Seconds that a fork waits for builds, and a build for forks. Then a deadlock between them ends."""
_POLL = 0.005
"""Seconds between two checks for imports by other threads; no event reports their end."""
_PACKAGES = (__name__.partition(".")[0], "llvmlite")
"""Packages with modules that calls import."""
_FORKED_WITHOUT_EXEC = 0x40
"""`PF_FORKNOEXEC` of Linux, among the flags of a process."""


class _Gate:
    """Any number of threads build; a fork waits until only its own thread is active."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside: dict[int, int] = {}  # thread → how deep it is in builds
        self.forking: list[int] = []  # the threads

    def enter(self) -> None:
        me = threading.get_ident()
        with self.changed:
            # A thread that forks may come here too: collecting garbage may unload code.
            if self.forking and me not in self.inside and me not in self.forking:
                self.changed.wait_for(lambda: not self.forking, _LONGEST)
            self.inside[me] = self.inside.get(me, 0) + 1

    def leave(self) -> None:
        me = threading.get_ident()
        with self.changed:
            self.inside[me] -= 1
            if not self.inside[me]:
                del self.inside[me]
                self.changed.notify_all()

    def before_fork(self) -> None:
        me = threading.get_ident()
        self.changed.acquire()
        self.forking.append(me)
        until = time.monotonic() + _LONGEST
        while (left := until - time.monotonic()) > 0:
            if any(thread != me for thread in self.inside):
                self.changed.wait(left)
            elif _imported_by_others(me):
                self.changed.wait(min(left, _POLL))
            else:
                break

    def after_in_parent(self) -> None:
        self.forking.remove(threading.get_ident())
        self.changed.notify_all()
        self.changed.release()

    def after_in_child(self) -> None:
        me = threading.get_ident()
        self.changed = threading.Condition()
        self.inside = {thread: depth for thread, depth in self.inside.items() if thread == me}
        self.forking = []
        for lock in _locks:
            if not (owned := getattr(lock, "_is_owned", None)) or not owned():  # this thread releases its own locks
                lock._at_fork_reinit()  # type: ignore[union-attr]  # the standard library does the same with its locks


def _imported_by_others(me: int) -> bool:
    """Return whether another thread is importing a module that calls import: the lock would stay taken in a child."""
    locks = getattr(importlib._bootstrap, "_module_locks", {})  # Python's own
    return any(
        getattr(reference(), "owner", None) not in (None, me)
        for name, reference in list(locks.items())
        if name.partition(".")[0] in _PACKAGES
    )


_gate = _Gate()
_locks: WeakSet[threading.Lock | threading.RLock] = WeakSet()


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, even if another thread held it in the parent."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_reentrant_lock() -> threading.RLock:
    """A lock of that kind, which the thread that holds it may take again."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def not_while_forking(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a build: forks by other threads wait for its end."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        _gate.enter()
        try:
            return function(*args, **kwargs)
        finally:
            _gate.leave()

    return guarded


def forked() -> bool:
    """Whether this process was forked, without starting another program: its imported modules may be its parent's."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return bool(int(fields[6]) & _FORKED_WITHOUT_EXEC)
    except (OSError, ValueError, IndexError):
        return False


at_fork(before=_gate.before_fork, after_in_parent=_gate.after_in_parent, after_in_child=_gate.after_in_child)


@functools.cache
def keep_from_forks() -> None:
    """Leave garbage that exists at the time of a fork to the parent, from now on.

    A driver's objects take the driver's locks when they are released. In a fork, a lock may be held by a thread that is
    not there, and the first collection of garbage would wait for it.
    """
    collecting: list[bool] = []

    def before() -> None:
        collecting.append(gc.isenabled())
        gc.disable()  # other libraries' hooks run until our next one

    def resume() -> None:
        if collecting.pop():
            gc.enable()

    def in_child() -> None:
        gc.freeze()
        resume()

    at_fork(before=before, after_in_parent=resume, after_in_child=in_child)
