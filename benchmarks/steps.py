"""The gain of the compiler's own steps, and of two storage options, on a GPU: python -m benchmarks.steps

Each program is built with fills of shared memory spread over threads, loaded ahead, both, and neither. All variants are
checked against each other, and timed in turns in one process, so that ratios are meaningful.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conv2d_hwcn
import tune_conv2d  # noqa: F401  # defines the template

import tilewright as tw
from tilewright import autotvm, te
from tilewright.ladder.conv1d import Conv1dLadder, v1
from tilewright.transform import PassContext

LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
SMALL = (1, 7, 7, 32, 32, 3, 3, (1, 1), (1, 1))
SEARCHED = 7841295
"""The index of the best configuration of LAYER that searches found on the H200."""
STEPS = {
    "neither": ["cooperative_fetch", "register_prefetch"],
    "spread": ["register_prefetch"],
    "ahead": ["cooperative_fetch"],
    "both": [],
}
ROUNDS = 5

Program = tuple[Any, list[Any]]


def transpose(kind: str, n: int) -> Program:
    """B = A transposed, n × n: "direct", through a "tile" of 32 × 32 in shared memory, or one with "padded" rows."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B]) if kind != "direct" else None
    y, x, row, column = s[B].tile(*B.op.axis, 32, 32)
    s[B].bind(y, te.thread_axis("blockIdx.y"))
    s[B].bind(x, te.thread_axis("blockIdx.x"))
    stages = [(s[B], (row, column))]
    if tile is not None:
        s[tile].compute_at(s[B], x)
        stages.append((s[tile], tuple(s[tile].op.axis)))
    for stage, (outer, inner) in stages:
        stage.bind(outer, te.thread_axis("threadIdx.y"))
        stage.bind(inner, te.thread_axis("threadIdx.x"))
    if kind == "padded":
        s[tile].storage_align(s[tile].op.axis[0], 32, 1)
    return s, [A, B]


def in_a_register(terms: int, m: int) -> Program:
    """The guide's 1-D convolution of m values: 32 threads, the sum in a register, `terms` written out at a time.

    1 of them is its step 4, 8 and 32 are its step 7.
    """
    program = v1(Conv1dLadder(M=m, N=32))
    s, B = program.schedule, program.args[-1]
    total = s.cache_write(B, "local")
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[B], thread)
    if terms > 1:
        _, inner = s[total].split(total.op.reduce_axis[0], factor=terms)
        s[total].unroll(inner)
    return s, list(program.args)


def doubled(p: conv2d_hwcn.Problem) -> Program:
    """The last step of the HWCN example with two copies of both shared tiles."""
    s, *args = conv2d_hwcn.vector(p)
    for stage in s.stages:
        if stage.op.name.endswith(".shared"):
            stage.double_buffer()
    return s, list(args)


def programs(small: bool) -> dict[str, Program]:
    """The programs that fill shared memory in loops, by name; `small` for a CPU."""
    p = conv2d_hwcn.Problem(batch=64, in_channel=16, out_channel=64, size=4) if small else conv2d_hwcn.Problem()
    found: dict[str, Program] = {}
    ladder = Conv1dLadder(M=1024, N=32) if small else Conv1dLadder()
    for rung in ladder.rungs:
        if rung.name in ("v4", "v5"):
            made = rung.make(ladder)
            found[f"conv1d {rung.name}"] = made.schedule, list(made.args)
    for step in (conv2d_hwcn.shared, conv2d_hwcn.virtual, conv2d_hwcn.vector):
        s, *args = step(p)
        found[f"HWCN, step {step.__name__!r}"] = s, list(args)
    found["HWCN, tiles double-buffered"] = doubled(p)
    task = autotvm.task.create("examples/conv2d", args=SMALL if small else LAYER, target="opencl" if small else "cuda")
    with tw.target.Target("opencl" if small else "cuda"):
        s, args = task.instantiate(task.config_space.get(0 if small else SEARCHED))
    found["conv2d, found by searching"] = s, list(args)
    return found


def times(modules: Mapping[str, Any], args: list[Any], dev: Any) -> dict[str, float]:
    """Seconds of each module's kernel, measured in turns; raises AssertionError if their answers differ."""
    rng = np.random.default_rng(0)
    shapes = [[int(e) for e in t.shape] for t in args]
    arrays = [tw.nd.array(rng.uniform(-1, 1, shape).astype("float32"), dev) for shape in shapes]
    first: np.ndarray | None = None
    for module in modules.values():
        arrays[-1].copyfrom(np.full(shapes[-1], np.nan, "float32"))
        module(*arrays)
        answer = arrays[-1].numpy()
        first = answer if first is None else first
        np.testing.assert_allclose(answer, first, rtol=1e-3, atol=1e-3)
    found: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(ROUNDS):
        for name, module in modules.items():
            result = module.time_evaluator(module.entry_name, dev, number=20, repeat=5, min_repeat_ms=3)(*arrays)
            found[name].append(result.median)
    return {name: statistics.median(each) for name, each in found.items()}


def main() -> None:
    """Print the three tables."""
    dev = tw.cuda() if tw.cuda().exist else tw.opencl()
    small = dev.kind != "cuda"
    print(f"fills of shared memory, on {dev.name}; µs, registers in brackets\n")
    print(f"{'program':30}" + "".join(f"{name:>18}" for name in STEPS) + f"{'neither / both':>16}")
    for title, (s, args) in programs(small).items():
        modules = {}
        for name, without in STEPS.items():
            with PassContext(disabled_pass=without):
                modules[name] = tw.build(s, args, dev.kind)
        found = times(modules, args, dev)
        cells = (f"{found[name] * 1e6:.2f} [{_registers(modules[name])}]" for name in STEPS)
        print(f"{title:30}" + "".join(f"{cell:>18}" for cell in cells) + f"{found['neither'] / found['both']:16.2f}")
    m = 1024 if small else 16384
    print(f"\nconv1d of {m} values with 32 weights, 32 threads, the sum in a register\n")
    modules = {f"{terms} terms": tw.build(*in_a_register(terms, m), dev.kind) for terms in (1, 8, 32)}
    for kind, seconds in times(modules, in_a_register(1, m)[1], dev).items():
        print(f"{kind:10} {seconds * 1e6:8.2f} µs")
    n = 256 if small else 4096
    print(f"\ntranspose of {n} × {n} float32\n")
    modules = {kind: tw.build(*transpose(kind, n), dev.kind) for kind in ("direct", "tile", "padded")}
    for kind, seconds in times(modules, transpose("direct", n)[1], dev).items():
        print(f"{kind:10} {seconds * 1e6:8.1f} µs {8 * n * n / seconds / 1e9:8.0f} GB/s read and written")


def _registers(module: Any) -> str:
    return str(next((r.registers for r in module.resources.values()), "–"))


if __name__ == "__main__":
    main()
