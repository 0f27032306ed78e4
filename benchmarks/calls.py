"""The cost of a call from Python beyond the driver's own launch: `python -m benchmarks.calls [target ...]`.

One run times three calls in turns. The first is the driver's launch with packed arguments (`cuLaunchKernel` through
ctypes). The second is the call of a built module with all its checks, and the third the same operation in eager
PyTorch. Each figure is a time per call over bursts shorter than the launch queue, so that calls never wait for the GPU.
The device is idle when a burst begins. `--in-a-row` calls follow each other at the end: there the device sets the pace.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te
from tilewright.codegen.llvm.binding import PACKED
from tilewright.core.dtype import DType
from tilewright.report.table import Column, table
from tilewright.runtime import module as module_floor
from tilewright.runtime.array import NDArray, array, empty
from tilewright.runtime.cuda_calls import call as cuda_call
from tilewright.runtime.device import Device, device
from tilewright.runtime.llvm_link import link
from tilewright.runtime.module import Module

BURST, ROUNDS = 100, 60
Call = Callable[[], Any]


def addition(size: Any, target: str) -> Module:
    """C = A + B of vectors."""
    A, B = te.placeholder((size,), name="A"), te.placeholder((size,), name="B")
    C = te.compute((size,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8 if target == "llvm" else 128)
    if target == "llvm":
        s[C].vectorize(inner)
    else:
        s[C].bind(outer, te.thread_axis("blockIdx.x"))
        s[C].bind(inner, te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, B, C], target)


def raw_launch(module: Module, on: Device, arrays: list[NDArray], size: int) -> Call:
    """The driver's launch of the module's kernel, with everything that can be done before done before."""
    (kernel,) = module.program.kernels
    handles = [a.handle for a in arrays]
    if on.kind == "cuda":
        return _raw_cuda(module, kernel.name, handles, size)
    if on.kind == "opencl":
        return _raw_opencl(module, on, kernel.name, handles, size)
    held, found = link(module.program.binary or b"", [kernel.name + PACKED], {})
    packed = ctypes.create_string_buffer(struct.pack("=3Q", *map(int, handles)))
    function, where = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(found[kernel.name + PACKED]), ctypes.byref(packed)
    return lambda held=held: function(where)  # type: ignore[misc]  # keeps the code in memory


def _raw_cuda(module: Module, name: str, handles: list[Any], size: int) -> Call:
    loaded = cuda_call("cuModuleLoadData", module.program.binary)
    function = ctypes.c_void_p(int(cuda_call("cuModuleGetFunction", loaded, name.encode())))
    values = [ctypes.c_uint64(int(handle)) for handle in handles]
    params = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
    launch, stream = ctypes.CDLL("libcuda.so.1").cuLaunchKernel, ctypes.c_void_p(0)
    blocks = -(-size // 128)
    return lambda held=values: launch(function, blocks, 1, 1, 128, 1, 1, 0, stream, params, None)  # type: ignore[misc]


def _raw_opencl(module: Module, on: Device, name: str, handles: list[Any], size: int) -> Call:
    import pyopencl as cl

    at: Any = on.driver
    context, queue = at._at(on.index).context, at._at(on.index).queue
    kernel = cl.Kernel(cl.Program(context, module.program.source).build(), name)
    kernel.set_args(*handles)
    grid = (-(-size // 128) * 128, 1, 1)
    return lambda: cl.enqueue_nd_range_kernel(queue, kernel, grid, (128, 1, 1))


def host_code_only(module: Module, arrays: list[NDArray]) -> Call:
    """The call up to the launch: checks and look-ups, without the driver."""
    kept = module_floor._load
    module_floor._load = lambda program, on: {k.name: lambda *_: None for k in program.kernels}
    try:
        again = Module(module.program)
        again(*arrays)
    finally:
        module_floor._load = kept
    return lambda: again(*arrays)


def torch_add(on: Device, arrays: list[NDArray]) -> Call | None:
    """PyTorch's addition of the same arrays, if it is installed for that device."""
    if on.kind == "opencl":
        return None
    try:
        import torch
    except ImportError:
        return None
    if on.kind == "cuda" and not torch.cuda.is_available():
        return None
    a, b, c = (torch.from_dlpack(x) for x in arrays)
    torch.add(a, b, out=c)
    return lambda: torch.add(a, b, out=c)


def bursts(calls: dict[str, Call], on: Device) -> dict[str, list[float]]:
    """Seconds per call of each, burst by burst, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            on.sync()
            began = time.perf_counter()
            for _ in range(BURST):
                call()
            found[name].append((time.perf_counter() - began) / BURST)
    on.sync()
    return found


def in_a_row(call: Call, on: Device, number: int) -> float:
    """Seconds per call of many, the device's work included."""
    on.sync()
    began = time.perf_counter()
    for _ in range(number):
        call()
    on.sync()
    return (time.perf_counter() - began) / number


def measure(kind: str, size: int, number: int) -> list[str]:
    """The lines of one target's table."""
    on = device(kind).require()
    x = np.arange(size, dtype="float32")
    arrays = [array(x, on), array(x, on), empty((size,), DType("float32"), on)]
    static, symbolic = addition(size, kind), addition(te.size_var("n"), kind)
    for built in (static, symbolic):
        built(*arrays)
        np.testing.assert_array_equal(arrays[2].numpy(), x + x)
    calls: dict[str, Call] = {
        "raw launch": raw_launch(static, on, arrays, size),
        "call, static sizes": lambda: static(*arrays),
        "call, symbolic sizes": lambda: symbolic(*arrays),
        "host code alone": host_code_only(static, arrays),
    }
    if (eager := torch_add(on, arrays)) is not None:
        calls["PyTorch eager"] = eager
    found = bursts(calls, on)
    raw = statistics.median(found["raw launch"])
    rows = []
    for name, times in found.items():
        middle = statistics.median(times)
        over = "" if name in ("raw launch", "host code alone") else f"{(middle - raw) * 1e6:+.2f}"
        row = in_a_row(calls[name], on, number)
        rows.append([name, f"{middle * 1e6:.2f}", f"{min(times) * 1e6:.2f}", over, f"{row * 1e6:.2f}"])
    heads = ["median, µs", "best, µs", "over raw, µs", f"{number:,} in a row, µs"]
    columns = [Column("", right=False), *map(Column, heads)]
    return [f"{kind}: {on.name}, three arrays of {size:,} float32", *table(columns, rows), ""]


def main() -> None:
    """Measure every present target, or the named ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", default=["cuda", "opencl", "llvm"])
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--in-a-row", type=int, default=5000)
    chosen = parser.parse_args()
    for kind in chosen.targets:
        if device(kind).exist:
            print("\n".join(measure(kind, chosen.size, chosen.in_a_row)))
        else:
            print(f"{kind}: {device(kind).driver.why_not()}\n")


if __name__ == "__main__":
    main()
