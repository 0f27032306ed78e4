"""Training steps of whole models on a GPU, with PyTorch's convolutions and with ours.

    python -m benchmarks.training_models [--only TEXT] [--compile | --graph] [--accelerate] [--steps N] [--out FILE]

A step is forward, loss, backward and optimizer, under autocast to bfloat16. Ours has `tilewright.nn` in place of
depthwise and grouped convolutions, with the same parameters. With `--accelerate`, `tw.accelerate(training=True)`
chooses the layers to replace. Both sides take turns, a few steps each; medians count. With `--compile`, both go through
`torch.compile`. With `--graph`, whole steps are recorded in CUDA graphs: eager steps of these models wait for the host,
and its times vary. Losses after the first steps are compared. While steps are timed, all threads run on one core, and
the collector of cycles is off. `--out` appends a line of JSON for each model, which `benchmarks.results --take` stores.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tilewright as tw
import tilewright.nn
from benchmarks.stored_runs import run_of
from tilewright.report.table import Column, table

ROUNDS, WARM, REST = 13, 5, 5.0
"""Turns of each side, and steps before the first turn, in which kernels compile. Then some seconds, in which the
launchers of small calls compile.
"""


class ShortConvolution(nn.Module):
    """A gated short convolution: two streams of 2048, four causal taps with SiLU on one, a gate, and a residual."""

    def __init__(self, width: int = 1024, inner: int = 2048, taps: int = 4) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.into, self.out = nn.Linear(width, 2 * inner), nn.Linear(inner, width)
        self.inner, self.taps, self.ours = inner, taps, False
        self.weight = nn.Parameter(torch.randn(inner, 1, taps) / taps)
        self.bias = nn.Parameter(torch.zeros(inner))

    def forward(self, x: Any) -> Any:
        """Mix (batch, length, width)."""
        mixed, gate = self.into(self.norm(x)).split(self.inner, dim=-1)
        mixed = mixed.transpose(1, 2)
        if self.ours:
            mixed = tw.conv1d(mixed, self.weight, self.bias, padding=(self.taps - 1, 0), groups=self.inner,
                              activation="silu")  # fmt: skip
        else:
            made = nn.functional.conv1d(mixed, self.weight, self.bias, padding=self.taps - 1, groups=self.inner)
            mixed = nn.functional.silu(made[..., : x.shape[1]])
        return x + self.out(mixed.transpose(1, 2) * gate)


def _of_timm(name: str, last: bool) -> Callable[[], tuple[nn.Module, Any]]:
    def made() -> tuple[nn.Module, Any]:
        import timm

        order = torch.channels_last if last else torch.contiguous_format
        model = timm.create_model(name, num_classes=10, drop_path_rate=0.0)
        return model.to("cuda", memory_format=order), torch.randn(64, 3, 224, 224, device="cuda").to(
            memory_format=order
        )

    return made


def _stack() -> tuple[nn.Module, Any]:
    return nn.Sequential(*(ShortConvolution() for _ in range(12))).cuda(), torch.randn(8, 2048, 1024, device="cuda")


MODES = {"graph": "CUDA graph"}
"""Names of modes in tables, if they differ."""
MODELS: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "convnext_tiny": _of_timm("convnext_tiny", False),
    "convnext_tiny, channels last": _of_timm("convnext_tiny", True),
    "efficientnet_b0": _of_timm("efficientnet_b0", False),
    "efficientnet_b0, channels last": _of_timm("efficientnet_b0", True),
    "12 short convolutions": _stack,
}


def replaced(model: nn.Module) -> nn.Module:
    """Return a copy with our modules in place of depthwise and grouped convolutions, and our short convolutions."""
    made = copy.deepcopy(model)
    for parent in list(made.modules()):
        if isinstance(parent, ShortConvolution):
            parent.ours = True
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Conv2d and layer.groups > 1 and layer.padding_mode == "zeros":
                other = tw.nn.Conv2d(
                    layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding,
                    layer.dilation, layer.groups, layer.bias is not None,
                )  # fmt: skip
                other.weight, other.bias = layer.weight, layer.bias
                setattr(parent, name, other)
    return made


def accelerated(model: nn.Module, x: Any, graph: bool) -> nn.Module:
    """Return a copy that `accelerate` has changed for training steps, and print the end of its report."""
    made = copy.deepcopy(model).train()
    with torch.autocast("cuda", torch.bfloat16):
        report = tw.accelerate(made, x, training=True, cuda_graph=graph)
    print(*str(report).splitlines()[-2:], sep="\n", flush=True)
    return made


def stepping(model: nn.Module, x: Any, compiled: bool, capturable: bool = False) -> Callable[[], Any]:
    """Return one training step, which returns the loss; `capturable` ones may be recorded in a CUDA graph."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=capturable)
    run = torch.compile(model) if compiled else model

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(x).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def recorded(model: nn.Module, step: Callable[[], Any]) -> Callable[[], Any]:
    """Return the replay of a step in a CUDA graph.

    The replay keeps the step, since the graph reads its optimizer's memory.
    """
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()
    return lambda: (graph.replay(), loss, step)[1]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run all threads of this process on one core, without collections of cycles."""
    before = os.sched_getaffinity(0)
    threads = [int(each) for each in os.listdir("/proc/self/task")]
    gc.collect()
    gc.disable()
    for thread in threads:
        os.sched_setaffinity(thread, {max(before)})
    try:
        yield
    finally:
        for thread in threads:
            os.sched_setaffinity(thread, before)
        gc.enable()


def measure(name: str, mode: str, steps: int, by_accelerate: bool = False) -> dict[str, Any]:
    """Time both sides in turns; milliseconds of a step, and the most GiB of new memory."""
    torch.manual_seed(0)
    model, x = MODELS[name]()
    ours = accelerated(model, x, mode == "graph") if by_accelerate else replaced(model)
    models, given = (model.train(), ours.train()), (mode == "compiled", mode == "graph")
    sides = [stepping(each, x, *given) for each in models]
    losses = [[float(step()) for _ in range(WARM)] for step in sides]
    peaks = [_peak(step) for step in sides]
    if mode == "graph":
        sides = [recorded(each, step) for each, step in zip(models, sides, strict=True)]
    time.sleep(REST)
    times: list[list[float]] = [[], []]
    with undisturbed():
        for _ in range(ROUNDS):
            for step, into in zip(sides, times, strict=True):
                torch.cuda.synchronize()
                began = time.perf_counter()
                for _ in range(steps):
                    step()
                torch.cuda.synchronize()
                into.append((time.perf_counter() - began) / steps * 1e3)
    apart = max(abs(a - b) / abs(a) for a, b in zip(*losses, strict=True))
    found = {"pytorch_ms": statistics.median(times[0]), "ms": statistics.median(times[1])}
    found |= {"pytorch_best_ms": min(times[0]), "best_ms": min(times[1]), "pytorch_gib": peaks[0], "gib": peaks[1]}
    found["spread"] = max((max(each) - min(each)) / statistics.median(each) for each in times)
    run = run_of("python -m benchmarks.training_models", torch.cuda.get_device_name())
    mode = MODES.get(mode, mode) + ", accelerate" * by_accelerate
    return {"training_model": name, "mode": mode, **found, "losses_differ": apart, "run": run}


def _peak(step: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return float((torch.cuda.max_memory_allocated() - before) / 2**30)


def row_of(line: dict[str, Any]) -> list[str]:
    """Return the line of a model in the printed table."""
    ratios = (line["pytorch_ms"] / line["ms"], line["pytorch_best_ms"] / line["best_ms"])
    numbers = [f"{line[key]:.2f}" for key in ("pytorch_ms", "ms", "pytorch_gib", "gib")]
    return [line["training_model"], line["mode"], *numbers[:2], *(f"{each:.2f}" for each in ratios),
            f"{line['spread']:.0%}", *numbers[2:], f"{line['losses_differ']:.1e}"]  # fmt: skip


def main() -> None:
    """Measure the models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models with this text in their name")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--compile", action="store_true", help="both sides through torch.compile")
    modes.add_argument("--graph", action="store_true", help="whole steps of both sides as CUDA graphs")
    parser.add_argument("--accelerate", action="store_true", help="ours is the model after accelerate(training=True)")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--out", type=Path, help="append a line of JSON for each model")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU")
    torch.backends.cudnn.benchmark = True
    rows, mode = [], "compiled" if given.compile else "graph" if given.graph else "eager"
    for name in MODELS:
        if given.only in name:
            line = measure(name, mode, given.steps, given.accelerate)
            rows.append(row_of(line))
            print(*rows[-1], sep="  ", flush=True)
            if given.out:
                with given.out.open("a", encoding="utf-8") as file:
                    print(json.dumps(line), file=file)
            torch.cuda.empty_cache()
    heads = ["model", "mode", "PyTorch ms", "ours ms", "times as fast", "of the best", "spread", "PyTorch GiB",
             "ours GiB", "losses differ"]  # fmt: skip
    print(
        "\n".join(table([Column(heads[0], right=False), Column(heads[1], right=False), *map(Column, heads[2:])], rows))
    )


if __name__ == "__main__":
    main()
