"""What the PTX of kernels says beyond their source: which arrays a load may go to, and through which cache.

`ld.global.nc` reads through the read-only cache, which does not see what the kernel has stored. NVVM decides by itself
where it writes that; `read_stale` finds where it is wrong, with no GPU.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from tilewright.codegen.nvrtc import compile_users

_ENTRY = re.compile(r"\.entry (\w+)\(.*?\n\}", re.DOTALL)
_REGISTER = re.compile(r"%\w+")
_MEMORY = re.compile(r"^(?:@!?%\w+ )?((?:ld|st|atom|red)\.[\w.:]+)\s.*?\[([^\]]+)\]")
_SETS = re.compile(r"^(?:@!?%\w+ )?([a-z][\w.]*)\s+(%\w+|\{[^}]*\}),(.*);")


def read_stale(module: Any) -> list[str]:
    """Loads of a CUDA module that may read an array that their kernel writes through the read-only cache."""
    if not module.imported_modules:  # no kernel is left
        return []
    source = module.imported_modules[0].get_source()
    text = compile_users(source, "ptx", "sm_90a", ("--minimal",)).decode()
    return [f"{kernel[1]}: {load}" for kernel in _ENTRY.finditer(text) for load in _stale(kernel[0])]


def _stale(kernel: str) -> list[str]:
    lines = [line.strip() for line in kernel.splitlines()]
    made: dict[str, set[str]] = defaultdict(set)
    """The registers and parameters that a register is computed from."""
    for line in lines:
        found = _SETS.match(line)
        if found and found[1].startswith("ld.param"):
            made[found[2]] |= set(re.findall(r"\[(\w+)", found[3]))
        elif found and not found[1].startswith(("ld.", "atom.")):
            for register in _REGISTER.findall(found[2]):
                made[register] |= set(_REGISTER.findall(found[3]))
    pointers = set(re.findall(r"\.param \.u64 (\w+)", kernel))  # sizes have 32 bits
    accesses = [
        (found[1], _origins(found[2], made) & pointers, line) for line in lines if (found := _MEMORY.match(line))
    ]
    written = {name for op, names, _ in accesses if not op.startswith("ld.") for name in names}
    return [line for op, names, line in accesses if op.startswith("ld.global.nc") and names & written]


def _origins(address: str, made: dict[str, set[str]]) -> set[str]:
    """The parameters that an address is computed from."""
    seen: set[str] = set()
    stack = _REGISTER.findall(address)
    while stack:
        at = stack.pop()
        if at not in seen:
            seen.add(at)
            stack += made.get(at, ())
    return {name for name in seen if not name.startswith("%")}
