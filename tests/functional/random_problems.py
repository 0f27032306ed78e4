"""Random layers, and what becomes of each: `python -m tests.functional.random_problems [count [first [engines]]]`.

A seed draws an operator, sizes, a window, a type, a layout and an epilogue. Even seeds draw layers as networks have
them, odd ones small layers with corners: extents of one, windows that reach past the input, zeros on one side only.
Every strategy that covers a layer is built with its first configuration. Engines, separated by commas:

- `sm_90`: NVRTC compiles the kernels for that architecture; nothing runs;
- `llvm`: the layer is called on NumPy arrays, as users call it; small layers only;
- `emulated`: the CUDA kernels run on the emulated device; small layers only;
- `cuda`: they run on the GPU.

Results are compared with `wanted`, which computes in float64 from the definitions.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.functional.arguments.problem import (
    AVG_POOL,
    CONV,
    GRADIENTS,
    MAX_POOL,
    TRANSPOSED,
    TRANSPOSES,
    WEIGHT_GRADIENT,
    Problem,
)
from tilewright.functional.planning import compiler
from tilewright.runtime.compile import resolve_target

GPU = "cuda -arch=sm_90"
ENGINES = ("sm_90", "llvm")
ACTIVATIONS = ("relu", "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish")
"""Drawn ones: tests/frozen has the problems that follow from this list."""
TYPES = ("float32", "float32", "float16", "bfloat16", "float64")
ERRORS = {"float32": 2e-6, "float16": 6e-4, "bfloat16": 5e-3, "float64": 1e-14}
"""The relative L2 error of a result; of sums rounded to TF32, `_ROUNDED`."""
_ROUNDED = 1.5e-3
_LARGEST = 60_000_000
"""Elements of the input, and of the result, of layers that are only compiled."""
_SMALL = 400_000
"""Products of a small layer."""


@dataclass(frozen=True)
class Case:
    """A layer that a seed draws; `is_small` says whether engines that compute slowly run it."""

    seed: int
    problem: Problem

    @property
    def is_small(self) -> bool:
        return self.seed % 2 == 1


def draw(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    while True:
        problem = _drawn(rng, small=seed % 2 == 1)
        if min(problem.places) < 1:
            continue
        if seed % 2 and problem.flop <= 2 * _SMALL:
            return Case(seed, problem)
        if seed % 2 == 0 and max(prod(problem.shape), prod(problem.out_shape)) <= _LARGEST:
            return Case(seed, problem)


def _drawn(rng: random.Random, small: bool) -> Problem:
    op = rng.choice([CONV] * 6 + [TRANSPOSED, TRANSPOSED, MAX_POOL, AVG_POOL])
    channels, filters, groups = _channels(rng, op, small)
    height, width = (_extent(rng, small) for _ in range(2))
    kernel, dilation, stride = (
        (_tap(rng, small), _tap(rng, small)),
        _steps(rng, (1, 1, 1, 2, 3)),
        _steps(rng, (1, 1, 2, 3, 5)),
    )
    if rng.random() < 0.6:
        kernel = (kernel[0],) * 2
    if rng.random() < 0.2:
        height, kernel, dilation, stride = 1, (1, kernel[1]), (1, dilation[1]), (1, stride[1])
    batch = rng.choice([1, 1, 2, 3] if small else [1, 1, 2, 5, 8, 16, 31, 64, 128, 300])
    if op == AVG_POOL:
        dilation = (1, 1)
    dtype, layout = rng.choice(TYPES), rng.choice(["NCHW", "NHWC"])
    made = Problem(
        op, (batch, channels, height, width), filters, kernel, stride, _padding(rng, op, kernel, dilation), dilation,
        groups, dtype, layout,
    )  # fmt: skip
    if op in (MAX_POOL, AVG_POOL):
        return made._replace(count_border=rng.random() < 0.5)
    more: dict[str, Any] = {"bias": rng.random() < 0.4, "residual": rng.random() < 0.2}
    if rng.random() < 0.4:
        more["activation"] = rng.choice(ACTIVATIONS)
    if op == TRANSPOSED:
        more["output_padding"] = tuple(rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True))
    elif dtype == "float32":
        more["precision"] = rng.choice(["fp32", "fp32", "ieee", "tf32"])
    made = made._replace(**more)
    return made.with_filters_last if rng.random() < 0.5 else made


def _channels(rng: random.Random, op: str, small: bool) -> tuple[int, int, int]:
    """Channels, filters and groups: depthwise, with a multiplier, dense, in groups, or in wide ones.

    Filters of a wide group are rarely a whole tile of a matrix instruction.
    """
    some = (1, 2, 3, 5, 8, 13, 16, 24) if small else (1, 3, 7, 16, 31, 32, 48, 64, 96, 127, 192, 256, 480)
    if op in (MAX_POOL, AVG_POOL):
        channels = rng.choice(some)
        return channels, channels, channels
    kind = rng.choice(["depthwise", "depthwise", "multiplied", "dense", "dense", "grouped", "grouped", "wide"])
    if kind in ("depthwise", "multiplied"):
        channels = rng.choice(some)
        return channels, channels * (rng.choice([2, 3, 4]) if kind == "multiplied" else 1), channels
    if kind == "dense":
        return rng.choice(some), rng.choice(some), 1
    if kind == "wide":
        groups = rng.choice((2, 3) if small else (2, 3, 4, 8, 16))
        return groups * rng.choice((32, 40, 48, 64)), groups * rng.choice((9, 20, 24, 33, 40, 52, 56, 72)), groups
    groups = rng.choice((2, 3, 4) if small else (2, 3, 4, 8, 16, 32, 64))
    own = (1, 2, 3, 4, 5, 8, 16)
    return groups * rng.choice(own), groups * rng.choice(own), groups


def _extent(rng: random.Random, small: bool) -> int:
    if small:
        return rng.choice([1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 20])
    return rng.choice([1, 2, 5, 7, 8, 14, 16, 23, 28, 31, 32, 56, 61, 64, 112, 128, 197, 224])


def _tap(rng: random.Random, small: bool) -> int:
    return rng.choice([1, 1, 2, 3, 3, 3, 4, 5, 7] + ([] if small else [9, 13, 31]))


def _steps(rng: random.Random, some: tuple[int, ...]) -> tuple[int, int]:
    first = rng.choice(some)
    return (first, first) if rng.random() < 0.7 else (first, rng.choice(some))


def _padding(rng: random.Random, op: str, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """Zeros above, left, below, right: of pooling at most half of the window."""
    if op in (MAX_POOL, AVG_POOL):
        return tuple(rng.randint(0, k // 2) for k in (*kernel, *kernel))
    covered = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    how = rng.random()
    if how < 0.4:
        before = [c // 2 for c in covered]
        return (*before, *before)
    if how < 0.6:
        return (0, 0, 0, 0)
    return tuple(rng.randint(0, c + 1) for c in (*covered, *covered))


# The operators by their definitions


def gradients_of(case: Case) -> list[Case]:
    """The gradients of a convolution by its weights and its input, as cases."""
    layer = case.problem
    fits = all(more < step for more, step in zip(layer.output_padding, layer.stride, strict=True))
    return [Case(case.seed, each) for each in layer.gradients] if layer.has_weights and fits else []


def arrays_of(case: Case) -> list[np.ndarray]:
    """Data, then what `extra_arguments` names, in the order NCHW and with weights as PyTorch has them."""
    problem, rng = case.problem, np.random.default_rng(case.seed)
    shapes = {"weights": problem.second_shape, "bias": (problem.filters,), "residual": problem.out_shape}
    kind = DType(problem.dtype).numpy
    return [rng.uniform(-1, 1, shape).astype(kind) for shape in
            (problem.shape, *(shapes[name] for name in problem.extra_arguments))]  # fmt: skip


def wanted(problem: Problem, x: np.ndarray, *extras: np.ndarray) -> np.ndarray:
    """The result in float64, in the order NCHW."""
    given = dict(zip(problem.extra_arguments, (a.astype(np.float64) for a in extras), strict=True))
    x = x.astype(np.float64)
    if problem.op in TRANSPOSES:
        out = _transposed(problem, x, given["weights"])
    elif problem.op == WEIGHT_GRADIENT:
        seen = _windows(problem, x, 0.0)
        parts = seen.reshape(x.shape[0], problem.groups, -1, *seen.shape[2:])
        above = given["weights"].reshape(x.shape[0], problem.groups, -1, *problem.places)
        out = np.einsum("ngcyxij,ngfyx->gfcij", parts, above, optimize=True).reshape(problem.weights_shape)
    elif problem.op == CONV:
        seen = _windows(problem, x, 0.0)
        parts = seen.reshape(x.shape[0], problem.groups, -1, *seen.shape[2:])
        taps = given["weights"].reshape(problem.groups, -1, *problem.weights_shape[1:])
        out = np.einsum("ngcyxij,gfcij->ngfyx", parts, taps, optimize=True).reshape(problem.out_shape)
    elif problem.op == MAX_POOL:
        out = _windows(problem, x, -np.inf).max(axis=(-2, -1))
    else:
        counts = _windows(problem, np.ones_like(x), float(problem.count_border)).sum(axis=(-2, -1))
        with np.errstate(invalid="ignore"):
            out = _windows(problem, x, 0.0).sum(axis=(-2, -1)) / counts
    out = out + given["bias"].reshape(1, -1, 1, 1) if problem.bias else out
    out = out + given["residual"] if problem.residual else out
    return _activated(problem.activation, out)


def _windows(problem: Problem, x: np.ndarray, border: float) -> np.ndarray:
    """What each window sees: (batch, channels, rows, columns, rows of the window, columns of the window)."""
    top, left, bottom, right = problem.padding
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=border)
    (sy, sx), (dy, dx) = problem.stride, problem.dilation
    seen = np.lib.stride_tricks.sliding_window_view(padded, problem.covered, axis=(2, 3))
    return seen[:, :, ::sy, ::sx, ::dy, ::dx]


def _transposed(problem: Problem, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Add each element, times the kernels, to the results that it reaches."""
    (sy, sx), (dy, dx), (top, left, _, _) = problem.stride, problem.dilation, problem.padding
    batch, _, height, width = x.shape
    rows, columns = problem.places
    whole = np.zeros((batch, problem.filters, top + rows + problem.covered[0] + sy * height,
                      left + columns + problem.covered[1] + sx * width))  # fmt: skip
    parts = x.reshape(batch, problem.groups, -1, height, width)
    taps = weights.reshape(problem.groups, -1, *weights.shape[1:])
    for r in range(problem.kernel[0]):
        for c in range(problem.kernel[1]):
            found = np.einsum("ngcyx,gcf->ngfyx", parts, taps[..., r, c]).reshape(batch, -1, height, width)
            whole[:, :, r * dy : r * dy + height * sy : sy, c * dx : c * dx + width * sx : sx] += found
    return whole[:, :, top : top + rows, left : left + columns]


