"""Memory and time of many builds: `python -m benchmarks.build_memory [BUILDS]`.

Builds different small programs for each target in this process, and drops them. Prints the memory and the time of each,
and the memory of the process afterwards. On the CPU, also with one call of each program, which links its code. Then one
build of many outputs, for a CPU and a GPU: the time of each must not grow.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te

_WARM = 150
"""Builds before the first measurement: more than the caches of the compiler hold."""
_OUTPUTS = (50, 100, 200, 400, 800)


def build(number: int, target: str) -> Any:
    """Build a program that no other number builds."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + float(number), name="B")
    s = te.create_schedule(b.op)
    if target != "llvm":
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, b], target=target)


def resident() -> int:
    """Kilobytes of this process."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * 4


def build_outputs(count: int, target: str) -> Any:
    """Build one function of `count` outputs."""
    a = te.placeholder((64,), name="A")
    outputs = [te.compute((64,), lambda i, k=k: a[i] + float(k), name=f"B{k}") for k in range(count)]
    s = te.create_schedule([b.op for b in outputs])
    for b in outputs if target in ("opencl", "cuda") else ():
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, *outputs], target=target)


def main(builds: int) -> None:
    """Print a line for each target, and one for each number of outputs."""
    x = tw.nd.array(np.zeros(64, "float32"))
    for target, called in (("llvm", False), ("llvm", True), ("opencl", False), ("cuda", False)):
        first = 10**6 * called

        def one(number: int, target: str = target, called: bool = called, first: int = first) -> None:
            module = build(first + number, target)
            if called:
                module(x, x)

        for number in range(_WARM):
            one(number)
        gc.collect()
        before, start = resident(), time.perf_counter()
        for number in range(_WARM, _WARM + builds):
            one(number)
        seconds = time.perf_counter() - start
        gc.collect()
        after = resident()
        print(
            f"{target + (', called' if called else ''):14} {(after - before) / builds:8.1f} KB and "
            f"{seconds / builds * 1e3:6.1f} ms per build; {after / 1024:.0f} MiB afterwards"
        )
    for target in ("llvm", "opencl"):
        for count in _OUTPUTS:
            start = time.perf_counter()
            build_outputs(count, target)
            seconds = time.perf_counter() - start
            print(f"{target:8} {count:5} outputs {seconds:7.2f} s, {seconds / count * 1e3:6.1f} ms each")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
