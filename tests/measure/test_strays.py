"""What candidates start ends with the worker that crashed, and with the tuner that was killed."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from tests.errors.refused import refused
from tests.paths import python_path
from tilewright.measure.channel import Channel
from tilewright.measure.children import fork, start_fresh
from tilewright.measure.watchdog import folder_name, marked, remove_folders

MINE = "TILEWRIGHT_TEST_STRAY"
DETACHED = f"""
import os, subprocess, sys
environment = {{**os.environ, "{MINE}": sys.argv[-1]}}
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment, start_new_session=True)
"""


def gone(token: str) -> bool:
    """Whether the stray ends within a while, in which others may have the processor."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if not marked(MINE, token):
            return True
        time.sleep(0.05)
    for pid in marked(MINE, token):
        os.kill(pid, signal.SIGKILL)
    return False


def test_what_a_crashed_worker_started_ends_with_it() -> None:
    token = uuid.uuid4().hex

    def main(channel: Channel) -> None:
        subprocess.run([sys.executable, "-c", DETACHED, token], check=True)
        channel.send("started")
        signal.pause()

    child = fork(main)
    try:
        while not child.channel.receive():
            time.sleep(0.01)
        assert marked(MINE, token)
        os.kill(child.pid, signal.SIGSEGV)
        child.await_end(60)
        assert gone(token)
    finally:
        child.bury()


def test_what_a_worker_started_ends_with_a_killed_tuner(tmp_path: Path) -> None:
    token = uuid.uuid4().hex
    script = tmp_path / "tuner.py"
    script.write_text(
        textwrap.dedent("""
            import signal, subprocess, sys
            from tilewright.measure.children import fork

            def main(channel):
                subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], check=True)
                print("started", flush=True)
                signal.pause()

            child = fork(main)
            signal.pause()
        """)
    )
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, str(script), DETACHED, token]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert marked(MINE, token)
        process.kill()
    assert gone(token)


def test_a_folder_that_still_gets_a_file_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a process that was killed in the middle of a system call."""
    ours, others = (tmp_path / folder_name(mark, "a") for mark in ("1.2", "1.3"))
    for folder in (ours, others):
        (folder / "below").mkdir(parents=True)
    remove = os.rmdir
    late = [ours / "late", ours / "later"]

    def rmdir(path: str) -> None:
        if path == str(ours) and late:
            late.pop().touch()
        remove(path)

    monkeypatch.setattr(os, "rmdir", rmdir)
    remove_folders(str(tmp_path), "1.2")
    assert [*tmp_path.iterdir()] == [others]


def test_no_file_descriptor_is_left() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = os.open("/dev/null", os.O_RDONLY)  # the lowest number that is free: no higher one is allowed now
    resource.setrlimit(resource.RLIMIT_NOFILE, (held + 1, limits[1]))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(held))
        with refused("measure_option", "no file descriptor is left", f"may have {held + 1} open", fix="ulimit -n"):
            Channel.pair()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in (held, *taken):
            os.close(one)


def test_a_channel_whose_descriptor_is_beyond_1023() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] <= 1200:
        pytest.skip(f"a process may have {limits[1]} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    near, far = Channel.pair()
    try:
        low = far.socket
        far.socket = socket.socket(fileno=fcntl.fcntl(low.fileno(), fcntl.F_DUPFD_CLOEXEC, 1100))
        low.close()
        near.send("message")
        assert far.receive() == "message"
    finally:
        near.close()
        far.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_fork_that_the_system_refuses_leaves_ctrl_c_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with refused("measure_option", "allows no other process", "temporarily unavailable", fix="ulimit -u"):
        fork(lambda channel: None)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_two_ends_that_send_much_at_once_do_not_wait_for_each_other() -> None:
    one, other = Channel.pair()

    def talk() -> None:
        for number in range(200):
            other.send((number, "x" * 4000))
        heard.extend(other.receive()[0] for _ in range(200))

    heard: list[int] = []
    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    for number in range(200):
        one.exchange((number, "y" * 8000))
    assert one.holds_message
    assert [one.receive()[0] for _ in range(200)] == list(range(200))
    assert not one.holds_message
    thread.join(60)
    assert heard == list(range(200))
    other.close()
    with pytest.raises(BrokenPipeError):
        one.exchange("anybody?")
    one.close()
    with pytest.raises(BrokenPipeError):
        one.exchange("nobody")


def test_a_process_that_the_system_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*command: object, **how: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    before = os.listdir("/proc/self/fd")
    with refused("measure_option", "allows no other process", "temporarily unavailable", fix="ulimit -u"):
        start_fresh("tilewright.measure")
    assert len(os.listdir("/proc/self/fd")) <= len(before)