def _activated(name: str, v: np.ndarray) -> np.ndarray:
    if name in ("gelu", "gelu_tanh"):
        inner = math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)
        return (
            v
            * 0.5
            * (1 + (np.vectorize(math.erf, otypes=[float])(v / math.sqrt(2)) if name == "gelu" else np.tanh(inner)))
        )
    by_name = {
        "": lambda: v,
        "relu": lambda: np.maximum(v, 0),
        "relu6": lambda: np.clip(v, 0, 6),
        "silu": lambda: v / (1 + np.exp(-v)),
        "sigmoid": lambda: 1 / (1 + np.exp(-v)),
        "hardswish": lambda: v * np.clip(v + 3, 0, 6) / 6,
    }
    made: np.ndarray = by_name[name]()
    return made


def fault(case: Case, found: np.ndarray, right: np.ndarray, rounded: bool = False) -> str:
    """What is wrong about a result, in the order NCHW; "" where it is right."""
    if found.shape != right.shape:
        return f"the shape is {found.shape}, not {right.shape}"
    found = found.astype(np.float64)
    if not np.array_equal(np.isnan(found), np.isnan(right)):
        return f"{np.isnan(found).sum()} results are not numbers, and {np.isnan(right).sum()} should be"
    whole = ~np.isnan(right) & ~np.isinf(right)
    if not np.array_equal(found[~whole], right[~whole], equal_nan=True):
        return "infinite results differ"
    apart, norm = np.linalg.norm(found[whole] - right[whole]), np.linalg.norm(right[whole])
    scale = max(norm, math.sqrt(max(whole.sum(), 1)) * 1e-2)
    of_weights = case.problem.op == WEIGHT_GRADIENT
    terms = case.problem.shape[0] * prod(case.problem.places) if of_weights else case.problem.terms
    scale = max(scale, math.sqrt(terms * right.size) * 1e-1) if of_weights else scale  # such sums may cancel
    most = ERRORS[case.problem.dtype] * max(1.0, math.sqrt(terms) / 8)
    most = max(most, _ROUNDED) if rounded else most
    return "" if apart <= most * scale else f"the error is {apart / scale:.1e}, and may be {most:.1e}"


