"""`python -m tilewright.bench`: ten layers beside PyTorch on this machine, within about a minute.

Prints a table, and one line of JSON to paste into an issue. Nothing is tuned: a first call runs the same kernels.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Sequence
from math import exp, log
from typing import Any

from .core.errors import InternalError, UserError
from .core.version import __version__
from .functional.arguments.problem import CONV, Problem
from .functional.planning.decision import Side
from .functional.planning.plans import plan_for
from .report.environment import environment
from .report.table import Column, table
from .runtime.device import Device, device

_MICROSECOND = 1e-6
SECONDS = 60.0
"""Time after which no further layer begins."""

Layer = tuple[str, tuple[int, int, int, int], int, tuple[int, int], int, tuple[int, int, int, int], int]
"""Description, input shape (N, C, H, W), filters, window, stride, padding (top, left, bottom, right), groups."""
LAYERS: dict[str, list[Layer]] = {
    "cuda": [
        ("depthwise 3×3", (1, 256, 96, 96), 256, (3, 3), 1, (1, 1, 1, 1), 256),
        ("depthwise 3×3, stride 2", (128, 576, 14, 14), 576, (3, 3), 2, (1, 1, 1, 1), 576),
        ("depthwise 5×5", (32, 240, 28, 28), 240, (5, 5), 1, (2, 2, 2, 2), 240),
        ("depthwise 7×7", (32, 96, 56, 56), 96, (7, 7), 1, (3, 3, 3, 3), 96),
        ("depthwise 31×31", (4, 128, 56, 56), 128, (31, 31), 1, (15, 15, 15, 15), 128),
        ("causal 1-D, 4 taps", (1, 1536, 1, 2048), 1536, (1, 4), 1, (0, 3, 0, 0), 1536),
        ("1-D, 31 taps", (8, 512, 1, 4096), 512, (1, 31), 1, (0, 15, 0, 15), 512),
        ("grouped 3×3", (16, 256, 28, 28), 256, (3, 3), 1, (1, 1, 1, 1), 32),
        ("dense 3×3, batch 1", (1, 256, 14, 14), 256, (3, 3), 1, (1, 1, 1, 1), 1),
        ("dense 3×3, batch 32", (32, 128, 28, 28), 128, (3, 3), 1, (1, 1, 1, 1), 1),
    ],
    "cpu": [
        ("depthwise 3×3", (1, 256, 21, 21), 256, (3, 3), 1, (1, 1, 1, 1), 256),
        ("depthwise 3×3", (1, 256, 96, 96), 256, (3, 3), 1, (1, 1, 1, 1), 256),
        ("depthwise 3×3, stride 2", (1, 96, 112, 112), 96, (3, 3), 2, (1, 1, 1, 1), 96),
        ("depthwise 5×5", (1, 240, 28, 28), 240, (5, 5), 1, (2, 2, 2, 2), 240),
        ("depthwise 7×7", (1, 96, 56, 56), 96, (7, 7), 1, (3, 3, 3, 3), 96),
        ("causal 1-D, 4 taps", (1, 1536, 1, 2048), 1536, (1, 4), 1, (0, 3, 0, 0), 1536),
        ("1-D, 31 taps", (1, 512, 1, 4096), 512, (1, 31), 1, (0, 15, 0, 15), 512),
        ("grouped 3×3", (1, 128, 56, 56), 128, (3, 3), 1, (1, 1, 1, 1), 32),
        ("dense 3×3", (1, 256, 14, 14), 256, (3, 3), 1, (1, 1, 1, 1), 1),
        ("dense 3×3", (1, 64, 56, 56), 64, (3, 3), 1, (1, 1, 1, 1), 1),
    ],
}
"""Layers of well-known networks, in sizes that either kind of device computes in milliseconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the layers and print them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tilewright.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: the GPU if there is one")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    parser.add_argument("--layout", choices=("NCHW", "NHWC"), help="default: NCHW on a GPU, NHWC on a CPU")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="no layer begins later (default: %(default)g)")
    given = parser.parse_args(arguments)
    try:
        on = _chosen(given.device)
    except UserError as error:
        print(f"error: {error.message}\n  fix: {error.fix}", file=sys.stderr)
        return 1
    layout = given.layout or ("NCHW" if on.kind == "cuda" else "NHWC")
    rows = measured(on, given.dtype, layout, given.seconds)
    print("\n".join(lines(on, rows, given.dtype, layout)))
    print(f"\n{json_line(on, rows, given.dtype, layout)}")
    return 0


