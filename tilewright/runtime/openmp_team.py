"""The threads of another library's OpenMP, on which our parallel loops may run as well.

OpenMP's threads spin for milliseconds after a loop, and occupy their processors. Threads of our own would have to share
them. So loops of calls on that library's arrays run on its threads, as many as it uses. How they share a loop is in
`thread_pool.ll`.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from ..core.forking import forked, new_lock
from ..core.system import at_fork
from .thread_pool import POOL, memory_for

_MOST_THREADS = 1024
"""The most threads that share a loop."""
_UNKNOWN = "unknown"


def function_of(library: ctypes.CDLL, name: str) -> int:
    """The address of a function of a library or its dependencies; 0 if no such function exists."""
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def loaded_before_fork(library: ctypes.CDLL) -> bool:
    """Whether this process is a fork with a library of its parent, but without the library's threads."""
    if not forked():
        return False
    path = os.path.realpath(library._name)
    here, parents = (_place_of(path, owner) for owner in ("self", str(os.getppid())))
    return parents in (here, _UNKNOWN)


def _place_of(path: str, owner: str) -> str:
    """The address of a library in the memory of a process; "" if the library is not loaded."""
    try:
        with open(f"/proc/{owner}/maps", encoding="utf-8", errors="replace") as file:
            return next((line.partition("-")[0] for line in file if line.rstrip().endswith(path)), "")
    except OSError:
        return _UNKNOWN


class OpenMpTeam:
    """The threads of a library's OpenMP.

    Attributes
    ----------
    usable : bool
        Whether the library has GCC's functions of OpenMP, which LLVM's and Intel's run-time libraries have too.
    ready : bool
        Whether loops can run; `start()` has them do so.
    lost : bool
        Whether they stayed behind in the process that this one is a fork of. The library's own loops would wait for
        them, in the thread that forked.
    """

    def __init__(self, library: ctypes.CDLL, number: str, revive: Callable[[], None] | None = None) -> None:
        """Use the OpenMP that `library` has loaded.

        Parameters
        ----------
        library : ctypes.CDLL
        number : str
            Its function that returns the number of threads of a loop.
        revive : callable, optional
            A function that prepares the library after a fork: several threads may call `number` at once after it.
        """
        names = ("GOMP_parallel", "omp_get_thread_num", number, "omp_in_parallel")
        self._functions = [function_of(library, name) for name in names]
        self._lock = new_lock()
        self._kept: ctypes.Array[ctypes.c_char] | None = None
        self._revive = revive
        self.lost = loaded_before_fork(library)
        self.usable = all(self._functions)
        self.ready = False
        at_fork(after_in_child=self._after_fork)

    def start(self) -> int:
        """Prepare the threads if needed; returns the address of the function that runs a loop on them."""
        if self.lost:
            POOL.start()
        code = POOL.code()
        with self._lock:
            if not self.ready:  # a fork asks the library too, but has no pool of its threads
                self._kept, address = (None, None) if self.lost else memory_for(_MOST_THREADS)
                code.team[:] = [address, _MOST_THREADS, *self._functions]
                if self.lost and self._revive is not None:
                    self._revive()
            self.ready = True
        return code.by_team

    def _after_fork(self) -> None:
        """Use our own threads in a forked child: it has no threads of OpenMP, and OpenMP would wait for them."""
        self.lost = True
        if self.ready:
            POOL.code().team[0] = None
            self.ready = False
