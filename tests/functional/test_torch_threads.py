"""Calls on PyTorch's tensors on the CPU run on PyTorch's own threads, as many as it uses itself."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import tilewright as tw
from tests.paths import python_path

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.usefixtures("our_kernels")

from tilewright.functional.pytorch import threads as torch_threads  # noqa: E402  (PyTorch is there)
from tilewright.runtime.openmp_team import OpenMpTeam  # noqa: E402
from tilewright.runtime.thread_pool import POOL  # noqa: E402

X, W = torch.randn(2, 24, 40, 41), torch.randn(24, 1, 3, 3)
WANTED = torch.nn.functional.conv2d(X.double(), W.double(), padding=1, groups=24).float()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def check() -> None:
    found = tw.conv2d(X, W, padding=1, groups=24)
    torch.testing.assert_close(found, WANTED, atol=1e-4, rtol=1e-4)


PROGRAM = """
import os, threading, torch
import numpy as np
import tilewright as tw
from tests.decided import decided
from tilewright.runtime.thread_pool import POOL
decided("ours").__enter__()
count = lambda: len(os.listdir("/proc/self/task"))
x, w = torch.randn(4, 64, 64, 64), torch.randn(64, 1, 3, 3)
torch.set_num_threads(1)
call = lambda: tw.conv2d(x, w, padding=1, groups=64)
wanted = call()
before = count()

def started(number):
    torch.set_num_threads(number)
    assert torch.equal(call(), wanted)
    return count() - before
print("told", *map(started, (1, 2, 4)))
torch.relu(torch.randn(1 << 22))
print("theirs", count() - before)
print("more", started(7), POOL.ready)

torch.set_num_threads(3)
found = []
def work():
    before = count()
    call()
    found.append(count() - before)
one = threading.Thread(target=work)
one.start()
one.join()
print("in a thread", *found)

same = lambda: (call().numpy() == wanted.numpy()).all()
child = os.fork()
if child == 0:
    os._exit(0 if same() and POOL.ready else 1)
print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), same(), POOL.ready)
tw.conv2d(x.numpy(), w.numpy(), padding=1, groups=64)
print("NumPy", POOL.ready)
"""


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the program prints in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_as_many_threads_run_as_pytorch_is_told(said: list[str]) -> None:
    assert {"told 0 1 3", "more 6 False"} <= {*said}


def test_the_threads_are_pytorchs(said: list[str]) -> None:
    assert "theirs 3" in said


def test_a_number_of_threads_set_in_one_thread_holds_in_the_others(said: list[str]) -> None:
    assert "in a thread 2" in said


def test_a_fork_has_threads_of_its_own(said: list[str]) -> None:
    assert "fork 0 True False" in said


def test_numpy_arrays_keep_threads_of_ours(said: list[str]) -> None:
    assert "NumPy True" in said


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_any_number_of_threads_gives_the_result(threads: int) -> None:
    torch.set_num_threads(threads)
    for _ in range(20):
        check()


def test_several_threads_call_at_once() -> None:
    torch.set_num_threads(3)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(100):
                check()
        except BaseException as error:
            failures.append(error)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert not failures


def test_a_library_without_openmp_has_none_of_its_threads() -> None:
    assert not OpenMpTeam(ctypes.CDLL(None), "no_such_function").usable
    assert torch_threads.threads() is not POOL, "PyTorch's wheels have OpenMP"
