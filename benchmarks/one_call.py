"""The one-line call beside PyTorch: host time, kernel time, whole models: python -m benchmarks.one_call [PART ...]

The part `host` is the time per call of Python, with the allocation of the output. `layers` has kernel times of known
layers, ours untuned and PyTorch's; `--rivals FILE` puts them into the package's table of decisions. `gradients` has the
same for gradients of layers. `models` runs `accelerate` on ConvNeXt-T and MobileNetV2. Without a GPU, sizes are small.
All kernels are compiled before, by a process per core.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import conv2d

import tilewright as tw
from benchmarks.drawn_layers import drawn_layers
from benchmarks.models import MODELS
from benchmarks.ship_records import write_rivals
from tilewright.functional.arguments.call import CallOptions, OperatorCall
from tilewright.functional.arguments.problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSED, Problem
from tilewright.functional.planning.plans import plan_for
from tilewright.functional.programs import cuda_kernels, fingerprint
from tilewright.functional.pytorch import tensors as torch_tensors
from tilewright.functional.pytorch.threads import program_of
from tilewright.functional.pytorch.timing import time_both
from tilewright.nn import replacements
from tilewright.nn.layers import layers_of
from tilewright.nn.samples import Sample
from tilewright.report.table import Column, table
from tilewright.runtime.device import cpu, cuda, device

DRAWN = 30
"""Layers of sizes that no network has, for each type and layout."""
GPU = torch.cuda.is_available()
WHERE = "cuda" if GPU else "cpu"
BURST, ROUNDS = 100, 40
Call = Callable[[], Any]
Setting = tuple[str, str, int]
"""A model, the type, and the batch."""


# Compiling ahead


def compile_all(problems: list[Problem], rivals: tuple[str, ...]) -> float:
    """Have the kernels of problems on disk, compiled by a process per core; returns the seconds that took."""
    began = time.perf_counter()
    jobs = [(problem, rival) for problem in dict.fromkeys(problems) for rival in rivals]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        pool.map(compile_one, jobs, chunksize=1)
    return time.perf_counter() - began


def compile_one(job: tuple[Problem, str]) -> None:
    """Compile one kernel, in a process of its own."""
    problem, rival = job
    try:
        plan_for(problem, cuda() if GPU else cpu(), rival)
    except Exception as error:  # the others are worth having
        print(f"{problem}: {error}")


# Host time


HOST_LAYERS = {
    "depthwise 3x3, 1x32x14x14": ((1, 32, 14, 14), 1, False),
    "the same with a bias": ((1, 32, 14, 14), 1, True),
    "depthwise 3x3, 8x64x7x7": ((8, 64, 7, 7), 1, False),
    "depthwise 3x3, stride 2": ((1, 32, 14, 14), 2, False),
}
"""Shape, stride, and whether there is a bias: kernels that take less time than their calls."""


def host() -> list[str]:
    """Time per call from Python, in bursts that the GPU keeps up with: ours, PyTorch's, and the bare launch."""
    rows = []
    for name in HOST_LAYERS:
        times = host_times(name)
        ratio = times["ours"] / times["PyTorch"]
        rows.append([name, *(f"{times[key] * 1e6:.2f}" for key in times), f"{ratio:.2f}"])
    heads = [Column("call, µs of the host", right=False), *map(Column, ("ours", "named", "PyTorch", "launch", "ratio"))]
    return table(heads, rows)


def host_times(name: str) -> dict[str, float]:
    """Seconds per call of one of `HOST_LAYERS`, in each way."""
    shape, stride, biased = HOST_LAYERS[name]
    channels = shape[1]
    x, w = torch.randn(shape, device=WHERE), torch.randn(channels, 1, 3, 3, device=WHERE)
    bias = torch.randn(channels, device=WHERE) if biased else None
    with torch.no_grad():
        return bursts(_calls(x, w, bias, stride, channels))


def _calls(x: Any, w: Any, bias: Any, step: int, groups: int) -> dict[str, Call]:
    """One convolution, called in each way."""
    return {
        "ours": lambda: tw.conv2d(x, w, bias, step, 1, 1, groups),
        "ours, named": lambda: tw.conv2d(x, w, bias, stride=step, padding=1, groups=groups),
        "PyTorch": lambda: conv2d(x, w, bias, step, 1, 1, groups),
        "launch": bare(x, w, bias, step, groups),
    }


