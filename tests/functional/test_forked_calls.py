"""Calls in forks: children of processes whose threads compute, import, compile or unload code meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.paths import python_path

PROGRAM = """
import os, signal, sys, threading, time, traceback
os.environ["TILEWRIGHT_NUM_THREADS"] = "3"

def child(function, seconds=200):
    '''0 where the function returns in a fork; else the fork's status, or "hangs".'''
    sys.stdout.flush()
    made = os.fork()
    if made == 0:
        status = 1
        try:
            function()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(made, os.WNOHANG))[0]:
        if time.monotonic() > end:
            os.kill(made, signal.SIGKILL)
            os.waitpid(made, 0)
            return "hangs"
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])
"""


def run(program: str) -> list[str]:
    """The words that a program prints in a process of its own."""
    done = ended(program, "0")
    assert done.returncode == 0, done.stdout + done.stderr
    return [*done.stdout.split(), done.stderr[-2000:]]


def ended(program: str, cache: object) -> subprocess.CompletedProcess[str]:
    """The process of a program, which keeps its kernels in a folder."""
    return subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", PROGRAM + program],  # since 3.12
        env={**os.environ, "PYTHONPATH": python_path(), "TILEWRIGHT_CACHE": str(cache)},
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip


PLANNING = """
import numpy as np
import tilewright as tw
from tilewright.functional.planning import kernel_choice, plans
call = lambda c: tw.conv2d(np.ones((1, c, 5, 5), "f"), np.ones((c, 1, 3, 3), "f"), groups=c)
call(2)
make, held, done = kernel_choice.choose, threading.Event(), threading.Event()
def slow(*given):
    held.set()
    done.wait()
    return make(*given)
kernel_choice.choose = slow
thread = threading.Thread(target=call, args=(3,))
thread.start()
held.wait()
kernel_choice.choose = make
def same_and_another():
    assert (call(3) == 9).all() and (call(4) == 9).all()
print(child(same_and_another, 300))
done.set()
thread.join()
"""


def test_a_fork_while_another_thread_makes_a_plan_makes_its_own() -> None:
    assert run(PLANNING) == ["0", ""]


IMPORTING = """
import importlib.util, numpy as np
import tilewright as tw
began = threading.Event()
class Slow:
    '''Finds the compiler of calls, slowly.'''
    def find_spec(self, name, path, target=None):
        if name == "tilewright.functional.planning.compiler":
            began.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slow())
call = lambda c: tw.conv2d(np.ones((1, c, 5, 5), "f"), np.ones((c, 1, 3, 3), "f"), groups=c)
thread = threading.Thread(target=call, args=(3,))
thread.start()
began.wait()
print(child(lambda: call(4), 300))
thread.join()
"""


def test_a_fork_while_another_thread_imports_the_compiler_imports_it_too() -> None:
    assert run(IMPORTING)[0] == "0"  # Python complains of hooks that modules register while others run


UNLOADING = """
from tilewright.runtime.llvm_link import link
from tilewright.runtime.thread_pool import compiled_now
binary = compiled_now("define i32 @f() { ret i32 1 }")
load = lambda: link(binary, ["f"], {})[0]
held, found = [], []
def unload():
    while held:
        held.pop()
for number in range(30):
    held += [load() for _ in range(100)]
    thread = threading.Thread(target=unload)
    thread.start()
    time.sleep(0.0002 * (number % 10))
    found.append(child(load, 300))
    thread.join()
    if found[-1]:
        break
print(found.count(0))
"""


def test_forks_while_another_thread_unloads_code_load_code() -> None:
    assert run(UNLOADING) == ["30", ""]


def test_a_reentrant_lock_of_the_thread_that_forks_stays_its_own_in_the_fork() -> None:
    program = "from tilewright.core.forking import new_reentrant_lock\nlock = new_reentrant_lock()\n"
    program += "with lock:\n    made = os.fork()\nif made == 0:\n    os._exit(0)\n"
    program += "print(os.waitstatus_to_exitcode(os.waitpid(made, 0)[1]))"
    assert run(program) == ["0", ""], "the fork releases the lock as its parent does"


def test_garbage_with_code_in_it_is_collected_while_its_thread_forks() -> None:
    program = "from tilewright.core import forking\nbegan = time.monotonic()\n"
    program += "gate = forking._gate\ngate.before_fork()\nforking.not_while_forking(lambda: None)()\n"
    program += "gate.after_in_parent()\nprint(gate.inside, gate.forking)"
    assert run("import faulthandler; faulthandler.dump_traceback_later(30, exit=True)\n" + program) == ["{}", "[]", ""]


# PyTorch's tensors, in forks of one process: each imports PyTorch, which takes as long as ten of these calls.

TENSORS = """
import torch
torch.set_num_threads(3)
functional = torch.nn.functional
x, w, dense = torch.randn(4, 64, 28, 28), torch.randn(64, 1, 3, 3), torch.randn(64, 64, 3, 3)
turned = x.transpose(2, 3)
out = torch.empty(4, 26, 26, 64).permute(0, 3, 1, 2)
wanted = functional.conv2d(x, w, groups=64)
wanted_turned, wanted_dense = functional.conv2d(turned, w, groups=64), functional.conv2d(x, dense)
assert len(os.listdir("/proc/self/task")) > 3, "PyTorch has started its threads"

