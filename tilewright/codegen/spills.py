"""Needless spills: a kernel that spills although registers are left is compiled again, for one block at a time.

ptxas aims at several blocks per multiprocessor. It may give a thread 32 registers and spill thousands of bytes,
although more registers were free. A second operand of `__launch_bounds__` takes that aim away.

A schedule may have set that operand for a body that needs fewer registers, such as a layer with another activation. A
limit under which a kernel spills is halved, and then dropped, if that ends the spills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..core.hardware import Hardware
from .abi import Resources
from .nvrtc import CompiledSource

_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)( \w+\()")
_LIMITED = re.compile(r"__launch_bounds__\((\d+), (\d+)\)( \w+\()")
_WORTHWHILE = 64
"""The least bytes of spills per thread for which another compilation pays: fewer are hidden behind other work."""
_FEW = 0.5
"""The largest share of a thread's registers in use that shows that ptxas limited a kernel on purpose."""


def without_needless_spills(
    source: str, code: CompiledSource, hardware: Hardware, compiled: Callable[[str], CompiledSource]
) -> tuple[str, CompiledSource]:
    """Compile again if kernels spill needlessly; return the source and the code that spill less."""
    source, code = _without_limits(source, code, compiled)
    crowded = {name for name, found in code.resources.items() if found.spill_store_bytes >= _WORTHWHILE}
    if not crowded:
        return source, code

    def asking(match: re.Match[str]) -> str:
        threads, rest = int(match[1]), match[2]
        name = rest[1:-1]
        if name not in crowded or code.resources[name].registers > _FEW * _allowed(threads, hardware):
            return match[0]
        return f"__launch_bounds__({threads}, 1){rest}"

    changed = _BOUNDS.sub(asking, source)
    if changed == source:
        return source, code
    again = compiled(changed)
    return (changed, again) if _spilled(again.resources) < _spilled(code.resources) else (source, code)


def _without_limits(
    source: str, code: CompiledSource, compiled: Callable[[str], CompiledSource]
) -> tuple[str, CompiledSource]:
    """Halve, then drop, the limits of kernels that spill under them."""
    for lower in (lambda blocks: blocks // 2, lambda blocks: 1):
        spilling = {name for name, found in code.resources.items() if found.spill_store_bytes >= _WORTHWHILE}

        def asking(match: re.Match[str], spilling: set[str] = spilling, lower: Callable[[int], int] = lower) -> str:
            threads, blocks, rest = int(match[1]), int(match[2]), match[3]
            if blocks == 1 or rest[1:-1] not in spilling:
                return match[0]
            return f"__launch_bounds__({threads}, {lower(blocks)}){rest}"

        changed = _LIMITED.sub(asking, source)
        if changed == source:
            break
        again = compiled(changed)
        if _spilled(again.resources) < _spilled(code.resources):
            source, code = changed, again
    return source, code


def _allowed(threads: int, hardware: Hardware) -> int:
    """Registers of a thread if a block has a multiprocessor for itself."""
    warps = -(-threads // hardware.warp)
    share = hardware.multiprocessor.registers // (warps * hardware.warp) // 8 * 8
    return min(hardware.registers_per_thread, share)


def _spilled(resources: Mapping[str, Resources]) -> int:
    return sum(found.spill_store_bytes + found.spill_load_bytes for found in resources.values())
