"""Memory that stays per build: `python -m benchmarks.build_memory [BUILDS]`.

Builds different small programs for each target in this process, drops them, and prints how much memory was gained.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import tilewright as tw
from tilewright import te

_WARM = 50


def build(number: int, target: str) -> None:
    """Build a program that no other number builds."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + float(number), name="B")
    s = te.create_schedule(b.op)
    if target != "llvm":
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    tw.build(s, [a, b], target=target)


def resident() -> int:
    """Kilobytes of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4


def main(builds: int) -> None:
    """Print a line for each target."""
    for target in ("llvm", "opencl", "cuda"):
        for number in range(_WARM):
            build(number, target)
        gc.collect()
        before = resident()
        for number in range(_WARM, _WARM + builds):
            build(number, target)
        gc.collect()
        print(f"{target:8} {(resident() - before) / builds:8.1f} KB per build")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