# Engines


def kernels_of(problem: Problem, target: Target) -> Iterator[tuple[str, Any, list[Any]]]:
    """The name, schedule and tensors of the kernel that a call takes, and of each strategy's first configuration."""
    epilogue = compiler.epilogue_of(problem, None)
    able, workload = compiler.strategies_of(problem, target)
    chosen = compiler.default_selection(problem, target)
    known = [(chosen.template, chosen.workload, chosen.config)]
    known += [(t, workload, t.default_config(workload, target)) for t in able]
    seen = set()
    for template, workload, config in known:
        if (template.name, workload, str(config)) not in seen:
            seen.add((template.name, workload, str(config)))
            yield f"{template.name} {config}", *template.program(config, workload, target, epilogue)


def compiled_for_gpu(case: Case) -> str:
    """Compile the kernels of a case by NVRTC; "" or what went wrong."""
    target = resolve_target(Target(GPU))
    wrong = []
    for name, s, args in kernels_of(case.problem, target):
        try:
            build(s, args, target, name="layer")
        except Exception as failure:  # reported with the case
            wrong.append(f"{name}: {type(failure).__name__}: {failure}")
    return "; ".join(wrong)


def called(case: Case) -> str:
    """Call the layer on NumPy arrays; "" or what is wrong about the result."""
    problem = case.problem
    x, *extras = arrays_of(case)
    right = wanted(problem, x, *extras)
    given = dict(zip(problem.extra_arguments, extras, strict=True))
    x, last = _in_memory(problem, x), problem.layout == "NHWC"
    top, left, bottom, right_side = problem.padding
    options: dict[str, Any] = {
        "stride": problem.stride,
        "padding": ((top, bottom), (left, right_side)),
        "layout": problem.layout,
    }
    if problem.has_weights:
        options |= {"dilation": problem.dilation, "groups": problem.groups, "activation": problem.activation or None}
        options |= {"residual": _in_memory(problem, given["residual"])} if problem.residual else {}
        if problem.op == TRANSPOSED:
            options |= {"output_padding": problem.output_padding}
        call = tw.conv2d if problem.op == CONV else tw.conv_transpose2d
        found = call(x, given["weights"], given.get("bias"), **options)
    elif problem.op == MAX_POOL:
        found = tw.max_pool2d(x, problem.kernel, dilation=problem.dilation, **options)
    else:
        found = tw.avg_pool2d(x, problem.kernel, count_include_pad=problem.count_border, **options)
    return fault(case, found.transpose(0, 3, 1, 2) if last else found, right)