def bare(x: Any, w: Any, bias: Any, step: int, groups: int) -> Call:
    """The launch alone, with everything ready."""
    options = CallOptions(step, 1, 1, groups)
    checked, _ = torch_tensors.signed(OperatorCall("conv2d", x, w, bias, None, None, options))
    on = cuda() if GPU else cpu()
    program: Any = program_of(plan_for(checked.problem, on, torch_tensors.RIVAL))
    made = torch.empty(checked.shape, device=x.device)
    pointers = [a.data_ptr() for a in (x, w, bias, made) if a is not None]
    if not GPU:
        return lambda held=made: program(pointers)  # type: ignore[misc]  # keeps the memory
    kernel = program.direct
    kernel.hasten()
    stream, start = torch.cuda.current_stream().cuda_stream, kernel.start
    return lambda held=made: start(*pointers, stream)  # type: ignore[misc]


def bursts(calls: dict[str, Call]) -> dict[str, float]:
    """The median seconds per call of each, in turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(50):
            call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            _sync()
            began = time.perf_counter()
            for _ in range(BURST):
                call()
            found[name].append((time.perf_counter() - began) / BURST)
    return {name: statistics.median(times) for name, times in found.items()}


def _sync() -> None:
    if GPU:
        torch.cuda.synchronize()


# Layers


def conv(
    shape: Any, filters: int, kernel: Any, stride: int, padding: Any, groups: int, dtype: str, layout: str
) -> Problem:
    """A convolution; `padding` is a number or top, left, bottom, right."""
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    zeros = (padding,) * 4 if isinstance(padding, int) else padding
    return Problem(CONV, shape, filters, taps, (stride, stride), zeros, (1, 1), groups, dtype, layout)


def known_layers() -> Iterator[Problem]:
    """Layers of well-known networks, in the types and layouts that they are used in."""
    kinds = [(dtype, layout) for layout in ("NCHW", "NHWC") for dtype in ("float32", "float16", "bfloat16")]
    for dtype, layout in kinds if GPU else kinds[:1]:
        for batch in (1, 32, 128) if GPU else (1,):
            for channels, size, stride in MOBILENET if GPU else MOBILENET[-2:]:
                yield conv((batch, channels, size, size), channels, 3, stride, 1, channels, dtype, layout)
            for channels, size in CONVNEXT if GPU else CONVNEXT[-1:]:
                yield conv((batch, channels, size, size), channels, 7, 1, 3, channels, dtype, layout)
            for channels, size, stride in EFFICIENTNET if GPU else ():
                yield conv((batch, channels, size, size), channels, 5, stride, 2, channels, dtype, layout)
        if GPU:
            yield from drawn_layers(DRAWN, [(dtype, layout)])
            for (batch, channels, length), taps, zeros in LINES:
                shape = (batch, channels, 1, length)
                yield conv(shape, channels, (1, taps), 1, (0, zeros[0], 0, zeros[1]), channels, dtype, layout)
            for shape, kernel, filters, groups in OTHERS:
                yield conv(shape, filters, kernel, 1, kernel // 2, groups, dtype, layout)
    for dtype in ("float32", "float16") if GPU else ():
        for shape, filters, kernel, stride, zeros, groups in UP:
            taps, steps = (kernel, kernel), (stride, stride)
            yield Problem(TRANSPOSED, shape, filters, taps, steps, (zeros,) * 4, (1, 1), groups, dtype, "NCHW")
        for op, shape, kernel, stride, zeros in POOLS:
            taps, steps = (kernel, kernel), (stride, stride)
            yield Problem(op, shape, shape[1], taps, steps, (zeros,) * 4, (1, 1), shape[1], dtype, "NCHW")


MOBILENET = [(32, 112, 1), (96, 112, 2), (144, 56, 1), (144, 56, 2), (192, 28, 1), (192, 28, 2), (384, 14, 1),
             (576, 14, 1), (576, 14, 2), (960, 7, 1)]  # fmt: skip
CONVNEXT = [(96, 56), (192, 28), (384, 14), (768, 7)]
EFFICIENTNET = [(144, 56, 2), (240, 28, 1), (480, 14, 1), (672, 14, 2), (1152, 7, 1)]
LINES = [((16, 3072, 202), 3, (1, 1)), ((1, 12288, 16384), 4, (3, 0)), ((8, 512, 4096), 31, (15, 15)),
         ((64, 768, 1024), 7, (3, 3)), ((1, 1536, 2048), 4, (3, 0))]  # fmt: skip
OTHERS = [((1, 128, 56, 56), 3, 128, 32), ((16, 256, 28, 28), 3, 256, 32), ((1, 256, 96, 96), 3, 512, 256),
          ((1, 256, 96, 96), 5, 512, 256), ((1, 64, 56, 56), 3, 64, 1), ((1, 256, 14, 14), 3, 256, 1)]  # fmt: skip
UP = [((1, 128, 56, 56), 64, 2, 2, 0, 1), ((8, 128, 28, 28), 128, 4, 2, 1, 128), ((8, 96, 56, 56), 96, 7, 1, 3, 96)]
TRAINED: list[tuple[Any, ...]] = [
    ((128, 144, 56, 56), 144, 3, 1, 1, 144),
    ((128, 96, 112, 112), 96, 3, 2, 1, 96),
    ((128, 960, 7, 7), 960, 3, 1, 1, 960),
    ((64, 480, 14, 14), 480, 5, 1, 2, 480),
    ((128, 96, 56, 56), 96, 7, 1, 3, 96),
    ((128, 384, 14, 14), 384, 7, 1, 3, 384),
    ((8, 4096, 1, 2048), 4096, (1, 4), 1, (0, 3, 0, 0), 4096),
    ((64, 768, 1, 1024), 768, (1, 7), 1, (0, 3, 0, 3), 768),
    ((8, 512, 1, 4096), 512, (1, 31), 1, (0, 15, 0, 15), 512),
    ((64, 256, 28, 28), 256, 3, 1, 1, 32),
    ((64, 128, 56, 56), 128, 3, 1, 1, 32),
    ((32, 240, 28, 28), 240, 5, 2, 2, 240),
    ((16, 256, 56, 56), 256, 3, 2, 1, 32),
    ((4, 64, 28, 28), 64, 3, 1, 1, 64),
    ((2, 96, 64, 64), 192, 3, 1, 1, 96),
]
"""Shape, filters, kernel, stride, padding, groups."""
POOLS = [(MAX_POOL, (32, 64, 112, 112), 3, 2, 1), (MAX_POOL, (1, 64, 112, 112), 3, 2, 1),
         (MAX_POOL, (8, 64, 256, 256), 2, 2, 0), (AVG_POOL, (32, 64, 56, 56), 2, 2, 0)]  # fmt: skip


def known_gradients() -> Iterator[Problem]:
    """The gradients of layers that train: of depthwise ones, of signals, and of small groups."""
    kinds = [(dtype, layout) for dtype in ("float32", "float16", "bfloat16") for layout in ("NCHW", "NHWC")]
    for dtype, layout in kinds if GPU else kinds[:1]:
        for shape, filters, kernel, stride, padding, groups in TRAINED if GPU else TRAINED[2:3]:
            yield from conv(shape, filters, kernel, stride, padding, groups, dtype, layout).gradients


def layers(layers_of: Iterator[Problem], rivals: Path | None, seconds: float, only: str) -> list[str]:
    """Time the layers that are called `only` so, ours untuned beside PyTorch's; the geometric mean of each kind."""
    problems = [problem for problem in dict.fromkeys(layers_of) if only in str(problem)]
    took = compile_all(problems, ("",))
    on = device("cuda") if GPU else device("cpu")
    rows, gains, ends = [], {}, time.monotonic() + seconds
    for problem in problems:
        if time.monotonic() > ends:
            break
        try:
            plan = plan_for(problem, on, "")
            assert plan.executable is not None
            ours, theirs = time_both(problem, on, plan.executable)
        except Exception as error:
            print(f"{problem}: {error}")
            continue
        rows.append({"problem": problem.description(), "device": _device(on), "ours": ours, "theirs": theirs})
        op = "depthwise" if problem.depthwise and problem.op == CONV else problem.op
        kind = f"{op} {problem.dtype} {problem.layout}"
        gains.setdefault(kind, []).append(theirs / ours)
        print(f"{theirs / ours:7.2f}  {ours * 1e6:9.2f} {theirs * 1e6:9.2f}  {problem}", flush=True)
    if rivals is not None:
        write_rivals(rivals, rows)
    lines = [
        [
            kind,
            str(len(own)),
            f"{statistics.geometric_mean(own):.2f}",
            f"{min(own):.2f}",
            str(sum(g < 0.95 for g in own)),
        ]
        for kind, own in gains.items()
    ]
    heads = [Column("layers, untuned", right=False), *map(Column, ("count", "geomean", "least", "below 0.95"))]
    return [*table(heads, lines), f"{len(problems)} kernels compiled in {took:.0f} s"]


