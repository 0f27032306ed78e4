"""Forks while other threads build, after OpenCL was used, and where the home cannot be written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.measure.test_session import QUICK
from tests.paths import python_path
from tilewright import te
from tilewright.core import forking
from tilewright.core.target import Target
from tilewright.measure.option import LocalBuilder
from tilewright.measure.session import Job, MeasureSession

ROOT = Path(__file__).parents[2]


def add(number: int, target: str = "llvm") -> tuple[Any, list[Any]]:
    """A small program; each number gives another one."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + float(number), name="B")
    s = te.create_schedule(b.op)
    if target == "opencl":
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return s, [a, b]


def build(number: int, target: str = "llvm") -> Any:
    s, args = add(number, target)
    return tw.build(s, args, target=target)


@contextmanager
def building() -> Iterator[None]:
    """Another thread builds, one program after the other."""
    done = threading.Event()

    def work() -> None:
        number = 1000
        while not done.is_set():
            build(number := number + 1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def in_child(function: Callable[[], Any], seconds: float = 300.0) -> str:
    """What a forked child says of a function: its result as text, the name of the error, or that it hangs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.replace("\n", " ").encode())
        os._exit(0)
    os.close(writer)
    end = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "it hangs"
        time.sleep(0.01)
    with os.fdopen(reader) as file:
        return file.read()


def add_in_child(target: str, number: int) -> float:
    on = tw.device(target)
    a, b = tw.nd.array(np.ones(64, "float32"), on), tw.nd.empty((64,), "float32", on)
    build(number, target)(a, b)
    return float(b.numpy()[0])


def test_forks_while_another_thread_builds_build_themselves() -> None:
    with building():
        assert [in_child(lambda n=n: add_in_child("llvm", n)) for n in range(12)] == [f"{n + 1.0}" for n in range(12)]


def test_candidates_are_built_while_another_thread_builds() -> None:
    jobs = [Job(lambda n=n: add(n), n, Target("llvm")) for n in range(8)]
    with building(), MeasureSession("llvm", LocalBuilder(timeout=600), QUICK) as session:
        outcomes = [outcome for _, outcome in session.measure(jobs)]
    assert all(outcome.ok for outcome in outcomes), outcomes


def test_a_lock_that_another_thread_holds_is_free_in_a_fork() -> None:
    lock, held, done = forking.new_lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert in_child(lambda: lock.acquire(timeout=5)) == "True"
    done.set()
    thread.join()


def test_builds_may_fork_and_build() -> None:
    """As a function in a declaration might."""

    @forking.not_while_forking
    def outer() -> str:
        return in_child(lambda: add_in_child("llvm", 3))

    assert outer() == "4.0"


OPENCL = """
import os, sys
sys.path.insert(0, {root!r})
from tests.measure import test_forking as here
print(here.add_in_child("opencl", 1))
print(here.in_child(lambda: here.add_in_child("opencl", 2)))
print(here.in_child(lambda: here.add_in_child("llvm", 3)))
print(here.add_in_child("opencl", 4))
"""


def script(text: str, **environment: str) -> list[str]:
    """The lines that a program prints in a process of its own."""
    made = subprocess.run(
        [sys.executable, "-c", text.format(root=str(ROOT))],
        env={**os.environ, "PYTHONPATH": python_path(), **environment},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


@pytest.mark.opencl
def test_opencl_in_a_fork_of_a_process_that_used_it_is_refused() -> None:
    first, refused, llvm, again = script(OPENCL)
    assert (first, llvm, again) == ("2.0", "4.0", "5.0")
    assert "OpenCL was used before this process was forked" in refused


GARBAGE = """
import gc, os, sys
sys.path.insert(0, {root!r})
from tests.measure import test_forking as here

class Released:
    def __init__(self):
        self.me, self.by = self, os.getpid()
    def __del__(self):
        os.write(1, b"released by its own process\\n" if os.getpid() == self.by else b"released by a fork\\n")

print(here.add_in_child("opencl", 1), flush=True)
gc.disable()
Released()
gc.enable()
print(here.in_child(lambda: (gc.collect(), gc.isenabled())[1]), flush=True)
gc.collect()
"""


@pytest.mark.opencl
def test_garbage_from_before_a_fork_is_the_parents() -> None:
    """Releasing a kernel takes PoCL's locks, which a thread that is not in the fork may hold."""
    assert script(GARBAGE) == ["2.0", "True", "released by its own process"]


READ_ONLY = """
import os, sys
sys.path.insert(0, {root!r})
from tests.measure import test_forking as here
from tests.measure.test_session import matmul
from tilewright.measure.session import Job, MeasureSession
from tilewright.measure.option import LocalBuilder
print(here.add_in_child("opencl", 1))
with MeasureSession("opencl", LocalBuilder(timeout=600), here.QUICK) as session:
    ((_, outcome),) = session.measure([Job(lambda: matmul(1), 0, here.Target("opencl"))])
print(outcome.ok or outcome)
"""


@pytest.mark.opencl
def test_opencl_where_the_home_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)  # which this process has where its own home is such a one
    home, temporary = tmp_path / "file", tmp_path / "temporary"
    home.write_text("no folder")
    temporary.mkdir()
    stale = temporary / "tilewright-pocl-999999999-abc"
    stale.mkdir()
    lines = script(READ_ONLY, HOME=str(home), XDG_CACHE_HOME=str(home / "cache"), TMPDIR=str(temporary))
    assert lines == ["2.0", "True"]
    end = time.monotonic() + 120
    while (left := [*temporary.iterdir()]) and time.monotonic() < end:  # its processes may end after it
        time.sleep(0.02)
    assert not left
