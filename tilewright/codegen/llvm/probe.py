"""Whether LLVM knows a processor and its features, asked in a separate process, since LLVM aborts on unknown ones."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_PROGRAM = """
import sys
from llvmlite import binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
module = llvm.parse_assembly("define void @f() { ret void }")
target = llvm.Target.from_default_triple().create_target_machine(cpu=sys.argv[1], features=sys.argv[2])
target.emit_object(module)
"""


@cache
def complaint(cpu: str, features: str) -> str:
    """Return what LLVM reports about a processor with those features ("+avx2,-fma"); "" if it knows them all."""
    for name in (cpu, features):
        if not (name.isascii() and name.isprintable()):  # no name of LLVM's, and not text that a command line can hold
            return f"{name!r} is not a recognized name"
    done = subprocess.run([sys.executable, "-c", _PROGRAM, cpu, features], capture_output=True, text=True, check=False)
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    said = next((line for line in lines if "is not a recognized" in line), "")
    return said.partition(" (ignoring")[0] if said else (lines[-1] if done.returncode and lines else "")
