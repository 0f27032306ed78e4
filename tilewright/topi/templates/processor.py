"""The vector registers of the target's processor. A tile of sums must fit in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...codegen.llvm.compile import host_processor
from ...core.architectures import processor_hardware
from ...core.hardware import Hardware
from ...core.target import Target
from ...runtime.device import cpu
from .workload import sum_dtype


def processor_of(target: Target) -> Hardware:
    """Return the processor of a target; this machine's if the target names none."""
    if target.kind == "llvm" and not {"mcpu", "mattr", "mtriple"} & set(dict(target.labels)):
        here = host_processor()
        return processor_hardware(here.cpu, here.features)
    return target.hardware


@dataclass(frozen=True)
class VectorRegisters:
    """The number of vector registers, and the bytes of each."""

    number: int
    bytes: int

    def lanes(self, dtype: str) -> int:
        """Return the number of sums per register for products of a type."""
        return self.bytes // (8 if sum_dtype(dtype) == "float64" else 4)

    def room(self, dtype: str) -> int:
        """Return the most sums per tile: as many as half of the registers hold."""
        return self.number * self.lanes(dtype) // 2

    @staticmethod
    def of(target: Target) -> VectorRegisters:
        """Return the properties of a target's processor, by `processor_of`."""
        row = processor_of(target)
        lanes = row.vector_bytes // 4
        return VectorRegisters(row.multiprocessor.registers // lanes, row.vector_bytes)


def instruction_set() -> str:
    """Return the widest instructions of this machine that convolutions use: AVX2, AVX-512 or AMX."""
    here = host_processor()
    if "+amx-bf16" in here.features.split(","):
        return "AMX"
    return "AVX-512" if VectorRegisters.of(Target("llvm")).bytes == AVX512.bytes else "AVX2"


AVX512 = VectorRegisters(32, 64)
"""The defaults for an unknown processor."""


@cache
def cache_bytes() -> int:
    """Return the bytes of the largest cache of this machine's processor; 0 if the system does not report it."""
    return cpu().attributes.last_cache_bytes


def exceeds_caches(size: int) -> bool:
    """Whether `size` bytes exceed the caches of this machine."""
    return 0 < cache_bytes() < size
