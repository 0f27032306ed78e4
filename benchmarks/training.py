"""Training steps of single layers on a GPU, beside PyTorch's: python -m benchmarks.training [--only TEXT] [--out FILE]

A step is the forward call and the gradients by the input and by the weights, recorded in one CUDA graph. Both sides run
in turns on the same tensors, in both memory orders. The faster order for the whole step counts, of each side. A copy
reads the input and writes as many bytes. Results are checked against float64 before they are timed.

The directions of ours are differences of graphs: with the gradient of one tensor, less the forward call.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional

import tilewright as tw
from benchmarks.drawn_layers import drawn_layers
from tilewright.functional.arguments.problem import Problem
from tilewright.report.table import Column, table

LIMITS = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2, "float64": 1e-14}
ROUNDS, WINDOW = 7, 400e-6
"""Rounds for a median, and the least seconds of a graph."""
SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
Call = Callable[..., Any]
Arrays = tuple[Any, ...]


class Layer(NamedTuple):
    """A layer, and by type how many times as fast as PyTorch its step must be and should be."""

    shape: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    stride: int = 1
    groups: int = 0
    causal: bool = False
    asked: dict[str, tuple[float, float]] = {}  # noqa: RUF012  # a default of a named tuple

    @property
    def padding(self) -> int:
        """Zeros on each side."""
        return self.kernel[-1] - 1 if self.causal else self.kernel[-1] // 2

    @property
    def groups_of(self) -> int:
        """The number of groups; depthwise if none is given."""
        return self.groups or self.shape[1]


def _asked(*rows: tuple[str, float, float]) -> dict[str, tuple[float, float]]:
    """Return the two ratios by type."""
    return {dtype: (must, aim) for dtype, must, aim in rows}


F, H, B = "float32", "float16", "bfloat16"
LAYERS = {
    "dw/128x144x56-k3": Layer((128, 144, 56, 56), 144, (3, 3), asked=_asked(
        (F, 482 / 430, 482 / 350), (H, 260 / 220, 260 / 175), (B, 419 / 220, 419 / 175))),
    "dw/128x96x112-k3s2": Layer((128, 96, 112, 112), 96, (3, 3), 2, asked=_asked(
        (F, 1108 / 700, 1108 / 520), (H, 716 / 360, 716 / 270))),
    "dw/128x960x7-k3": Layer((128, 960, 7, 7), 960, (3, 3), asked=_asked((F, 86 / 60, 86 / 42), (H, 62 / 42, 62 / 26))),
    "dw/64x480x14-k5": Layer((64, 480, 14, 14), 480, (5, 5), asked=_asked(
        (F, 159 / 90, 159 / 60), (H, 80 / 55, 80 / 32))),
    "dw/128x96x56-k7": Layer((128, 96, 56, 56), 96, (7, 7), asked=_asked(
        (F, 5466 / 500, 5466 / 340), (H, 1128 / 450, 1128 / 280))),
    "dw/128x384x14-k7": Layer((128, 384, 14, 14), 384, (7, 7), asked=_asked(
        (F, 1608 / 170, 1608 / 115), (H, 332 / 140, 332 / 85))),
    "dw/32x128x56-k31": Layer((32, 128, 56, 56), 128, (31, 31), asked=_asked(
        (F, 22400 / 3200, 22400 / 2000), (B, 27400 / 2600, 27400 / 900))),
    "1d/8x4096x2048-k4": Layer((8, 4096, 2048), 4096, (4,), causal=True, asked=_asked(
        (F, 1667 / 430, 1667 / 350), (B, 1673 / 230, 1673 / 180))),
    "1d/64x768x1024-k7": Layer((64, 768, 1024), 768, (7,), asked=_asked(
        (F, 1609 / 370, 1609 / 280), (H, 406 / 200, 406 / 150), (B, 1651 / 200, 1651 / 150))),
    "1d/8x512x4096-k31": Layer((8, 512, 4096), 512, (31,), asked=_asked(
        (F, 1384 / 280, 1384 / 170), (H, 495 / 150, 495 / 85))),
    "grp/64x256x28-g32": Layer((64, 256, 28, 28), 256, (3, 3), groups=32, asked=_asked(
        (F, 1257 / 450, 1257 / 260), (H, 165 / 115, 165 / 80))),
    "grp/64x128x56-g32": Layer((64, 128, 56, 56), 128, (3, 3), groups=32, asked=_asked(
        (F, 2775 / 650, 2775 / 400), (H, 307 / 240, 307 / 160))),
}  # fmt: skip


def _calls(layer: Layer) -> tuple[Call, Call]:
    """Ours and PyTorch's forward call, of input and weights."""
    flat, length = len(layer.kernel) == 1, layer.shape[-1]
    given = (None, layer.stride, layer.padding, 1, layer.groups_of)

    def cut(call: Call) -> Call:
        return (lambda x, w: call(x, w, *given)[..., :length]) if layer.causal else lambda x, w: call(x, w, *given)

    if not flat:
        return cut(tw.conv2d), cut(functional.conv2d)
    if layer.causal:  # one side is padded; PyTorch pads both, and the rest is cut off
        return lambda x, w: tw.conv1d(x, w, None, 1, (layer.padding, 0), 1, layer.groups_of), cut(functional.conv1d)
    return cut(tw.conv1d), cut(functional.conv1d)


