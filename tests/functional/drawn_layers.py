"""Random layers of the one-line calls, each with a random arrangement of its operands in memory."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.functional.arranged import Arrangement, draw_arrangement

GROUP = 10
"""Layers with the same kernels."""
CONVOLUTIONS = ("conv1d", "conv2d", "depthwise_conv2d", "conv_transpose1d", "conv_transpose2d")
POOLS = ("max_pool2d", "avg_pool2d")
TYPES = ("float64", "float32", "float16", "bfloat16")
ACTIVATIONS = ("relu", "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish")
_SMOOTH = ("silu", "gelu", "gelu_tanh", "sigmoid")
"""Activations whose gradients do not depend on the sign of a rounded sum."""
_PRODUCTS = 3_000_000
"""Products of a layer at most."""


@dataclass(frozen=True)
class Group:
    """An operator at one size: the shapes are PyTorch's, channels first and with a batch."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    weight: tuple[int, ...] | None
    filters: int
    options: dict[str, Any]
    last: bool
    """Whether the layout of the calls is channels last."""
    bias: bool = False
    activation: str | None = None
    residual: bool = False

    @property
    def rank(self) -> int:
        return 1 if "1d" in self.name else 2


@dataclass(frozen=True)
class Layer:
    """One call: how its operands lie in memory, by name, and what is computed."""

    number: int
    group: Group
    library: str
    batch: str
    """"batched", "unbatched" or "empty"."""
    task: str
    """"result", "out" or "gradients"."""
    memory: dict[str, Arrangement] = field(default_factory=dict)

    def __str__(self) -> str:
        g = self.group
        given = {**g.options, "bias": g.bias, "activation": g.activation, "residual": g.residual}
        shown = ", ".join(f"{key}={value}" for key, value in given.items() if value)
        memory = "; ".join(f"{what} {how}" for what, how in self.memory.items() if str(how))
        return (
            f"{self.number}: {g.name} {g.shape} {g.weight or ''} {shown} {g.dtype} "
            f"{'channels last' if g.last else ''} {self.library} {self.batch} {self.task}: {memory}"
        )


def draw(seed: int, number: int, device: str = "cpu") -> Layer:
    """The layer of that number in the sequence of a seed."""
    group = draw_group(random.Random(f"{seed} {number // GROUP}"))
    rng = random.Random(f"{seed} layer {number}")
    library = "numpy" if device == "cpu" and rng.random() < 0.25 else "torch"
    batch = "unbatched" if group.shape[0] == 1 and rng.random() < 0.6 else "empty" if rng.random() < 0.03 else "batched"
    task = rng.choice(["result", "result", "out", "gradients", "gradients"])
    if task == "gradients" and (library == "numpy" or not _has_gradient(group)):
        task = "result"
    operands = ["x"] + ["weight"] * (group.weight is not None) + ["bias"] * group.bias + ["residual"] * group.residual
    operands += {"out": ["out"], "gradients": ["grad"], "result": []}[task]
    dims = {"bias": 1, "weight": group.rank + 2}
    own = group.rank + (1 if batch == "unbatched" else 2)
    memory = {
        what: draw_arrangement(rng, dims.get(what, own), library == "numpy", expands=what != "out") for what in operands
    }
    return Layer(number, group, library, batch, task, memory)


def _has_gradient(group: Group) -> bool:
    padding = group.options.get("padding", 0)
    uneven = isinstance(padding, tuple) and isinstance(padding[0], tuple)
    return (group.activation is None or group.activation in _SMOOTH) and not (uneven and group.name in POOLS)


def draw_group(rng: random.Random) -> Group:
    """A group whose window fits its images, and that is not too large."""
    while True:
        name = rng.choice([*CONVOLUTIONS, *CONVOLUTIONS, *POOLS])
        made = _drawn_pool(rng, name) if name in POOLS else _drawn_convolution(rng, name)
        if made is not None:
            return made


def _sizes(rng: random.Random, name: str) -> tuple[int, ...]:
    rank = 1 if "1d" in name else 2
    some = [1, 2, 3, 5, 7, 8, 13, 16, 20, 31] if rank == 2 else [1, 2, 3, 7, 16, 33, 64, 129, 500]
    return (
        rng.choice([1, 1, 1, 2, 3]),
        rng.choice([1, 2, 3, 4, 8, 16, 24, 64]),
        *(rng.choice(some) for _ in range(rank)),
    )


