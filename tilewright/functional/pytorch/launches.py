"""Launches of programs on the memory of PyTorch's tensors, with addresses passed directly to the compiled launchers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...runtime.device import Device
from ..arguments.call import OperatorCall
from ..programs.launcher import MISALIGNED
from ..programs.running import CpuProgram, GpuProgram, Program, failed
from .allocation import strided_allocator
from .threads import threads

if TYPE_CHECKING:
    from ..programs.cuda_kernels import LaunchAll
    from ..programs.executable import Executable

Run = Callable[..., Any]
raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)


def launch(program: Program, pointers: list[int], x: Any) -> None:
    """Run a program on the current stream of the device of `x`."""
    if isinstance(program, CpuProgram):
        program(pointers)
    elif starts(program, x)(pointers):
        program.kernels[0].failed(MISALIGNED, ())


def starts(program: GpuProgram, x: Any) -> Callable[[list[int]], int]:
    """Return a function that launches a program's kernels on the current stream of the GPU of `x`, and returns 0 or
    `MISALIGNED`."""
    if program.starts is None:
        program.starts = _on_current_stream(program.launch_all, program.program.scratch, x, program.index)
    return program.starts


def _on_current_stream(launch_all: LaunchAll, sizes: Sequence[int], x: Any, index: int) -> Callable[[list[int]], int]:
    """Return a function that launches kernels on the current stream, with scratch memory of these sizes.

    The memory comes from PyTorch's allocator, which separates CUDA graphs and streams.
    """
    spare = [strided_allocator(x, (size,), (1,), torch.uint8) for size in reversed(sizes)]
    stream = raw_stream
    if not spare:
        return lambda pointers: launch_all(pointers, (), stream(index))
    first = spare[0]

    def start_with_one(pointers: list[int]) -> int:
        held = first()
        return launch_all(pointers, (held.data_ptr(),), stream(index))

    def start(pointers: list[int]) -> int:
        held = [allocate() for allocate in spare]
        return launch_all(pointers, [a.data_ptr() for a in held], stream(index))

    return start_with_one if len(spare) == 1 else start


def starts_of(executable: Executable, x: Any, on: Device) -> Callable[[list[int]], int]:
    """Return a function that runs an executable on the device of `x`, and returns 0 or, on a GPU, `MISALIGNED`."""
    if on.kind != "cpu":
        return starts(GpuProgram(executable, on.index), x)
    program = CpuProgram(executable, threads())

    def start(pointers: list[int]) -> int:
        program(pointers)
        return 0

    return start


def direct(program: Program, on: Device, fresh: Callable[[], Any], call: OperatorCall, general: Run) -> Run | None:
    """Return the fastest executor of a call, which passes addresses directly to the compiled launcher."""
    if isinstance(program, CpuProgram):
        return _direct_on_cpu(program, fresh, general)
    kernel: Any = program.direct
    if kernel is None:
        return _direct_in_parts(program, fresh, call, general)
    index, stream = on.index, raw_stream

    # Two common forms take 0.33 and 0.39 µs of the host instead of 0.67 and 0.73. If a launch fails, `run` tries again.

    def run_plain(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        made = fresh()
        if kernel.start(x.data_ptr(), w.data_ptr(), made.data_ptr(), stream(index)):
            return run(x, w, bias, residual, out)
        return made

    def run_biased(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        made = fresh()
        if kernel.start(x.data_ptr(), w.data_ptr(), bias.data_ptr(), made.data_ptr(), stream(index)):
            return run(x, w, bias, residual, out)
        return made

    def run(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
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
    """Return the shortest path of a call with several kernels, or with one kernel and scratch memory."""
    start = starts(program, call.x)

    def run_plain(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        made = fresh()
        if start([x.data_ptr(), w.data_ptr(), made.data_ptr()]):
            return general(x, w, bias, residual, out)
        return made

    def run(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        made = fresh()
        if start([a.data_ptr() for a in (x, w, bias, residual, made) if a is not None]):
            return general(x, w, bias, residual, out)
        return made

    return run_plain if _is_plain(call) else run


def _is_plain(call: OperatorCall) -> bool:
    """Whether a call has no other tensors than x and a weight."""
    return call.weight is not None and call.bias is None and call.residual is None


def _direct_on_cpu(program: CpuProgram, fresh: Callable[[], Any], general: Run) -> Run | None:
    start: Any = program.direct_pointers
    if start is None:
        return None
    parallel, threads = program.program.parallel, program.threads

    def run(x: Any, w: Any = None, bias: Any = None, residual: Any = None, out: Any = None) -> Any:
        if parallel and not threads.ready:
            threads.start()
        made = fresh()
        if status := start(*[a.data_ptr() for a in (x, w, bias, residual, made) if a is not None]):
            if status != MISALIGNED:
                failed(status)
            return general(x, w, bias, residual, out)
        return made

    return run