def _chosen(kind: str | None) -> Device:
    """Return the device to measure on, if PyTorch can use it too."""
    if importlib.util.find_spec("torch") is None:
        raise UserError("PyTorch, which the layers are compared with, is not installed", fix="pip install torch")
    import torch

    gpu = device("cuda")
    usable = gpu.exist and torch.cuda.is_available()
    if kind == "cuda" and not usable:
        missing = "no NVIDIA GPU was found" if not gpu.exist else f"PyTorch {torch.__version__} finds no GPU"
        raise UserError(f"--device cuda: {missing}", fix="use --device cpu; `tilewright doctor` shows the reason")
    return gpu if usable and kind != "cpu" else device("cpu")


def measured(on: Device, dtype: str, layout: str, seconds: float) -> list[dict[str, Any]]:
    """Return a row for each layer: description, both times in µs, and the library that a call runs, or the error."""
    import torch

    from .functional.pytorch import tensors, timing

    kept = torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = True, False
    rows: list[dict[str, Any]] = []
    ends = time.monotonic() + seconds
    try:
        for name, shape, *others in LAYERS[on.kind]:
            row: dict[str, Any] = {"layer": f"{name}, {'×'.join(map(str, _shown(shape)))}"}
            rows.append(row)
            if time.monotonic() > ends:
                row["error"] = f"left out after {seconds:g} s"
                continue
            problem = problem_of((shape, *others), dtype, layout)
            try:
                plan = plan_for(problem, on)
                if plan.executable is None:
                    raise InternalError("a plan without a rival has no kernel")
                ours, theirs = timing.time_both(problem, on, plan.executable)
                runs = plan_for(problem, on, tensors.RIVAL).choice.side
            except Exception as error:  # the other layers are worth measuring
                row["error"] = f"{type(error).__name__}: {error}".partition("\n")[0]
                continue
            row |= {"ours_us": round(ours / _MICROSECOND, 2), "torch_us": round(theirs / _MICROSECOND, 2)}
            row["runs"] = "Tilewright" if runs == Side.OURS else "PyTorch"
    finally:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.allow_tf32 = kept
    return rows


def problem_of(sizes: Sequence[Any], dtype: str, layout: str) -> Problem:
    """Return the convolution of a row of `LAYERS`, without its description."""
    shape, filters, kernel, stride, padding, groups = sizes
    steps = (1 if kernel[0] == 1 else stride, stride)
    return Problem(CONV, shape, filters, kernel, steps, padding, (1, 1), groups, dtype, layout)


def _shown(shape: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Return a shape without the height of a signal."""
    batch, channels, height, width = shape
    return (batch, channels, width) if height == 1 else shape


def lines(on: Device, rows: list[dict[str, Any]], dtype: str, layout: str) -> list[str]:
    """Return the table: a line for each layer, then the geometric mean of the ratios."""
    import torch

    heads = [Column("layer", right=False), *map(Column, ("Tilewright, µs", "PyTorch, µs", "times as fast"))]
    heads.append(Column("a call runs", right=False))
    cells, ratios = [], []
    for row in rows:
        if "error" in row:
            cells.append([row["layer"], "–", "–", "–", row["error"]])
            continue
        ratios.append(row["torch_us"] / row["ours_us"])
        times = [f"{row[key]:,.2f}" for key in ("ours_us", "torch_us")]
        cells.append([row["layer"], *times, f"{ratios[-1]:.2f}", row["runs"]])
    mean = f"{exp(sum(map(log, ratios)) / len(ratios)):.2f}" if ratios else "–"
    title = f"Tilewright {__version__}, PyTorch {torch.__version__}, {on.name}, {dtype}, {layout}, untuned"
    if on.kind == "cpu":
        title += f", {torch.get_num_threads()} threads"
    return [title, "", *table(heads, cells), "", f"geometric mean: {mean}", *_remarks()]


def _load() -> float:
    """Return the number of processes that ran or waited for a core in the last minute; 0 if the system keeps none."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def _remarks() -> list[str]:
    cores = os.cpu_count() or 1
    busy = f"other programs keep the machine busy (load {_load()} on {cores} cores): times on the CPU are too long"
    return [busy] if _load() > cores else []


def json_line(on: Device, rows: list[dict[str, Any]], dtype: str, layout: str) -> str:
    """Return the same as one line of JSON, with the machine and the versions."""
    import torch

    made = environment(on) | {"command": "python -m tilewright.bench"}
    settings = {"dtype": dtype, "layout": layout, "load": _load()}
    settings |= {"threads": torch.get_num_threads()} if on.kind == "cpu" else {}
    return json.dumps({"tilewright": __version__, **made, **settings, "rows": rows}, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