def on_device(case: Case, emulate: bool, kind: str = GPU) -> str:
    """Run the kernels of a case on a kind of target; "" or what is wrong about their results."""
    target, problem = resolve_target(Target(kind)), case.problem
    device = tw.cuda() if kind == GPU else tw.cpu()
    x, *extras = arrays_of(case)
    right = wanted(problem, x, *extras)
    given = dict(zip(problem.extra_arguments, extras, strict=True))
    if problem.weights == "OHWI":
        given["weights"] = given["weights"].transpose(0, 2, 3, 1)
    if problem.residual:
        given["residual"] = _in_memory(problem, given["residual"])
    of_weights = problem.op == WEIGHT_GRADIENT
    if of_weights:
        given["weights"] = _in_memory(problem, given["weights"])
    wrong = []
    for name, s, args in kernels_of(problem, target):
        shapes = [tuple(int(extent) for extent in tensor.shape) for tensor in args]
        inputs = [_in_memory(problem, x), *given.values()]
        arrays = [np.ascontiguousarray(a).reshape(shape) for a, shape in zip(inputs, shapes[:-1], strict=True)]
        arrays.append(np.full(shapes[-1], 77, x.dtype))
        try:
            module = emulated(s, args) if emulate else build(s, args, target, name="layer")
            there = [tw.nd.array(array, device) for array in arrays]
            module(*there)
            found = there[-1].numpy()
        except Exception as failure:  # reported with the case
            wrong.append(f"{name}: {type(failure).__name__}: {failure}")
            continue
        found = found.transpose(0, 3, 1, 2) if problem.layout == "NHWC" and not of_weights else found
        if said := fault(case, found, right, "tf32" in name):
            wrong.append(f"{name}: {said}")
    return "; ".join(wrong)


