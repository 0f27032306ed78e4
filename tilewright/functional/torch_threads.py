"""The threads of calls on PyTorch's tensors on the CPU: PyTorch's own, as many as `torch.set_num_threads` says."""

from __future__ import annotations

import ctypes
import os
from functools import cache

import torch

from ..runtime.openmp_team import OpenMpTeam
from ..runtime.thread_pool import POOL
from . import running
from .plans import Plan

_NUMBER = "_ZN2at15get_num_threadsEv"
"""`at::get_num_threads`."""


@cache
def threads() -> running.Threads:
    """PyTorch's threads; our own where it was built without OpenMP."""
    library = os.path.join(os.path.dirname(getattr(torch, "__file__", "")), "lib", "libtorch_cpu.so")
    try:
        team = OpenMpTeam(ctypes.CDLL(library), _NUMBER)
    except OSError:
        return POOL
    return team if team.usable else POOL


def program_of(plan: Plan) -> running.Program:
    """The loaded program of a plan that is ours; on a CPU, it runs on PyTorch's threads."""
    return running.program_of(plan, threads())
