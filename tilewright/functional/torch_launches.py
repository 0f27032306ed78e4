"""Launches of programs on the memory of PyTorch's tensors: addresses straight into the compiled launchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..runtime.device import Device
from .call import OperatorCall
from .launcher import MISALIGNED
from .running import CpuProgram, GpuProgram, Program, failed
from .torch_allocation import strided_allocator

Run = Callable[[Any, Any, Any, Any, Any], Any]
raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)


def launch(program: Program, pointers: list[int], x: Any) -> None:
    """Run a program on the current stream of the device of `x`."""
    if isinstance(program, CpuProgram):
        program(pointers)
    elif starts(program, x)(pointers):
        program.kernels[0].failed(MISALIGNED, ())


def starts(program: GpuProgram, x: Any) -> Callable[[list[int]], int]:
    """Return the launch of a program's kernels on the current stream of the GPU of `x`: 0, or `MISALIGNED`.

    Memory between its kernels is PyTorch's, which keeps that of each CUDA graph and each stream apart.
    """
    found: Callable[[list[int]], int] | None = program.starts
    if found is not None:
        return found
    index, stream = program.index, raw_stream
    spare = [strided_allocator(x, (size,), (1,), torch.uint8) for size in program.program.scratch]

    def start(pointers: list[int]) -> int:
        held = [allocate() for allocate in spare]
        places = [*pointers, *[a.data_ptr() for a in reversed(held)]]  # the argument -1 is the first piece
        for kernel in program.kernels:
            addresses = *[places[a] for a in kernel.arguments], stream(index)
            if status := kernel.start(*addresses):
                if status == MISALIGNED:
                    return MISALIGNED
                kernel.failed(status, addresses)
        return 0

    program.starts = start
    return start


def direct(program: Program, on: Device, fresh: Callable[[], Any], call: OperatorCall, general: Run) -> Run | None:
    """Return the shortest path: addresses straight into the compiled launcher."""
    if isinstance(program, CpuProgram):
        return _direct_on_cpu(program, fresh, general)
    kernel: Any = program.direct
    if kernel is None:
        return _direct_in_parts(program, fresh, call, general)
    index, stream = on.index, raw_stream

    def run_plain(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        made = fresh()
        if status := kernel.start(x.data_ptr(), w.data_ptr(), made.data_ptr(), stream(index)):
            if status == MISALIGNED:
                return general(x, w, bias, residual, out)
            kernel.failed(status, (x.data_ptr(), w.data_ptr(), made.data_ptr(), stream(index)))
        return made

    def run_biased(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        made = fresh()
        if status := kernel.start(x.data_ptr(), w.data_ptr(), bias.data_ptr(), made.data_ptr(), stream(index)):
            if status == MISALIGNED:
                return general(x, w, bias, residual, out)
            kernel.failed(status, (x.data_ptr(), w.data_ptr(), bias.data_ptr(), made.data_ptr(), stream(index)))
        return made

    def run(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        made = fresh()
        addresses = *[a.data_ptr() for a in (x, w, bias, residual, made) if a is not None], stream(index)
        if status := kernel.start(*addresses):
            if status == MISALIGNED:
                return general(x, w, bias, residual, out)
            kernel.failed(status, addresses)
        return made

    if call.weight is None or call.residual is not None:
        return run
    return run_plain if call.bias is None else run_biased


def _direct_in_parts(program: GpuProgram, fresh: Callable[[], Any], call: OperatorCall, general: Run) -> Run:
    """Return the same for several kernels, or for one with memory of its own."""
    start = starts(program, call.x)

    def run(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        made = fresh()
        if start([a.data_ptr() for a in (x, w, bias, residual, made) if a is not None]):
            return general(x, w, bias, residual, out)
        return made

    return run


def _direct_on_cpu(program: CpuProgram, fresh: Callable[[], Any], general: Run) -> Run | None:
    start: Any = program.direct_pointers
    if start is None:
        return None
    parallel, threads = program.program.parallel, program.threads

    def run(x: Any, w: Any, bias: Any, residual: Any, out: Any) -> Any:
        if parallel and not threads.ready:
            threads.start()
        made = fresh()
        if status := start(*[a.data_ptr() for a in (x, w, bias, residual, made) if a is not None]):
            if status != MISALIGNED:
                failed(status)
            return general(x, w, bias, residual, out)
        return made

    return run