def same(found, wanted):
    assert torch.get_num_threads() == 3, "PyTorch keeps its number of threads"
    torch.set_num_threads(1)  # PyTorch's own loops would hang
    assert torch.allclose(found, wanted, atol=1e-3, rtol=1e-3)
    torch.set_num_threads(3)

def check(name, function, times=1):
    print(name, {child(function) for _ in range(times)}, flush=True)

def imports():
    import tilewright as tw
    same(tw.conv2d(x, w, groups=64), wanted)
check("imports", imports)

import tilewright as tw
from tilewright.functional.pytorch import threads as torch_threads
from tilewright.runtime.thread_pool import POOL
assert not torch_threads.threads().ready
def first():
    same(tw.conv2d(x, w, groups=64), wanted)
    assert POOL.ready
check("first", first)

def threads():
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: tw.conv2d(x, w, groups=64), range(4)))
    for one in found:
        torch.set_num_threads(3)
        same(one, wanted)
check("threads", threads, 4)

def tuned():
    from tilewright.functional.planning import tuning
    tuning.TIMEOUT = 600.0
    same(tw.conv2d(x, w, groups=64, tune=0.5), wanted)
check("tuned", tuned)

def left_to_pytorch():
    from tilewright.functional.planning import decision, kernel_choice
    kernel_choice.choose = lambda *_: (decision.Decision(decision.Side.THEIRS, why="it is asked for"), None)
    return tw.conv2d(x, dense)
check("pytorch's", lambda: same(left_to_pytorch(), wanted_dense))

leaf, by = x.clone().requires_grad_(), torch.randn_like(wanted_dense)
functional.silu(functional.conv2d(leaf, dense)).backward(by)
wanted_gradient, leaf.grad = leaf.grad, None
def gradients():
    tw.conv2d(leaf, dense, activation="silu").backward(by)
    same(leaf.grad, wanted_gradient)
check("gradients", gradients)

tw.conv2d(x, w, groups=64)
assert torch_threads.threads().ready
check("turned", lambda: same(tw.conv2d(turned, w, groups=64), wanted_turned))
check("out", lambda: same(tw.conv2d(x, w, groups=64, out=out), wanted))

class Filtered(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return tw.conv2d(x[index : index + 1], w, groups=64)[0]
loader = torch.utils.data.DataLoader(Filtered(), 2, num_workers=2, multiprocessing_context="fork", timeout=200)
same(torch.cat(list(loader)), wanted)
print("loader", {0}, flush=True)

left_to_pytorch()
check("pytorch's again", lambda: same(tw.conv2d(x, dense), wanted_dense))
"""
IN_FORKS = {
    "imports": "a fork may be the first to import Tilewright",
    "first": "a fork may be the first to call",
    "threads": "PyTorch fails if two threads of a fork ask for the number of its threads at once",
    "tuned": "PyTorch's kernel is timed, and does not wait for threads of the parent's",
    "pytorch's": "PyTorch computes the first call",
    "gradients": "gradients",
    "turned": "an operand is copied",
    "out": "the result is copied",
    "loader": "workers of a data loader",
    "pytorch's again": "PyTorch computes a call, as the parent has decided",
}


@pytest.fixture(scope="module")
def in_forks(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    return ended(TENSORS, tmp_path_factory.mktemp("kernels"))


@pytest.mark.parametrize("name", IN_FORKS)
def test_calls_on_tensors_in_a_fork(in_forks: subprocess.CompletedProcess[str], name: str) -> None:
    assert f"{name} {{0}}" in in_forks.stdout.splitlines(), f"{IN_FORKS[name]}\n{in_forks.stdout}{in_forks.stderr}"
