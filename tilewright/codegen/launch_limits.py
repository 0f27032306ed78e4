"""Limits of launches with extents known only at the call; `limits.py` checks constant extents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..core.hardware import HARDWARE_TAGS, Hardware, ThreadTag
from ..core.occupancy import occupancy
from ..core.target import Target
from ..expr.traverse import constant_value
from ..loops.walk import stored_stages
from .abi import EntryPoint, LaunchFact, Resources
from .kernel import Kernel

_OF_BLOCK = "threads per block"


@dataclass(frozen=True)
class LaunchLimit:
    """A limit, and the indices, among blocks x, y, z and threads x, y, z, of the extents with the bounded product."""

    fact: LaunchFact
    places: tuple[int, ...]


def launch_limits(kernel: Kernel, target: Target) -> tuple[LaunchLimit, ...]:
    """The limits that each launch of a kernel is compared with: limits on extents that are not constant."""
    if not target.is_gpu:
        return ()
    hardware, stages = target.hardware, stored_stages(kernel.launch.body)
    found: list[LaunchLimit] = []

    def add(suffix: str, what: str, allowed: int, places: tuple[int, ...]) -> None:
        fact = LaunchFact(f"{kernel.name}_{suffix}", kernel.name, what, allowed, stages)
        found.append(LaunchLimit(fact, places))

    for place, (tag, extent) in enumerate(zip(HARDWARE_TAGS, (*kernel.grid, *kernel.block), strict=True)):
        if constant_value(extent) is None:
            level = hardware.grid if tag.is_block else hardware.block
            if tag is not ThreadTag.BLOCK_X and (tag.is_block or level.extents[tag.dimension] < level.threads):
                add(tag.value.replace(".", "_"), tag.value, level.extents[tag.dimension], (place,))
    if kernel.threads is None:
        add("threads", _OF_BLOCK, hardware.block.threads, (3, 4, 5))
    return tuple(found)


def within_registers(entry: EntryPoint, resources: Mapping[str, Resources], hardware: Hardware) -> EntryPoint:
    """Return the entry with lower limits of threads per block, if the registers of the kernels require them."""
    limits = []
    for fact in entry.limits:
        used = resources[fact.kernel].registers if fact.what == _OF_BLOCK and fact.kernel in resources else 0
        most = _most_threads(hardware, used) if used else fact.allowed
        limits.append(replace(fact, allowed=most, registers=used) if most < fact.allowed else fact)
    return replace(entry, limits=tuple(limits)) if entry.limits else entry


def _most_threads(hardware: Hardware, registers: int) -> int:
    """Return the threads of the largest block that fits into the registers of a multiprocessor."""
    warps = hardware.block.threads // hardware.warp
    while warps > 1 and occupancy(hardware, warps * hardware.warp, registers, 0).blocks == 0:
        warps -= 1
    return warps * hardware.warp