def _tensors(layer: Layer, dtype: Any, last: bool) -> Arrays:
    """Input, weights, and the gradient by the result."""
    x = torch.randn(layer.shape, device="cuda").to(dtype)
    w = (torch.randn((layer.filters, layer.shape[1] // layer.groups_of, *layer.kernel), device="cuda") * 0.1).to(dtype)
    places = [
        (n + 2 * layer.padding - layer.kernel[0]) // layer.stride + 1 if not layer.causal else n
        for n in layer.shape[2:]
    ]
    dy = torch.randn((layer.shape[0], layer.filters, *places), device="cuda").to(dtype)
    if last:
        x, dy = (a.movedim(1, -1).contiguous().movedim(-1, 1) for a in (x, dy))
    return x.requires_grad_(), w.requires_grad_(), dy


def _exact(layer: Layer, x: Any, w: Any, dy: Any) -> Arrays:
    """Result and gradients in float64: of depthwise layers tap by tap, of others by PyTorch."""
    x, w, dy = (a.detach().double() for a in (x, w, dy))
    if layer.groups:
        x, w = x.requires_grad_(), w.requires_grad_()
        y = _calls(layer)[1](x, w)
        return (y.detach(), *torch.autograd.grad(y, (x, w), dy))
    before = [layer.padding] * len(layer.kernel)
    after = [0] * len(layer.kernel) if layer.causal else before
    around = [p for b, a in zip(reversed(before), reversed(after), strict=True) for p in (b, a)]
    padded, y = functional.pad(x, around), torch.zeros_like(dy)
    of_padded, of_w = torch.zeros_like(padded), torch.zeros_like(w)
    for tap in range(prod(layer.kernel)):
        at = [tap // prod(layer.kernel[i + 1 :]) % k for i, k in enumerate(layer.kernel)]
        seen = [slice(a, a + layer.stride * (n - 1) + 1, layer.stride) for a, n in zip(at, dy.shape[2:], strict=True)]
        window, weight = padded[(..., *seen)], w[(slice(None), 0, *at)].reshape(-1, *[1] * len(at))
        y += window * weight
        of_padded[(..., *seen)] += dy * weight
        of_w[(slice(None), 0, *at)] = (window * dy).sum((0, *range(2, dy.dim())))
    inside = [slice(b, b + n) for b, n in zip(before, layer.shape[2:], strict=True)]
    return y, of_padded[(..., *inside)], of_w


def _step(call: Call, x: Any, w: Any, dy: Any, wanted: str) -> Call:
    tensors = [a for a, name in ((x, "x"), (w, "w")) if name in wanted]

    def run() -> Any:
        if not tensors:
            with torch.no_grad():
                return (call(x, w),)
        fixed = [a if name in wanted else a.detach() for a, name in ((x, "x"), (w, "w"))]
        y = call(*fixed)
        return (y, *torch.autograd.grad(y, tensors, dy))

    return run


def _graph(run: Call) -> Callable[[], float]:
    """Record runs on one stream, and return the measurement of one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        stream.synchronize()
        count = max(1, math.ceil(WINDOW / (begin.elapsed_time(end) * 1e-3)))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                run()

    def seconds(held: Call = run) -> float:  # keeps the tensors, since the graph reads and writes their memory
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / count

    return seconds


def measure(name: str, dtype: str) -> dict[str, Any]:
    """Check and time a layer in a type; seconds, and relative errors (result, by input, by weights)."""
    layer, kind = LAYERS[name], getattr(torch, dtype)
    graphs: dict[str, Callable[[], float]] = {}
    errors = [0.0, 0.0, 0.0]
    for order in ("first", "last"):
        x, w, dy = _tensors(layer, kind, order == "last")
        ours, theirs = _calls(layer)
        exact = _exact(layer, x, w, dy)
        made = _step(ours, x, w, dy, "xw")()
        for i, (a, b) in enumerate(zip(made, exact, strict=True)):
            errors[i] = max(errors[i], float((a.detach().double() - b).norm() / b.norm()))
        del exact, made
        graphs[f"theirs {order}"] = _graph(_step(theirs, x, w, dy, "xw"))
        for wanted in ("", "x", "w", "xw"):
            graphs[f"ours {order} {wanted}"] = _graph(_step(ours, x, w, dy, wanted))
    copied = torch.empty_like(x)
    graphs["copy"] = _graph(lambda: copied.copy_(x.detach()))
    times: dict[str, list[float]] = {key: [] for key in graphs}
    for _ in range(ROUNDS):
        for key, seconds in graphs.items():
            times[key].append(seconds())
    found = {key: statistics.median(each) for key, each in times.items()}
    spread = max((max(each) - min(each)) / statistics.median(each) for key, each in times.items() if "xw" in key)
    made = {"device": torch.cuda.get_device_name(), "date": date.today().isoformat()}
    return {"layer": name, "dtype": dtype, "errors": errors, "spread": spread, "seconds": found, "run": made}


def measure_random(problem: Problem) -> dict[str, Any]:
    """Check and time a random layer, both sides in its own memory order."""
    kind, last = getattr(torch, problem.dtype), problem.layout == "NHWC"
    order = torch.channels_last if last else torch.contiguous_format
    x, w, dy = (torch.randn(s, device="cuda") for s in (problem.shape, problem.weights_shape, problem.out_shape))
    x, dy = (a.to(kind, memory_format=order) for a in (x, dy))
    x, w = x.requires_grad_(), (w * 0.1).to(kind).requires_grad_()
    given = (None, problem.stride, problem.padding[:2], problem.dilation, problem.groups)
    ours, theirs = (partial(_with_rest, call, given) for call in (tw.conv2d, functional.conv2d))
    made = _step(ours, x, w, dy, "xw")()
    with torch.backends.cudnn.flags(enabled=False):
        exact = _step(theirs, *(a.detach().double().requires_grad_() for a in (x, w)), dy.double(), "xw")()
    errors = [
        float((a.double() - b).norm() / b.norm())
        for a, b in zip(map(torch.detach, made), map(torch.detach, exact), strict=True)
    ]
    del made, exact  # these bind the tensors to another stream
    graphs = [_graph(_step(call, x, w, dy, "xw")) for call in (ours, theirs)]
    times = [[seconds() for seconds in graphs] for _ in range(ROUNDS)]
    mine, other = (statistics.median(each) for each in zip(*times, strict=True))
    spread = max((max(each) - min(each)) / statistics.median(each) for each in zip(*times, strict=True))
    return {"layer": str(problem), "dtype": problem.dtype, "ours": mine, "theirs": other, "spread": spread,
            "error": max(errors) / LIMITS[problem.dtype]}  # fmt: skip


def _with_rest(call: Call, given: Arrays, x: Any, w: Any) -> Any:
    return call(x, w, *given)


def random_layers(count: int, seed: int) -> Iterator[Problem]:
    """Draw layers, as many in each type and memory order; PyTorch pads both sides alike, so others are left out."""
    modes = [(dtype, layout) for dtype in ("float32", "float16", "bfloat16", "float64") for layout in ("NCHW", "NHWC")]
    for mode in modes:
        even = (p for p in drawn_layers(count, [mode], seed) if p.padding[:2] == p.padding[2:])
        yield from islice(even, max(1, count // len(modes)))


def written_random(lines: list[dict[str, Any]]) -> list[str]:
    """The slowest of the random layers, and the mean of all."""
    lines = sorted(lines, key=lambda line: line["theirs"] / line["ours"])
    rows = [
        [line["layer"], *(f"{line[key] * 1e6:.1f}" for key in ("theirs", "ours")),
         f"{line['theirs'] / line['ours']:.2f}", f"{line['spread']:.0%}", f"{line['error']:.2f}"]
        for line in lines[:15]
    ]  # fmt: skip
    columns = [Column("slowest layers", right=False), *map(Column, ("PyTorch", "ours", "times", "spread", "error"))]
    mean = math.exp(statistics.mean(math.log(line["theirs"] / line["ours"]) for line in lines))
    wrong = sum(line["error"] > 1 for line in lines)
    return [*table(columns, rows), f"{len(lines)} layers, {wrong} wrong, geometric mean {mean:.2f}"]


def written(lines: list[dict[str, Any]]) -> list[str]:
    """The table of all measured layers, in microseconds."""
    heads = [
        "layer",
        "type",
        "copy",
        "PyTorch",
        "f",
        "dx",
        "dw",
        "step",
        "× PyTorch",
        "must",
        "aim",
        "other order",
        "error ÷ limit",
    ]
    rows, ratios = [], []
    for line in lines:
        s, (must, aim) = line["seconds"], LAYERS[line["layer"]].asked[line["dtype"]]
        theirs = min(s["theirs first"], s["theirs last"])
        order = min(("first", "last"), key=lambda o: s[f"ours {o} xw"])
        other = "last" if order == "first" else "first"
        f, step = s[f"ours {order} "], s[f"ours {order} xw"]
        parts = [f, s[f"ours {order} x"] - f, s[f"ours {order} w"] - f, step]
        ratios.append(theirs / step)
        error = max(line["errors"]) / LIMITS[line["dtype"]]
        rows.append([
            f"{line['layer']} {order}", SHORT[line["dtype"]], *(f"{v * 1e6:.1f}" for v in (s["copy"], theirs, *parts)),
            f"{ratios[-1]:.2f}", f"{must:.2f}" + ("" if ratios[-1] >= must else " !"), f"{aim:.2f}",
            f"{s[f'ours {other} xw'] * 1e6:.1f}", f"{error:.2f}",
        ])  # fmt: skip
    columns = [Column(heads[0], right=False), Column(heads[1], right=False), *map(Column, heads[2:])]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    return [*table(columns, rows), f"geometric mean {mean:.2f}"]


def main() -> None:
    """Measure the layers, each in the types that it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="layers with this text in their name")
    parser.add_argument("--types", nargs="*", default=list(SHORT), help="element types")
    parser.add_argument("--random", type=int, default=0, help="measure this many random layers in place of the table")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random layers")
    parser.add_argument("--out", type=Path, help="write a line of JSON per layer and type")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    if given.random:
        print(
            "\n".join(written_random([measure_random(problem) for problem in random_layers(given.random, given.seed)]))
        )
        return
    lines = []
    for name, layer in LAYERS.items():
        for dtype in layer.asked:
            if given.only in name and dtype in given.types:
                try:
                    lines.append(measure(name, dtype))
                except Exception as wrong:  # the others are still measured
                    print(f"{name} {dtype}: {type(wrong).__name__}: {wrong}", file=sys.stderr)
                    continue
                if given.out:
                    with given.out.open("a") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    print(torch.cuda.get_device_name())
    print("\n".join(written(lines)))


if __name__ == "__main__":
    main()