def _device(on: Any) -> str:
    return cuda_kernels.architecture_and_name(on.index)[1] if GPU else f"cpu {fingerprint.machine(on)}"


# Models


def models(batches: tuple[int, ...], verbose: bool) -> list[str]:
    """`accelerate` on whole models: time before and after, in a CUDA graph and eager."""
    settings = model_settings(batches)
    compile_models(settings)
    rows = []
    for name, dtype, batch in settings:
        done, eager_before, eager_after = accelerated(name, dtype, batch)
        if verbose:
            print(f"{name}, {dtype}, batch {batch}\n{done}\n")
        count = f"{sum(row.replaced for row in done.rows)}/{len(done.rows)}"
        times = [done.before, done.after, eager_before, eager_after]
        gain = f"{done.before / done.after:.2f}" if done.after else "–"
        rows.append([name, dtype, str(batch), count, *(f"{t * 1e3:.3f}" for t in times), gain])
    heads = [Column("model", right=False), Column("type", right=False)]
    heads += map(Column, ("batch", "replaced", "before, ms", "after", "eager before", "eager after", "gain"))
    return table(heads, rows)


def model_settings(batches: tuple[int, ...]) -> list[Setting]:
    """The models with their types and batches; without a GPU, one small one."""
    if not GPU:
        return [("MobileNetV2", "float32", 1)]
    return [(name, dtype, batch) for name in MODELS for dtype in ("float32", "float16") for batch in batches]


