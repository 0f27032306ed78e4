"""`tilewright doctor --calibrate`: measure GPU rates that no data sheet states.

Nine small kernels, each bound by a single resource. They are an empty launch, loads from memory, from the L2 and the L1
cache, multiply-adds, barriers, many small blocks. Two are chains of loads, from memory and shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from ..core.architectures import NVIDIA
from ..core.errors import UserError
from ..driver import build
from ..loops import ir_builder
from ..runtime.array import array, empty
from ..runtime.device import Device
from ..schedule.handle import create_schedule
from ..te.extern import extern
from ..tensor.axis import thread_axis
from ..tensor.tensor import placeholder
from ..tune.model.machine import Rates

_REPETITIONS = 5
"""Repetitions of each measurement."""
_LEAST_MILLISECONDS = 10.0
"""The least milliseconds per repetition."""
_BLOCK_THREADS = 256
_BLOCKS_PER_MULTIPROCESSOR = 8
"""Threads per block, and blocks per multiprocessor, of kernels that fill the GPU."""
_LOADS_PER_THREAD = 16
"""Loads per thread of the kernels that read from the L2 cache and from memory."""
_SUMS_PER_THREAD = 8
"""Independent sums of the kernel of multiply-adds."""
_STEPS = 512
"""Multiply-adds per sum, and loads per thread from the L1 cache."""
_CHAINED_LOADS = 1024
"""Loads of a chain."""
_BARRIERS = 256
"""Steps, each of two barriers, of the kernel of barriers."""
_SMALL_BLOCKS_PER_MULTIPROCESSOR = 1024
"""Blocks of the kernel of many small blocks."""
_L2_BYTES = 1 << 24
_MEMORY_BYTES = 1 << 28
_L1_WORDS = 4096
"""Sizes of the data that fit the L2 cache, only memory, and the L1 cache."""
KERNELS = 9
"""Kernels that are built and timed, each for about a second."""


class _Bench:
    """Builds a kernel and times it; `step` is called for each kernel."""

    def __init__(self, on: Device, step: Callable[[], None]) -> None:
        self.on, self.step = on, step
        attributes = on.attributes
        self.processors = attributes.multi_processor_count
        architecture = NVIDIA.get(attributes.architecture)
        if architecture is None:
            raise UserError(
                f"{attributes.name} has compute version {attributes.compute_version}, and no data about it are known",
                primitive="calibrate",
                fix="do not calibrate it: the model uses the rates of the default GPU",
            )
        self.lanes = architecture.multiprocessor.float_lanes

    def seconds(self, body: Callable[..., None], blocks: int, threads: int, data: np.ndarray) -> float:
        """Return the time of a kernel with threads that run `body(builder, input, output, number of the thread)`."""

        def statement(ins: Any, outs: Any) -> Any:
            ib = ir_builder.create()
            block, thread = thread_axis("blockIdx.x"), thread_axis("threadIdx.x")
            ib.scope_attr(block, "thread_extent", blocks)
            ib.scope_attr(thread, "thread_extent", threads)
            body(ib, ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), block.var, thread.var)
            return ib.get()

        a = placeholder(data.shape, str(data.dtype), "A")
        b = extern((blocks * threads,), [a], statement, name="B", dtype=str(data.dtype))
        module = build(create_schedule(b.op), [a, b], self.on.kind)
        arrays = [array(data, self.on), empty((blocks * threads,), str(data.dtype), self.on)]
        timed = module.time_evaluator(
            module.entry_name, self.on, number=10, repeat=_REPETITIONS, min_repeat_ms=_LEAST_MILLISECONDS
        )
        found = float(timed(*arrays).median)
        self.step()
        return found


def calibrate(on: Device, step: Callable[[], None] = lambda: None) -> Rates:
    """Measure the rates of a device; `step` is called for each of `KERNELS` kernels."""
    bench = _Bench(on, step)
    many = bench.processors * _BLOCKS_PER_MULTIPROCESSOR
    ones = np.ones(32, np.float32)
    launch = bench.seconds(_copy, 1, 32, ones)
    busy = bench.seconds(_multiply, many, _BLOCK_THREADS, ones) - launch
    clock = many * _BLOCK_THREADS * _SUMS_PER_THREAD * _STEPS / (bench.processors * bench.lanes) / busy
    cycles = bench.processors * clock

    def read(size: int) -> float:
        blocks = size // (4 * _BLOCK_THREADS * _LOADS_PER_THREAD)
        spent = (
            bench.seconds(
                _read, blocks, _BLOCK_THREADS, np.ones(blocks * _BLOCK_THREADS * _LOADS_PER_THREAD, np.float32)
            )
            - launch
        )
        return blocks * _BLOCK_THREADS * _LOADS_PER_THREAD * 4 / spent / cycles

    again = bench.seconds(_read_again, many, _BLOCK_THREADS, np.ones(_L1_WORDS, np.float32)) - launch
    links = (np.arange(1 << 20, dtype=np.int64) + 32 * 1031) % (1 << 20)
    chain = bench.seconds(_chase, 1, 32, links.astype(np.int32)) - launch
    near = bench.seconds(_chase_shared, 1, 32, np.roll(np.arange(1024, dtype=np.int32), 33)) - launch
    meetings = bench.seconds(_meet, 1, _BLOCK_THREADS, np.ones(_BLOCK_THREADS, np.float32)) - launch
    small = (
        bench.seconds(_copy, bench.processors * _SMALL_BLOCKS_PER_MULTIPROCESSOR, 32, np.ones(32, np.float32)) - launch
    )
    shared_latency = near * clock / _CHAINED_LOADS
    return Rates(
        launch_seconds=launch,
        l2_latency_cycles=chain * clock / _CHAINED_LOADS,
        shared_latency_cycles=shared_latency,
        barrier_cycles=max(1.0, (meetings * clock / _BARRIERS - shared_latency) / 2),
        block_start_cycles=small * clock / _SMALL_BLOCKS_PER_MULTIPROCESSOR,
        l1_bytes_per_cycle=many * _BLOCK_THREADS * 4 * _STEPS / again / cycles,
        l2_bytes_per_cycle=read(_L2_BYTES),
        memory_bytes_per_cycle=read(_MEMORY_BYTES),
        l2_capacity_bytes=0.75 * on.attributes.l2_cache_bytes,
        clock_hertz=clock,
    )


# Kernels


def _copy(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    b[block * 32 + thread] = a[thread]


def _multiply(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    sums = ib.allocate("float32", (_SUMS_PER_THREAD,), "sums", scope="local")
    for k in range(_SUMS_PER_THREAD):
        sums[k] = a[(thread + k) % 32]
    with ib.for_range(0, _STEPS, "r"):
        for k in range(_SUMS_PER_THREAD):
            sums[k] = sums[k] * sums[k] + sums[k]
    total = sums[0]
    for k in range(1, _SUMS_PER_THREAD):
        total = total + sums[k]
    b[block * _BLOCK_THREADS + thread] = total


def _read(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    _sum(
        ib, a, b, block, thread, _LOADS_PER_THREAD, lambda r: (block * _LOADS_PER_THREAD + r) * _BLOCK_THREADS + thread
    )


def _read_again(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    _sum(ib, a, b, block, thread, _STEPS, lambda r: (r * 32 + thread) % _L1_WORDS)


def _sum(ib: Any, a: Any, b: Any, block: Any, thread: Any, steps: int, place: Callable[[Any], Any]) -> None:
    total = ib.allocate("float32", (1,), "total", scope="local")
    total[0] = 0.0
    with ib.for_range(0, steps // 16, "r") as r:
        for k in range(16):  # this many loads are in flight at once
            total[0] = total[0] + a[place(r * 16 + k)]
    b[block * _BLOCK_THREADS + thread] = total[0]


def _chase(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    at = ib.allocate("int32", (1,), "at", scope="local")
    at[0] = 0
    with ib.for_range(0, _CHAINED_LOADS, "r"):
        at[0] = a[at[0]]
    b[thread] = at[0]


def _chase_shared(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    links = ib.allocate("int32", (1024,), "links", scope="shared")
    at = ib.allocate("int32", (1,), "at", scope="local")
    with ib.for_range(0, 32, "k") as k:
        links[k * 32 + thread] = a[k * 32 + thread]
    at[0] = 0
    with ib.for_range(0, _CHAINED_LOADS, "r"):
        at[0] = links[at[0]]
    b[thread] = at[0]


def _meet(ib: Any, a: Any, b: Any, block: Any, thread: Any) -> None:
    row = ib.allocate("float32", (_BLOCK_THREADS,), "row", scope="shared")
    value = ib.allocate("float32", (1,), "value", scope="local")
    value[0] = a[thread]
    with ib.for_range(0, _BARRIERS, "r"):
        row[thread] = value[0]
        value[0] = row[(thread + 1) % _BLOCK_THREADS]
    b[thread] = value[0]


def described(rates: Rates) -> list[str]:
    """The rates, one line each."""
    return [f"{name:16} {value:.4g}" for name, value in asdict(rates).items()]