def _in_memory(problem: Problem, array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1)) if problem.layout == "NHWC" else array


def judged(case: Case, engines: tuple[str, ...] = ENGINES) -> str:
    """What is wrong with a case, by the engines that fit it; "" where all are right."""
    wrong = []
    for engine in engines:
        try:
            if engine == "sm_90":
                found = compiled_for_gpu(case)
            elif engine == "cuda":
                found = on_device(case, emulate=False) if case.problem.flop < 1e9 else compiled_for_gpu(case)
            elif not case.is_small:
                found = ""
            elif engine == "llvm":
                found = on_device(case, emulate=False, kind="llvm") if case.problem.op in GRADIENTS else called(case)
            else:
                with emulation(case.seed):
                    found = on_device(case, emulate=True)
        except Exception:  # reported with the case
            found = traceback.format_exc(limit=-3)
        if found:
            wrong.append(f"{engine}: {found}")
    return "\n".join(wrong)


def _judged(work: tuple[int, tuple[str, ...]]) -> tuple[Case, str]:
    case = draw(work[0])
    return case, "\n".join(filter(None, (judged(each, work[1]) for each in (case, *gradients_of(case)))))


def main(count: int = 100, first: int = 0, engines: str = ",".join(ENGINES), jobs: int = 0) -> int:
    """Judge cases on all cores; returns how many are wrong."""
    wrong = 0
    work = [(seed, tuple(engines.split(","))) for seed in range(first, first + count)]
    with multiprocessing.get_context("forkserver").Pool(jobs or None) as pool:
        for place, (case, found) in enumerate(pool.imap(_judged, work, chunksize=2)):
            if found:
                wrong += 1
                print(f"seed {case.seed}: {case.problem}\n    {found}", flush=True)
            if place % 100 == 99:
                print(f"{place + 1} layers, {wrong} wrong", flush=True)
    print(f"{count} layers, {wrong} wrong")
    return wrong


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(bool(main(*(int(v) for v in given[:2]), *given[2:3], *(int(v) for v in given[3:4]))))
