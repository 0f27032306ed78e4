"""The threads of calls on PyTorch's CPU tensors: PyTorch's own, in the number set by `torch.set_num_threads`."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch

from ...runtime.openmp_team import OpenMpTeam
from ...runtime.thread_pool import POOL
from ..planning import plans
from ..programs.running import Program, Threads

_NUMBER = "_ZN2at15get_num_threadsEv"
"""`at::get_num_threads`."""
_anyhow = nullcontext()


@cache
def threads() -> Threads:
    """Return PyTorch's threads; our own if PyTorch was built without OpenMP."""
    library = os.path.join(os.path.dirname(getattr(torch, "__file__", "")), "lib", "libtorch_cpu.so")
    try:
        team = OpenMpTeam(ctypes.CDLL(library), _NUMBER, _revive)
    except OSError:
        return POOL
    return team if team.usable else POOL


def number() -> int:
    """Return the number of threads of a parallel loop."""
    team = threads()
    if isinstance(team, OpenMpTeam) and team.lost:
        team.start()  # in a fork, this asks PyTorch first, for all threads
    return int(torch.get_num_threads())


def _revive() -> None:
    """Let PyTorch replace its second thread pool, which is not OpenMP's, after a fork.

    PyTorch does so at the first request for its number of threads; if two threads ask at once, one finds no pool.
    """
    torch.set_num_threads(torch.get_num_threads())


def program_of(plan: plans.CallPlan) -> Program:
    """Return the loaded program of a plan; on a CPU, it runs on PyTorch's threads."""
    return plans.program_of(plan, threads())


def lost() -> bool:
    """Return whether PyTorch's loops would hang in this thread: after a fork, they wait for threads of the parent
    process."""
    team = threads()
    if not isinstance(team, OpenMpTeam) or not team.lost:
        return False
    return threading.current_thread() is threading.main_thread()  # the thread that forked; other threads have new teams


def by_pytorch() -> AbstractContextManager[None]:
    """Return the context for PyTorch's own CPU kernels: they run in one thread if they would hang otherwise."""
    return _in_one_thread() if lost() else _anyhow


@contextmanager
def _in_one_thread() -> Iterator[None]:
    number = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number)
