"""Layers in programs of JAX, ours beside XLA's: python -m benchmarks.jax_layers [--types float32 float16]

A forward pass, and a training step: the result and both gradients. Each program computes a layer several times in a
row, so that the time of a call of a program does not count. "own" is the time of the one-line call by itself, on NumPy
arrays, or on a GPU in a CUDA graph of PyTorch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

import tilewright as tw
from tilewright.report.table import Column, table

ON_GPU = jax.default_backend() == "gpu"
REPEATED = 16
SECONDS, ROUNDS = 0.1, 3


class Layer(NamedTuple):
    """A layer with a result of the shape of its input."""

    title: str
    shape: tuple[int, ...]
    weight: tuple[int, ...]

    @property
    def options(self) -> dict[str, int]:
        return {"padding": self.weight[-1] // 2, "groups": self.shape[1] // self.weight[1]}

    def ours(self, x: Any, w: Any) -> Any:
        return (tw.conv1d if x.ndim == 3 else tw.conv2d)(x, w, **self.options)

    def by_xla(self, x: Any, w: Any) -> Any:
        rank, side = x.ndim - 2, self.weight[-1] // 2
        order = ("NCHW", "OIHW", "NCHW") if rank == 2 else ("NCH", "OIH", "NCH")
        return jax.lax.conv_general_dilated(
            x, w, (1,) * rank, [(side, side)] * rank, dimension_numbers=order,
            feature_group_count=self.options["groups"], precision="highest" if x.dtype == "float32" else None,
        )  # fmt: skip


LAYERS = [
    Layer("depthwise 7x7, 128x96x56x56", (128, 96, 56, 56), (96, 1, 7, 7)),
    Layer("depthwise 3x3, 128x576x14x14", (128, 576, 14, 14), (576, 1, 3, 3)),
    Layer("32 groups 3x3, 16x256x28x28", (16, 256, 28, 28), (256, 8, 3, 3)),
    Layer("depthwise 1-D 7, 64x768x1024", (64, 768, 1024), (768, 1, 7)),
    Layer("dense 3x3, 1x256x14x14", (1, 256, 14, 14), (256, 256, 3, 3)),
]
"""On a CPU, with a batch of one."""


def step(layer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The gradients of half the sum of squares, of the shapes of the arguments."""

    def gradients(x: Any, w: Any) -> Any:
        made, back = jax.vjp(layer, x, w)
        return back(made)

    return gradients


def timed(function: Callable[[Any, Any], Any], count: int, x: Any, w: Any) -> float:
    """The time of a function in a program that applies it to its own results."""

    def program(x: Any, w: Any) -> Any:
        for _ in range(count):
            x, w = function(x, w)
        return x, w

    return seconds(partial(jax.jit(program), x, w), count)


def _beside(layer: Callable[[Any, Any], Any], x: Any, w: Any) -> Any:
    return layer(x, w), w


def seconds(function: Callable[[], Any], count: int) -> float:
    """The time of one of the `count` layers that a function computes: the least of several rounds."""
    jax.block_until_ready(function())
    began = time.perf_counter()
    jax.block_until_ready(function())
    number = max(1, int(SECONDS / (time.perf_counter() - began)))
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(number):
            made = function()
        jax.block_until_ready(made)
        found.append((time.perf_counter() - began) / number / count)
    return min(found)


def own(layer: Layer, x: Any, w: Any) -> float:
    """The time of the call by itself; on a GPU, 0 without PyTorch."""
    if not ON_GPU:
        arrays = np.asarray(x), np.asarray(w)

        def calls() -> Any:
            made = arrays[0]
            for _ in range(REPEATED):
                made = layer.ours(made, arrays[1])
            return made

        return seconds(calls, REPEATED)
    try:
        import torch
    except ImportError:
        return 0.0
    from tilewright.functional.pytorch.graphs import TorchGraphTimer

    tensors = [torch.from_dlpack(a).clone() for a in (x, w)]
    with torch.no_grad():
        timer = TorchGraphTimer(lambda: layer.ours(*tensors))
        return min(timer(REPEATED) for _ in range(ROUNDS)) / REPEATED


def row(layer: Layer, dtype: str) -> list[str]:
    """The cells of a layer in one type, after a check of all results."""
    rng, shape = np.random.default_rng(0), layer.shape if ON_GPU else (1, *layer.shape[1:])
    x = jax.numpy.asarray(rng.standard_normal(shape), dtype)
    small = rng.standard_normal(layer.weight) / np.prod(layer.weight[1:]) ** 0.5 / 16  # the gradient fits into float16
    w = jax.numpy.asarray(small, dtype)
    pairs = zip(jax.jit(step(layer.ours))(x, w), jax.jit(step(layer.by_xla))(x, w), strict=True)
    error = max(float(jax.numpy.linalg.norm(a - b) / jax.numpy.linalg.norm(b)) for a, b in pairs)
    if not error < (1e-4 if dtype == "float32" else 3e-2):
        raise SystemExit(f"{layer.title} {dtype}: gradients differ by {error:.1e}")
    both = layer.ours, layer.by_xla
    forward = [timed(partial(_beside, each), REPEATED, x, w) for each in both]
    whole = [timed(step(each), 2, x, w) for each in both]
    alone = own(layer, x, w)
    shown = [f"{each * 1e6:,.1f}" for each in (alone, *forward)]
    shown += [f"{forward[1] / forward[0]:.2f}", *[f"{each * 1e6:,.1f}" for each in whole]]
    return [layer.title, dtype, *shown, f"{whole[1] / whole[0]:.2f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", nargs="+", default=["float32", "float16"] if ON_GPU else ["float32"])
    chosen = parser.parse_args()
    heads = ["own µs", "in JAX µs", "XLA µs", "times", "step µs", "XLA's step µs", "times"]
    rows = [row(layer, dtype) for dtype in chosen.types for layer in LAYERS]
    columns = [Column("layer", right=False), Column("type", right=False), *map(Column, heads)]
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}")
    print("\n".join(table(columns, rows)))


if __name__ == "__main__":
    main()
