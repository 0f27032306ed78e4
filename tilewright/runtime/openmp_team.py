"""The threads of another library's OpenMP, on which our parallel loops may run as well.

OpenMP's threads go on spinning for milliseconds when a loop of theirs ends, and hold their processors, which threads of
our own would have to share with them. So loops of calls on that library's arrays run on its threads, as many as it
uses. How they share a loop is in `thread_pool.ll`.
"""

from __future__ import annotations

import ctypes
import os
import threading

from .thread_pool import POOL, memory_for

_MOST = 1024
"""The most threads that share a loop."""


def function_of(library: ctypes.CDLL, name: str) -> int:
    """The address of a function of a library or of those that it has loaded; 0 if there is none."""
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


class OpenMpTeam:
    """The threads of a library's OpenMP.

    Attributes
    ----------
    usable : bool
        Whether the library has GCC's functions of OpenMP, which LLVM's and Intel's run-time libraries have too.
    ready : bool
        Whether loops can run; `start()` has them do so.
    """

    def __init__(self, library: ctypes.CDLL, number: str) -> None:
        """Use the OpenMP that `library` has loaded; its function `number` returns how many threads run a loop."""
        names = ("GOMP_parallel", "omp_get_thread_num", number, "omp_in_parallel")
        self._functions = [function_of(library, name) for name in names]
        self._lock = threading.Lock()
        self._kept: ctypes.Array[ctypes.c_char] | None = None
        self._forked = False
        self.usable = all(self._functions)
        self.ready = False
        os.register_at_fork(after_in_child=self._after_fork)

    def start(self) -> int:
        """Have the threads usable; returns the address of the function that runs a loop on them."""
        if self._forked:
            POOL.start()
        code = POOL.code()
        with self._lock:
            if not self.ready:  # a fork asks the library too, but has no pool of its threads
                self._kept, address = (None, None) if self._forked else memory_for(_MOST)
                code.team[:] = [address, _MOST, *self._functions]
            self.ready = True
        return code.by_team

    def _after_fork(self) -> None:
        """A child has none of these threads, and OpenMP would wait for them: it has threads of our own."""
        self._lock = threading.Lock()
        self._forked = True
        if self.ready:
            POOL.code().team[0] = None
            self.ready = False
