"""The parts of LLVM that running compiled code needs: its library, and the names that code and runtime agree on.

A process that only runs known kernels imports this, and none of the compiler.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...core.forking import not_while_forking

PACKED = ".packed"
"""Suffix of the names of functions that the runtime calls."""
PARALLEL_FOR = "tilewright_parallel_for"
"""`i32 (i32 body(ptr closure, i64 begin, i64 end), ptr closure, i64 extent)`, which the runtime supplies."""

LAUNCH = "tilewright_launch"
"""`i32 (i32 body(ptr closure, i64 task, i64 tasks, ptr barrier), ptr closure)`: every thread runs the body once."""
TASK_BARRIER = "tilewright_task_barrier"
"""`i32 (ptr barrier)`: all tasks wait for each other there; the result is not 0 if a task has failed."""
OF_THREADS = (PARALLEL_FOR, LAUNCH, TASK_BARRIER)
"""The functions that the thread pool supplies."""


@cache
@not_while_forking
def binding() -> Any:
    """llvmlite's interface to LLVM, ready for use."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm
