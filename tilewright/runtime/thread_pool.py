"""The threads that run the parallel loops of CPU code: as many as asked for, started when first needed.

How they share a loop is in `thread_pool.ll`. A nested parallel loop runs in the present thread. So does a loop in a
call from a second thread while the pool is busy. After a fork, the child starts its own threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, ClassVar

from ..codegen.llvm.binding import OF_THREADS, PARALLEL_FOR
from ..core.errors import UserError
from ..core.forking import new_lock
from ..core.system import at_fork, family_of, processors
from .llvm_link import keep_for_ever, link

VARIABLE = "TILEWRIGHT_NUM_THREADS"
_MOST_THREADS = 4096
_UP_TO = f"of at most {_MOST_THREADS:,}"
SPIN_CYCLES = 50_000
"""Cycles that a thread spins for the next loop before it sleeps: about 20 µs, less than sleeping and waking take."""
CHUNK_CYCLES = 2_500
"""The shortest piece of a loop that a thread claims, about 1 µs: a claim takes a fiftieth of that."""
DEAL_CYCLES = 650
"""The cost of distributing a loop, per thread that looks for its share: an empty loop on 16 threads takes 4 µs."""
_COSTS_OFFSET = 1024
"""The offset, in bytes, of the costs of loops in a pool."""
_POOL_BYTES = 2048
"""The bytes of a pool without its tickets."""
_TICKET_BYTES = 128
"""The bytes of a ticket."""
_BY_TEAM = "tilewright_parallel_for_by_team"
_NAMES = ("tilewright_worker", "tilewright_end_pool", "tilewright_pool", "tilewright_team", _BY_TEAM)
_WORDS = {"x86_64": ("202", "pause"), "aarch64": ("98", "yield")}
"""The number of the futex system call, and the instruction that makes spinning cheap, by machine."""
_HAS_THREADS = sys.platform == "linux" and hasattr(signal, "pthread_sigmask")
"""Whether the pool can start threads, which sleep by a system call of Linux. Else, parallel loops run on one thread."""
_CALLS = ("i64 @syscall(i64, ...)", "i32 @sched_yield()")
"""Functions that only threads call, and that Windows lacks."""
_SLEEPING_AT = 260
_WORKERS_AT = 512
_WOKEN_AT = 688
_LOOPS = 64


class Cost(ctypes.Structure):
    """Cycles per iteration of a loop at its last run, in one thread; `body` is the address of the loop's code."""

    _fields_: ClassVar[Sequence[tuple[str, Any]]] = [("body", ctypes.c_void_p), ("cycles", ctypes.c_double)]


def compiled_now(text: str) -> bytes:
    """The object file of some LLVM IR for this machine, from LLVM."""
    from ..codegen.llvm import compile as compiler  # not needed if all code is known

    return compiler.compile_ir(text, compiler.host_processor()).binary


_compile: list[Callable[[str], bytes]] = [compiled_now]


def compile_by(compiled: Callable[[str], bytes]) -> None:
    """Compile the pool's code by `compiled`, which may have the code from an earlier process."""
    _compile.append(compiled)


def compiled_for_host(text: str) -> bytes:
    """The object file of some LLVM IR for this machine."""
    return _compile[-1](text)


class _Code:
    """The compiled pool."""

    def __init__(self) -> None:
        futex, pause = _WORDS[family_of("")]
        with open(os.path.join(os.path.dirname(__file__), "thread_pool.ll"), encoding="utf-8") as file:
            text = file.read()
        text = text.replace("i64 FUTEX", f"i64 {futex}").replace("PAUSE", pause)
        for call in _CALLS if not _HAS_THREADS else ():
            text = text.replace(f"declare {call}", f"define internal {call} {{ ret {call[:3]} 0 }}")
        for name, cycles in (("SPIN", SPIN_CYCLES), ("CHUNK", CHUNK_CYCLES), ("DEAL", DEAL_CYCLES)):
            text = text.replace(f"i64 {name}_CYCLES", f"i64 {cycles}")
        text = text.replace("TICKETS_AT", str(_POOL_BYTES)).replace("COSTS_AT", str(_COSTS_OFFSET))
        names = [*OF_THREADS, *_NAMES]
        held, found = link(compiled_for_host(text), names, {})
        keep_for_ever(held)
        self.parallel_for = found[PARALLEL_FOR]
        self.functions = {name: found[name] for name in OF_THREADS}
        self.by_team = found[_BY_TEAM]
        self.team = (ctypes.c_void_p * 6).from_address(found["tilewright_team"])
        self.worker = ctypes.c_void_p(found["tilewright_worker"])
        self.end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(found["tilewright_end_pool"])
        self.current = ctypes.c_void_p.from_address(found["tilewright_pool"])