def _drawn_convolution(rng: random.Random, name: str) -> Group | None:
    shape = _sizes(rng, name)
    rank, channels = len(shape) - 2, shape[1]
    kernel = tuple(rng.choice([1, 2, 3, 3, 4, 5, 7]) for _ in range(rank))
    kernel = kernel[:1] * rank if rng.random() < 0.6 else kernel
    stride, dilation = ([rng.choice(some) for _ in range(rank)] for some in ([1, 1, 1, 2, 3], [1, 1, 1, 2]))
    groups = (
        channels if name == "depthwise_conv2d" else rng.choice([1, channels, channels, 2 if channels % 2 == 0 else 1])
    )
    per_group = rng.choice([1, 1, 2, 3] if groups == channels else [1, 2, 5, 8, 16]) * (
        1 if groups > 1 else rng.choice([1, 8])
    )
    covered = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    options: dict[str, Any] = {"stride": tuple(stride), "dilation": tuple(dilation)}
    if name != "depthwise_conv2d" or rng.random() < 0.3:
        options["groups"] = groups
    transposed = "transpose" in name
    around = [(rng.randint(0, c - 1), rng.randint(0, c - 1)) for c in covered]
    around = around if rng.random() < 0.3 else [(a, a) for a, _ in around]
    options["padding"] = tuple(around) if rank == 2 else around[0]
    if not transposed and stride == [1] * rank and rng.random() < 0.15:
        options["padding"] = rng.choice(["same", "valid"])
        around = padding_by_name(options["padding"], covered)
    if transposed:
        options["output_padding"] = tuple(rng.randrange(max(s, d)) for s, d in zip(stride, dilation, strict=True))
        places = [
            (n - 1) * s - a - b + c + m for n, s, (a, b), c, m in
            zip(shape[2:], stride, around, covered, options["output_padding"], strict=True)
        ]  # fmt: skip
        filters, weight = groups * per_group, (channels, per_group, *kernel)
    else:
        places = [(n + a + b - c) // s + 1 for n, (a, b), c, s in zip(shape[2:], around, covered, stride, strict=True)]
        filters, weight = groups * per_group, (groups * per_group, channels // groups, *kernel)
    products = shape[0] * filters * np.prod([max(p, 1) for p in places]) * np.prod(weight[1:])
    if min(places) < 1 or products > _PRODUCTS:
        return None
    if name == "depthwise_conv2d" and rng.random() < 0.3:
        weight = (channels, per_group, *kernel)
    return Group(
        name, rng.choice(TYPES), shape, weight, filters, options, rng.random() < 0.4, rng.random() < 0.4,
        rng.choice([*ACTIVATIONS, *[None] * 7]), rng.random() < 0.25,
    )  # fmt: skip


def padding_by_name(padding: str, covered: list[int]) -> list[tuple[int, int]]:
    return [((c - 1) // 2, c - 1 - (c - 1) // 2) if padding == "same" else (0, 0) for c in covered]


def _drawn_pool(rng: random.Random, name: str) -> Group | None:
    shape = _sizes(rng, name)
    kernel = tuple(rng.choice([1, 2, 3, 3, 5]) for _ in range(2))
    dilation = tuple(rng.choice([1, 1, 2]) for _ in range(2)) if name == "max_pool2d" else (1, 1)
    stride = tuple(rng.choice([1, 2, 3]) for _ in range(2)) if rng.random() < 0.7 else kernel
    padding = tuple(rng.randint(0, k // 2) for k in kernel)
    options: dict[str, Any] = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": rng.random() < 0.4,
    }
    if name == "max_pool2d":
        options["dilation"] = dilation
    else:
        options |= {"count_include_pad": rng.random() < 0.6}
        options |= {"divisor_override": rng.choice([1, 5, -3])} if rng.random() < 0.2 else {}
    covered = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n + 2 * p < c for n, p, c in zip(shape[2:], padding, covered, strict=True)):
        return None
    return Group(name, rng.choice(TYPES), shape, None, shape[1], options, rng.random() < 0.4)
