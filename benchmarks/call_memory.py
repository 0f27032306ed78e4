"""Memory that stays per size of a call: `python -m benchmarks.call_memory [SIZES] [--gpu]`.

Depthwise layers of float32, each of another size, are called once in this process. Kernels stay loaded until it ends:
on a GPU, graphs that captured a call may launch them at any time. Sizes differ in the batch alone, so that some of
them share machine code, or in the channels, so that none does.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright.functional.programs import cuda_kernels, running
from tilewright.report.table import Column, table
from tilewright.runtime.array import empty
from tilewright.runtime.device import Device, cpu, cuda

_WARM = 20
Shape = tuple[int, int, int, int]
SIZES: dict[str, Callable[[int], Shape]] = {
    "batches": lambda number: (number, 32, 15, 13),
    "channels": lambda number: (1, number, 15, 14),
}


def called(shape: Shape, on: Device) -> None:
    """Make one call, on arrays that are freed after it."""
    if on.kind == "cpu":
        tw.conv2d(np.zeros(shape, "float32"), np.zeros((shape[1], 1, 3, 3), "float32"), padding=1, groups=shape[1])
        return
    x, w = empty(shape, device=on), empty((shape[1], 1, 3, 3), device=on)
    tw.conv2d(x, w, padding=1, groups=shape[1])
    on.sync()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4096


def occupied(on: Device) -> int:
    """Bytes of a GPU that are in use; 0 for the CPU."""
    if on.kind == "cpu":
        return 0
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with cuda_kernels.Current(on.index):
        cuda_kernels.library().cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return total.value - free.value


def rows(sizes: int, on: Device) -> Iterator[list[str]]:
    """Yield a row for each way in which sizes differ."""
    for name, shape_of in SIZES.items():
        for number in range(1, _WARM + 1):
            called(shape_of(number), on)
        gc.collect()
        before = resident(), occupied(on), len(running._programs)
        for number in range(_WARM + 1, _WARM + 1 + sizes):
            called(shape_of(number), on)
        gc.collect()
        gained = resident() - before[0], occupied(on) - before[1], len(running._programs) - before[2]
        parts = gained[: 1 + (on.kind == "cuda")]
        yield [name, str(gained[2]), *(f"{part / sizes / 1024:.1f}" for part in parts)]


def main(arguments: list[str]) -> None:
    """Print the table."""
    on = cuda().require() if "--gpu" in arguments else cpu()
    sizes = next((int(word) for word in arguments if word.isdecimal()), 300)
    columns = [Column("sizes differ in", right=False), Column("programs"), Column("host, KiB each")]
    columns += [Column("GPU, KiB each")] if on.kind == "cuda" else []
    print("\n".join(table(columns, [*rows(sizes, on)])))


if __name__ == "__main__":
    main(sys.argv[1:])