@cache
def _code() -> _Code:
    return _Code()


def memory_for(threads: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Return zeroed memory of a pool of `threads` threads, and the aligned address at which the pool begins."""
    memory = ctypes.create_string_buffer(_POOL_BYTES + threads * _TICKET_BYTES + 128)
    address = ctypes.addressof(memory)
    return memory, address + -address % 128


class ThreadPool:
    """The threads of this process: `number` threads, including the calling thread."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._asked: int | None = None
        self._kept: list[ctypes.Array[ctypes.c_char]] = []  # an ended thread may still be looking at its pool
        self.ready = False
        at_fork(after_in_child=self._after_fork)

    @property
    def number(self) -> int:
        """How many threads run a parallel loop."""
        return self._asked if self._asked is not None else _default()

    @property
    def sleeping(self) -> int:
        """How many of the threads sleep, waiting for the next loop."""
        pool = _code().current.value if self.ready else None
        return ctypes.c_int32.from_address(pool + _SLEEPING_AT).value if pool else 0

    @property
    def woken(self) -> int:
        """The number of sleeping threads that the loops of this pool have woken so far."""
        pool = _code().current.value if self.ready else None
        return ctypes.c_int64.from_address(pool + _WOKEN_AT).value if pool else 0

    @property
    def costs(self) -> list[Cost]:
        """The costs of loops that have run, as stored in the pool: changing one changes how the loop runs next."""
        pool = _code().current.value if self.ready else None
        kept = (Cost * _LOOPS).from_address(pool + _COSTS_OFFSET) if pool else ()
        return [cost for cost in kept if cost.body]

    def set_number(self, number: int | None) -> None:
        """Use that many threads from now on; None: as many as the environment says, or as there are processors."""
        whole = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and not (whole and 1 <= number <= _MOST_THREADS):
            raise UserError(
                f"set_num_threads: {number!r} is not a positive whole number {_UP_TO}", fix="give 1 or more"
            )
        with self._lock:
            self._asked, running = number, self.ready
            self._end()
        if running:  # code that another library calls, such as XLA, cannot start them
            with suppress(UserError):  # an invalid number in the environment: the next use reports it
                self.start()

    def start(self) -> int:
        """Start the threads if needed; returns the address of the function that runs a loop on them."""
        with self._lock:
            compiled = _code()  # concurrent threads must get the same object
            if not self.ready:
                workers = self.number - 1 if _HAS_THREADS else 0
                if workers:
                    self._start(compiled, workers)
                self.ready = True
        return compiled.parallel_for

    def code(self) -> _Code:
        """The compiled pool; concurrent threads get the same object."""
        with self._lock:
            return _code()

    def functions(self) -> dict[str, int]:
        """Start the threads if needed; returns the addresses of all functions that code calls to use them."""
        self.start()
        return _code().functions

    def _start(self, compiled: _Code, workers: int) -> None:
        memory, address = memory_for(workers + 1)
        self._kept.append(memory)
        libc = ctypes.CDLL(None)
        started = 0
        # Signals are for Python's own threads, which can handle them.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for _ in range(workers):
                thread = ctypes.c_ulong()
                if libc.pthread_create(ctypes.byref(thread), None, compiled.worker, ctypes.c_void_p(address)):
                    break  # the system has no more threads for us: use the existing ones
                libc.pthread_detach(thread)
                started += 1
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if started:
            ctypes.c_int32.from_address(address + _WORKERS_AT).value = started
            compiled.current.value = address

    def _end(self) -> None:
        if self.ready:
            compiled = _code()
            pool, compiled.current.value = compiled.current.value, None
            if pool:
                compiled.end(pool)
            self.ready = False

    def _after_fork(self) -> None:
        """A child has none of the threads, and its copy of the pool may be in the middle of something."""
        if _code.cache_info().currsize:  # another thread may have begun to start a pool that is not ready yet
            _code().current.value = None
        self.ready = False


def _default() -> int:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return processors() if _HAS_THREADS else 1
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_THREADS:
        raise UserError(
            f"{VARIABLE}={text!r} is not a positive whole number {_UP_TO}", fix="give 1 or more, or unset it"
        )
    return int(text)


POOL = ThreadPool()


def set_num_threads(number: int | None) -> None:
    """Run parallel loops of CPU code on `number` threads, the caller's included.

    None (the default) means the value of the environment variable TILEWRIGHT_NUM_THREADS, or one per processor.
    """
    POOL.set_number(number)


def num_threads() -> int:
    """How many threads run a parallel loop of CPU code."""
    return POOL.number
