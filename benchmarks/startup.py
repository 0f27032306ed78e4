"""The time to the first result: imports, known kernels, and compiling: `python -m benchmarks.startup`.

Imports run in fresh processes, in turns. Programs are built from fresh schedules under new names, so that no cache
knows them; the compiler's own modules are loaded before.
"""

from __future__ import annotations

import itertools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import tilewright as tw
from tilewright import te
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.report.table import Column, table
from tilewright.runtime.array import empty
from tilewright.runtime.device import device

STATEMENTS = (
    "import numpy",
    "import tilewright",
    "from tilewright import te",
    "from tilewright.runtime import load_module",
    "from tilewright.driver import build",
)
ROUNDS = 9
Make = Callable[[str], tuple[Any, list[Any]]]
_names = itertools.count()


def import_seconds(statement: str) -> float:
    """How long a statement takes in a fresh process."""
    script = f"import time\nbegan = time.perf_counter()\n{statement}\nprint(time.perf_counter() - began)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout)


def imports() -> list[str]:
    """The table of imports."""
    found: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(ROUNDS):
        for statement, times in found.items():
            times.append(import_seconds(statement))
    rows = [[name, *(f"{t * 1e3:.0f}" for t in (statistics.median(ts), min(ts)))] for name, ts in found.items()]
    return table([Column("statement", right=False), Column("median, ms"), Column("best, ms")], rows)


_KNOWN = """
import sys, time
{arrays}
began = time.perf_counter()
import tilewright
tilewright.depthwise_conv2d(x, w, padding=1)
{wait}
print(time.perf_counter() - began)
"""
ARRAYS = {
    "NumPy": (
        "import numpy.random as r; x, w = (r.rand(*s).astype('f') for s in ((1, 32, 28, 28), (32, 1, 3, 3)))",
        "",
    ),
    "PyTorch, CUDA": (
        "import torch; x, w = (torch.rand(s, device='cuda') for s in ((1, 32, 28, 28), (32, 1, 3, 3))); "
        "torch.cuda.synchronize()",
        "torch.cuda.synchronize()",
    ),
}


def known_kernel_seconds(arrays: str) -> list[float]:
    """Seconds of `import tilewright` and a call on `arrays`, in fresh processes; none if these are missing.

    Python may write bytecode, as an installer does: without it, each process compiles the sources again.
    """
    prepared, wait = ARRAYS[arrays]
    script = [sys.executable, "-c", _KNOWN.format(arrays=prepared, wait=wait)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = [subprocess.run(script, capture_output=True, text=True, env=env) for _ in range(ROUNDS + 1)]
    return [float(one.stdout) for one in done[1:]] if all(one.returncode == 0 for one in done) else []


def known_kernel() -> list[str]:
    """The table of a kernel that lies on disk: `import tilewright` and the first call, in fresh processes."""
    found = {name: known_kernel_seconds(name) for name in ARRAYS}
    rows = [
        [name, f"{statistics.median(times) * 1e3:.0f}", f"{min(times) * 1e3:.0f}"]
        for name, times in found.items()
        if times
    ]
    columns = [Column("a known kernel's first call on", right=False), Column("median, ms"), Column("best, ms")]
    return table(columns, rows)


_LOOKUPS = """
import time
from tilewright.core.target import Target
from tilewright.functional.planning import compiler, rivals, shipped
from tilewright.functional.arguments.problem import CONV, Problem
layer = Problem(CONV, (1, 192, 28, 28), 192, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 192, "float32", "NCHW")
target = Target("cuda -arch=sm_90")
able, workload = compiler.strategies_of(layer, target)
known = lambda: [one for one in rivals.table() if not one.device.startswith("cpu")]
for run in (
    rivals.table, lambda: rivals.reason_on_gpu(layer, known()),
    lambda: shipped.record_of(able[-1], workload, target), lambda: compiler.default_selection(layer, target),
):
    began = time.process_time()
    run()
    print(time.process_time() - began)
"""


def lookups() -> list[str]:
    """The table of a new process's look-ups for the first layer that is not on disk, in processor time."""
    script = [sys.executable, "-c", _LOOKUPS]
    runs = [subprocess.run(script, capture_output=True, text=True, check=True) for _ in range(ROUNDS)]
    found = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    names = ("reading the table of rivals", "deciding", "reading the records", "a configuration")
    rows = [
        [n, *(f"{t * 1e3:.1f}" for t in (statistics.median(ts), min(ts)))] for n, ts in zip(names, found, strict=True)
    ]
    return table([Column("lookup", right=False), Column("median, ms"), Column("best, ms")], rows)


def addition(target: str) -> tuple[Any, list[Any]]:
    """C = A + B of vectors."""
    A, B = te.placeholder((4096,), name="A"), te.placeholder((4096,), name="B")
    C = te.compute((4096,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    if target != "llvm":
        outer, inner = s[C].split(C.op.axis[0], factor=128)
        s[C].bind(outer, te.thread_axis("blockIdx.x"))
        s[C].bind(inner, te.thread_axis("threadIdx.x"))
    return s, [A, B, C]


def rung(ladder: Any, name: str) -> Make:
    """The last program of a ladder, for a GPU; for the CPU the first one, which binds nothing."""

    def make(target: str) -> tuple[Any, list[Any]]:
        (chosen,) = ladder.choose([name])
        program = chosen.make(ladder)
        return program.schedule, list(program.args)

    return make


PROGRAMS: dict[str, Make] = {
    "C = A + B": addition,
    "conv1d, v5": rung(Conv1dLadder(), "v5"),
    "depthwise, v4": rung(DepthwiseLadder(), "v4"),
}


def stages(make: Make, target: str) -> tuple[float, float, float]:
    """Seconds to lower, to generate and compile, and to the end of a first call (0 if no device is present)."""
    schedule, args = make(target)
    name = f"program_{os.getpid()}_{next(_names)}"
    began = time.perf_counter()
    lowered = tw.lower(schedule, args, name=name)
    middle = time.perf_counter()
    module = tw.build(lowered, target=target)
    built = time.perf_counter()
    on = device(target)
    if not on.exist:
        return middle - began, built - middle, 0.0
    arrays = [empty([int(extent) for extent in tensor.shape], tensor.dtype, on) for tensor in args]
    before = time.perf_counter()
    module(*arrays)
    on.sync()
    return middle - began, built - middle, time.perf_counter() - before


def compiling() -> list[str]:
    """The table of builds."""
    rows = []
    for target in ("cuda", "opencl", "llvm"):
        for name, make in PROGRAMS.items():
            if target == "llvm" and make is not addition:
                continue  # bound to GPU threads
            stages(make, target)
            found = [stages(make, target) for _ in range(ROUNDS)]
            middles = [statistics.median(times) * 1e3 for times in zip(*found, strict=True)]
            rows.append([target, name, *(f"{m:.1f}" if m else "–" for m in middles)])
    heads = [Column("target", right=False), Column("program", right=False)]
    return table([*heads, Column("lower, ms"), Column("compile, ms"), Column("first call, ms")], rows)


def main() -> None:
    """Print the tables."""
    print("\n".join([*imports(), "", *known_kernel(), "", *lookups(), "", *compiling()]))


if __name__ == "__main__":
    main()