def compile_models(settings: list[Setting]) -> None:
    """Have the kernels of the models on disk."""
    problems: list[Problem] = []
    for name, dtype, batch in settings:
        model, x = built(name, dtype, batch)
        with torch.no_grad():
            problems += [layer.problem for layer in layers_of(model, Sample.of(model, x, {})) if not layer.why]
        del model, x
    compile_all(problems, (torch_tensors.RIVAL, ""))


def accelerated(name: str, dtype: str, batch: int) -> tuple[replacements.Acceleration, float, float]:
    """`accelerate` a model; returns its report, and the seconds of an eager run before and after."""
    model, x = built(name, dtype, batch)
    with torch.no_grad():
        before = eager(model, x)
        done = tw.accelerate(model, x)
        return done, before, eager(model, x)


def built(name: str, dtype: str, batch: int) -> tuple[Any, Any]:
    """A model and its sample."""
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    model = MODELS[name]().to(WHERE, kind)
    return model, torch.randn(batch, 3, 224, 224, device=WHERE).to(kind)


def eager(model: Any, x: Any) -> float:
    """Seconds of one eager run, the host's time included."""
    for _ in range(3):
        model(x)
    times = []
    for _ in range(5):
        _sync()
        began = time.perf_counter()
        for _ in range(5):
            model(x)
        _sync()
        times.append((time.perf_counter() - began) / 5)
    return statistics.median(times)


def main() -> None:
    """Measure the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", default=["host", "layers", "models"])
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--seconds", type=float, default=60, help="for measuring layers")
    parser.add_argument("--only", default="", help="measure layers with this text in their descriptions: bfloat16")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32, 128])
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    parts: dict[str, Callable[[], list[str]]] = {
        "host": host,
        "layers": lambda: layers(known_layers(), given.rivals, given.seconds, given.only),
        "gradients": lambda: layers(known_gradients(), given.rivals, given.seconds, given.only),
        "models": lambda: models(tuple(given.batches), given.verbose),
    }
    lines: list[str] = []
    for part in given.parts:
        began = time.perf_counter()
        try:
            lines += [*parts[part](), ""]
        except Exception as error:
            lines += [f"{part}: {type(error).__name__}: {error}", ""]
        print(f"[{part}: {time.perf_counter() - began:.0f} s]", flush=True)
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
