"""What is needed of LLVM to run code that is there: its library, and the names that code and runtime agree on.

A process that only runs known kernels imports this, and none of the compiler.
"""

from __future__ import annotations

from functools import cache
from typing import Any

PACKED = ".packed"
"""What the name of a function that the runtime calls ends with."""
PARALLEL_FOR = "tilewright_parallel_for"
"""`i32 (i32 body(ptr closure, i64 begin, i64 end), ptr closure, i64 extent)`, which the runtime supplies."""


@cache
def binding() -> Any:
    """llvmlite's interface to LLVM, ready for use."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return llvm
