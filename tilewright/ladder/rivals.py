"""The other rows of the table: NumPy, and PyTorch if it is installed, on the same input and checked alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..runtime.cpu_driver import timer_of
from ..runtime.device import Device
from .climb import SECONDS_EACH, RungOutcome, plan
from .trial import CheckedProblem

Timer = Callable[[int], float]
"""Returns the seconds that a number of runs take together."""


def numpy_row(trial: CheckedProblem, repeat: int) -> RungOutcome:
    """NumPy on the host, in the type of the problem's sums."""
    data, weight = trial.of_host()

    def call() -> np.ndarray:
        return trial.problem.numpy(data, weight)

    began = time.perf_counter()
    out = call()
    seconds = time.perf_counter() - began
    error, _ = trial.check(out)
    row = RungOutcome("NumPy", "on the CPU", "rival", max_error=error)
    if seconds > SECONDS_EACH:  # a slow function needs only one run
        return replace(row, runs=1, seconds=(seconds,))
    return _timed(row, timer_of(call), repeat)


def has_torch() -> bool:
    """Whether PyTorch is installed; importing it would take seconds."""
    return find_spec("torch") is not None


def torch_row(trial: CheckedProblem, on: Device, repeat: int) -> RungOutcome:
    """PyTorch's fastest way on the same kind of device: the GPU for `cuda`, else the CPU with its own threads.

    On the GPU this is kernel time in a CUDA graph of many calls, as for our kernels. Operands have full precision, or
    are rounded if ours may be. If PyTorch does not work, the row says why.
    """
    if trial.problem.result != trial.data.dtype.name:
        reason = f"its convolutions of {trial.data.dtype.name} sum up in that type"
        return RungOutcome("PyTorch", "does not compute this", "rival", failure=reason)
    try:
        return min(_torch_rows(trial, on, repeat), key=lambda row: row.time or 0.0)
    except Exception as error:  # an exception of another library must not prevent our own rows
        reason = str(error).partition("\n")[0]
        return RungOutcome("PyTorch", "does not work here", "rival", failure=f"{type(error).__name__}: {reason}")


def _torch_rows(trial: CheckedProblem, on: Device, repeat: int) -> list[RungOutcome]:
    """A row for each way to compute it and, on a GPU, for several choices of the algorithm by cuDNN.

    Its measured choice (`benchmark`) differs between runs, by nearly a factor of two for small kernels, and is
    remembered per thread. So several threads choose, and the fastest counts.
    """
    import torch

    if on.kind != "cuda" or not torch.cuda.is_available():
        return _rows_of(trial, torch.device("cpu"), repeat)
    gpu = torch.device("cuda", on.index)
    rows = []
    for benchmark in (True,) * 4 + (False,):
        with (
            torch.backends.cudnn.flags(enabled=True, benchmark=benchmark, allow_tf32=trial.rounding > 0),
            ThreadPoolExecutor(1) as one,
        ):
            rows += one.submit(_rows_of, trial, gpu, repeat).result()
    return rows


def _rows_of(trial: CheckedProblem, where: Any, repeat: int) -> list[RungOutcome]:
    """A row for each way to compute it on a torch device."""
    import torch

    on_gpu = where.type == "cuda"
    place = "in a CUDA graph" if on_gpu else f"on the CPU, {torch.get_num_threads()} threads"
    data, weight = (_tensor(values).to(where) for values in (trial.data, trial.weight))
    rows = []
    with torch.inference_mode():
        for how, call in trial.problem.torch(data, weight):
            error, _ = trial.check(call().contiguous().cpu().double().numpy())
            row = RungOutcome("PyTorch", f"{how} {place}", "rival", max_error=error)
            rows.append(_timed(row, _graph_timer(call) if on_gpu else timer_of(call), repeat))
    return rows


def _tensor(values: np.ndarray) -> Any:
    """The values as a tensor; PyTorch takes no bfloat16 from NumPy."""
    import torch

    if values.dtype != DType("bfloat16").numpy:
        return torch.from_numpy(values)
    return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)


def _timed(row: RungOutcome, timer: Timer, repeat: int) -> RungOutcome:
    """The row with its times."""
    timer(1)
    runs, repeats = plan(timer(1), repeat)
    return replace(row, runs=runs, seconds=tuple(timer(runs) / runs for _ in range(repeats)))


def _graph_timer(call: Callable[[], Any]) -> Timer:
    """Times calls on the GPU alone."""
    from ..functional.pytorch.graphs import TorchGraphTimer  # the module imports PyTorch

    return TorchGraphTimer(call)
