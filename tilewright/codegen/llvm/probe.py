"""Questions that LLVM may answer by ending the process, asked in a separate process."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_PROGRAM = """
import sys
from llvmlite import binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
module = llvm.parse_assembly("define void @f() { ret void }")
triple = sys.argv[3] or llvm.get_default_triple()
target = llvm.Target.from_triple(triple).create_target_machine(cpu=sys.argv[1], features=sys.argv[2])
target.emit_object(module)
"""


@cache
def complaint(cpu: str, features: str, triple: str = "") -> str:
    """Return LLVM's warnings about a processor with those features ("+avx2,-fma"); "" if it knows them all."""
    for name in (cpu, features):
        if not (name.isascii() and name.isprintable()):  # no name of LLVM's, and not text that a command line can hold
            return f"{name!r} is not a recognized name"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, cpu, features, triple], capture_output=True, text=True, check=False
    )
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if "is not a recognized" in line), "")
    return said.partition(" (ignoring")[0] if said else (lines[-1] if done.returncode and lines else "")


_COMPILE = """
import sys
from llvmlite import binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
llvm.initialize_native_asmparser()
module = llvm.parse_assembly(sys.stdin.read())
target = llvm.Target.from_default_triple().create_target_machine(cpu=sys.argv[1], features=sys.argv[2])
target.emit_object(module)
"""


@cache
def fails_on(source: str, cpu: str, features: str) -> str:
    """Return the reason why LLVM cannot compile a valid module for a processor; "" if it can."""
    done = subprocess.run(
        [sys.executable, "-c", _COMPILE, cpu, features], input=source, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines()]
    said = next((line for line in lines if "ERROR" in line or "Assertion" in line), "it ends the compiler")
    return f"which LLVM does not compile for {cpu}: {said[:200]}"
