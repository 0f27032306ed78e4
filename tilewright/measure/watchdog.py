"""Find and end processes that candidates started, after the process that could see them is gone.

Each worker has two marks in its environment: its tuner's, and its own. A candidate's processes inherit them, in any
session and with any parent. Not found are only a program that is started with another environment, and a fork of a
worker that leaves its group. This file is also a program by itself, without the rest of the package:

    python -I -S watchdog.py PID START MARK FOLDER

waits until the process PID, which began at START, has ended, and gives its processes a moment to tidy up. Then it ends
all processes with its mark, and removes the folders of that mark in FOLDER.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress

TUNER = "TILEWRIGHT_TUNER"
WORKER = "TILEWRIGHT_WORKER"
_ROUNDS = 8
_POLL_SECONDS = 1.0
"""Seconds between looks, on kernels without descriptors of processes (before Linux 5.3)."""
_GRACE_SECONDS = 3.0
"""Seconds after the end of a tuner in which its processes may end their children and remove their files."""


def marked(name: str, value: str) -> list[int]:
    """Return the processes, other than this one, with the mark in their environment."""
    wanted = f"{name}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:  # the process has ended, or is somebody else's
                continue
    return found


def kill_marked(name: str, value: str) -> None:
    """Kill all processes that have the mark. All are stopped first, so that none starts another process."""
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = [pid for pid in marked(name, value) if pid not in stopped]
        if not fresh:
            break
        for pid in fresh:
            _send(pid, signal.SIGSTOP)
        stopped.update(fresh)
    for pid in stopped:
        _send(pid, signal.SIGKILL)


def began(pid: int) -> str:
    """Return when a process began, to distinguish it from later processes with the same number; "" if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def _send(pid: int, number: int) -> None:
    with suppress(OSError):  # the process has ended
        os.kill(pid, number)


def folder_name(mark: str, own: str) -> str:
    """The name of a tuner session's folder, which is removed with its processes."""
    return f"tilewright-{mark}-{own}"


def _await_end(pid: int, start: str) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except (OSError, AttributeError):
        while began(pid) == start:
            time.sleep(_POLL_SECONDS)
        return
    if began(pid) == start:
        select.select([descriptor], [], [])


def _remove(folder: str) -> None:
    for at, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(at, name))
        for name in folders:
            os.rmdir(os.path.join(at, name))
    os.rmdir(folder)


def remove_folders(temporary: str, mark: str) -> None:
    """Remove the folders of a tuner; more than once, since a process that was just killed may still add a file."""
    for _ in range(_ROUNDS):
        try:
            left = [name for name in os.listdir(temporary) if name.startswith(folder_name(mark, ""))]
        except OSError:
            return
        if not left:
            return
        for name in left:
            with suppress(OSError):
                _remove(os.path.join(temporary, name))
        time.sleep(_POLL_SECONDS / 20)


def main() -> None:
    """Detach from the parent process, and wait."""
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    pid, start, mark, temporary = int(sys.argv[1]), *sys.argv[2:]
    _await_end(pid, start)
    end = time.monotonic() + _GRACE_SECONDS
    while marked(TUNER, mark) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS / 20)
    kill_marked(TUNER, mark)
    remove_folders(temporary, mark)  # on a busy machine, the responsible process was ended before


if __name__ == "__main__":
    main()
