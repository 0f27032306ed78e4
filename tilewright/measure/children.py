"""Child processes that cannot outlive us: forked, watched and ended.

A child is forked with its end of a channel and runs one function. It ignores Ctrl-C (the parent decides which processes
to end), and the kernel kills it when its parent dies. It leaves by `os._exit`, so that the parent's GPU memory,
buffered output and files are not released or written twice.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..core.errors import UserError
from ..core.paths import package_path
from .channel import Channel, wait
from .process_state import adopt_orphans, kill_family
from .watchdog import TUNER, WORKER, began, kill_marked

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""Environment of measuring processes: they keep freed memory. In a virtual machine, compilers and comparisons otherwise
spend much of their time on pages that the system takes back and gives again."""
_FATAL = (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
_SENT = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def start_fresh(module: str, *arguments: str, **variables: str) -> tuple[subprocess.Popen[bytes], Channel]:
    """Start a module as a process that inherits only a channel from this process; returns both.

    Its command line is the number of the channel's descriptor, then `arguments`; `variables` are for its environment.
    It is out of reach of the terminal's Ctrl-C: this process decides when it ends.
    """
    ours, theirs = Channel.pair()
    try:
        process = subprocess.Popen(
            # -P: a file called numpy.py in the caller's folder must not be imported.
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**_KEEPS_MEMORY, **os.environ, **variables, "PYTHONPATH": package_path()},
            process_group=0,
        )
    except OSError as error:
        ours.close()
        raise _no_process(error) from error
    finally:
        theirs.close()
    return process, ours


def _no_process(error: OSError) -> UserError:
    """Too many processes or descriptors, or too little memory."""
    return UserError(
        f"the system allows no other process that measures: {error.strerror}",
        primitive="measure_option",
        fix="raise the limits (ulimit -u, -n), end others, or build fewer at once: LocalBuilder(n_parallel=1)",
    )


def die_with(parent: int) -> None:
    """End this process when `parent`, which started it, ends for any reason."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the request was made
        os._exit(1)


def open_pidfd(pid: int) -> int:
    """A descriptor that becomes readable when the process ends; -1 on a kernel that has none (before Linux 5.3)."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return -1


class Child:
    """A forked process and our end of the channel to it."""

    def __init__(self, pid: int, channel: Channel, mark: str = "") -> None:
        self.pid = pid
        self.channel = channel
        self._mark = mark
        self._status: int | None = None
        self._reaped = False
        self._killed = False
        self._pidfd = open_pidfd(pid)

    def descriptors(self) -> list[int]:
        """A descriptor that becomes readable when the child writes or ends."""
        ends = [] if self.channel.closed else [self.channel.fileno()]
        return ends if self._pidfd < 0 else [*ends, self._pidfd]

    def ended(self) -> bool:
        """Whether the process is gone (its last messages may still be in the channel)."""
        if not self._reaped:
            blind = self._pidfd < 0 and self.channel.closed  # nothing signals the end of the process, but it is ending
            try:
                if blind or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    self._reap()
            except ChildProcessError:  # somebody else's SIGCHLD handler was faster
                self._gone()
        return self._reaped

    def kill(self, idle: bool = False) -> None:
        """Begin to end the process and its children, without waiting; an `idle` process has no children."""
        if not self._reaped and not self._killed:
            self._killed = True
            if idle:
                os.kill(self.pid, signal.SIGKILL)
            else:
                kill_family(self.pid)

    def await_end(self, seconds: float) -> bool:
        """Wait at most `seconds` for the process to end on its own; returns whether it ended."""
        if not self.ended() and self._pidfd >= 0:
            wait([self._pidfd], time.monotonic() + seconds)
        return self.ended()

    def bury(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        if not self._reaped:
            try:
                self._reap()
            except ChildProcessError:
                self._gone()
        self.channel.close()

    def _reap(self) -> None:
        """Wait for the end of the process; the rest of its group ends with it."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # before `waitpid` frees the number for other processes
        _, self._status = os.waitpid(self.pid, 0)
        if self._status and self._mark and not self._killed:  # the process crashed, and nobody has seen its children
            kill_marked(WORKER, self._mark)
        self._gone()

    def _gone(self) -> None:
        self._reaped = True
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    @property
    def signal(self) -> signal.Signals | None:
        """The signal that ended the process, if one did."""
        if self._status is None or not os.WIFSIGNALED(self._status):
            return None
        number = os.WTERMSIG(self._status)
        return signal.Signals(number) if number in list(signal.Signals) else None

    @property
    def killed_from_outside(self) -> bool:
        """Whether a signal that only other processes send ended the process."""
        return self.signal in _SENT

    def describe_end(self) -> str:
        """How the process ended: "was killed by SIGSEGV", "exited with status 3"."""
        if (by := self.signal) is not None:
            return f"was killed by {by.name}"
        if self._status is None:
            return "ended"
        return f"exited with status {os.waitstatus_to_exitcode(self._status)}"


_guarded: set[int] = set()


def tuner_mark() -> str:
    """The mark of this tuner's processes.

    The first call starts a guard, which ends these processes when the tuner is gone. Below a worker, the mark is that
    of its tuner.
    """
    inherited = os.environ.get(TUNER)
    if inherited is not None:
        return inherited
    pid, start = os.getpid(), began(os.getpid())
    mark = f"{pid}.{start}"
    if pid not in _guarded and sys.executable:
        _guarded.add(pid)
        command = [sys.executable, "-I", "-S", os.path.join(os.path.dirname(__file__), "watchdog.py")]
        nothing = subprocess.DEVNULL
        with suppress(OSError):  # tuning goes on without
            subprocess.run(
                [*command, str(pid), start, mark, _temporary_folder()],
                stdin=nothing, stdout=nothing, stderr=nothing, check=False, cwd="/",
            )  # fmt: skip
    return mark


def _temporary_folder() -> str:
    try:
        return os.path.abspath(tempfile.gettempdir())
    except OSError:  # none that takes files
        return os.devnull


def fork(main: Callable[[Channel], None], close: Iterable[Channel] = ()) -> Child:
    """A child that runs `main` with its end of a channel; it closes its copies of the channels in `close`."""
    ours, theirs = Channel.pair()
    tuner, worker = tuner_mark(), f"{os.getpid()}.{time.monotonic_ns()}"
    # Otherwise both processes would write the contents of Python's buffers.
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # a stream that is closed, or is None, holds nothing
            stream.flush()
    parent = os.getpid()
    # Ctrl-C must not raise in the child, which would then run on in the parent's place.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    with warnings.catch_warnings():
        # Python 3.12 and JAX warn of forking with threads about. A child here runs code that takes no lock of other
        # threads. A child that hangs all the same is ended at its time limit, and replaced.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        try:
            pid = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            ours.close()
            theirs.close()
            raise _no_process(error) from error
    if pid:
        theirs.close()
        with suppress(OSError):  # the child may have done so itself
            os.setpgid(pid, pid)
        child = Child(pid, ours, worker)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return child
    status = 1
    try:
        die_with(parent)
        os.environ.update({TUNER: tuner, WORKER: worker})
        # A separate group has all processes of a candidate, and a terminal's Ctrl-C and Ctrl-Z do not reach it.
        os.setpgid(0, 0)
        adopt_orphans()
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in _FATAL:  # here a crash is a crash, despite handlers of the parent's libraries
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        gc.freeze()  # objects of the parent are the parent's to finalise
        for channel in (ours, *close):
            channel.close()
        main(theirs)
        status = 0
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the parent wants nothing more
        status = 0
    except BaseException:
        with suppress(Exception):
            traceback.print_exc()
    finally:
        os._exit(status)
