"""The depthwise ladder: each channel of a batch of images convolved with a small kernel of its own.

Every program takes A (batch, channels, height, width), W (channels, 1, kernel, kernel) and fills an output of A's
shape. Around the images there are zeros, (kernel − 1) / 2 on each side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import te, tir
from ..core.errors import UserError
from .rung import Ladder, Rung, RungProgram, check_sizes, random


def _declare(size: DepthwiseLadder) -> RungProgram:
    """The computation, its padding computed in its readers, with no loop on the hardware yet."""
    B, C, H, W, K = size.batch, size.channels, size.height, size.width, size.kernel
    image = te.placeholder((B, C, H, W), size.dtype, "A")
    weight = te.placeholder((C, 1, K, K), size.dtype, "W")
    ry, rx = te.reduce_axis((0, K), "ry"), te.reduce_axis((0, K), "rx")
    pad = (K - 1) // 2

    def pixel(b: Any, c: Any, h: Any, w: Any) -> Any:
        inside = tir.all(h >= pad, h < H + pad, w >= pad, w < W + pad)
        return tir.if_then_else(inside, image[b, c, h - pad, w - pad], tir.const(0.0, size.dtype))

    padded = te.compute((B, C, H + 2 * pad, W + 2 * pad), pixel, "padded")
    out = te.compute(
        (B, C, H, W),
        lambda b, c, h, w: te.sum(padded[b, c, h + ry, w + rx] * weight[c, 0, ry, rx], axis=[ry, rx]),
        "depthwise_conv",
    )
    s = te.create_schedule(out.op)
    s[padded].compute_inline()
    return RungProgram(s, (image, weight, out))


def naive(size: DepthwiseLadder) -> RungProgram:
    """A block for each image."""
    program = _declare(size)
    s, out = program.schedule, program.args[-1]
    s[out].bind(out.op.axis[0], te.thread_axis("blockIdx.x"))
    return program


def v1(size: DepthwiseLadder) -> RungProgram:
    """A block for each image and channel."""
    program = _declare(size)
    s, out = program.schedule, program.args[-1]
    b, c, _, _ = out.op.axis
    s[out].bind(b, te.thread_axis("blockIdx.x"))
    s[out].bind(c, te.thread_axis("blockIdx.y"))
    return program


def v2(size: DepthwiseLadder) -> RungProgram:
    """A block for each row: images and channels fused on one axis of the grid, rows on the other."""
    program = _declare(size)
    s, out = program.schedule, program.args[-1]
    b, c, h, _ = out.op.axis
    s[out].bind(s[out].fuse(b, c), te.thread_axis("blockIdx.x"))
    s[out].bind(h, te.thread_axis("blockIdx.y"))
    return program


def v3(size: DepthwiseLadder) -> RungProgram:
    """16×16 threads per block, each thread walking along its row of tiles."""
    program = _declare(size)
    s, out = program.schedule, program.args[-1]
    b, c, h, w = out.op.axis
    planes = s[out].fuse(b, c)
    h_outer, h_inner = s[out].split(h, factor=16)
    _, w_inner = s[out].split(w, factor=16)
    s[out].bind(planes, te.thread_axis("blockIdx.x"))
    s[out].bind(h_outer, te.thread_axis("blockIdx.y"))
    s[out].bind(h_inner, te.thread_axis("threadIdx.y"))
    s[out].bind(w_inner, te.thread_axis("threadIdx.x"))
    return program


def v4(size: DepthwiseLadder) -> RungProgram:
    """16×16 threads per block and a block for each tile: one result per thread."""
    program = _declare(size)
    s, out = program.schedule, program.args[-1]
    b, c, h, w = out.op.axis
    planes = s[out].fuse(b, c)
    h_outer, h_inner = s[out].split(h, factor=16)
    w_outer, w_inner = s[out].split(w, factor=16)
    # Only neighbouring loops fuse, so the two outer loops must be neighbours first.
    s[out].reorder(planes, h_outer, w_outer, h_inner, w_inner)
    tiles = s[out].fuse(h_outer, w_outer)
    s[out].bind(planes, te.thread_axis("blockIdx.x"))
    s[out].bind(tiles, te.thread_axis("blockIdx.y"))
    s[out].bind(h_inner, te.thread_axis("threadIdx.y"))
    s[out].bind(w_inner, te.thread_axis("threadIdx.x"))
    return program


@dataclass(frozen=True, kw_only=True)
class DepthwiseLadder(Ladder):
    """The depthwise 2-D convolution of a batch of images, stride 1, output as large as the input."""

    batch: int = 3
    channels: int = 4
    height: int = 16
    width: int = 32
    kernel: int = 7

    title: ClassVar[str] = "depthwise"
    rungs: ClassVar[tuple[Rung, ...]] = (
        Rung("naive", "a block per image", naive),
        Rung("v1", "a block per image and channel", v1),
        Rung("v2", "images and channels fused, a block per row", v2),
        Rung("v3", "16×16 threads, each along a row of tiles", v3),
        Rung("v4", "16×16 threads, a block per tile", v4),
    )

    def __post_init__(self) -> None:
        check_sizes(
            self.dtype, batch=self.batch, channels=self.channels, height=self.height, width=self.width,
            kernel=self.kernel,
        )  # fmt: skip
        if self.kernel % 2 == 0:
            raise UserError(
                f"kernel={self.kernel} is even, so no padding keeps the image's size",
                fix=f"use an odd one, such as {self.kernel + 1}",
                where="",
            )

    def sizes(self) -> str:
        return (
            f"batch={self.batch} channels={self.channels} {self.height}×{self.width} "
            f"kernel {self.kernel}×{self.kernel} {self.dtype}"
        )

    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        data = random(rng, self.dtype, self.batch, self.channels, self.height, self.width)
        return data, random(rng, self.dtype, self.channels, 1, self.kernel, self.kernel)

    @property
    def terms(self) -> int:
        return self.kernel**2

    def numpy(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        pad = self.kernel // 2
        padded = np.pad(data, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        out = np.zeros_like(data)
        for y in range(self.kernel):
            for x in range(self.kernel):
                out += padded[:, :, y : y + self.height, x : x + self.width] * weight[:, :, y, x, None]
        return out

    def torch(self, data: Any, weight: Any) -> list[tuple[str, Callable[[], Any]]]:
        import torch
        from torch.nn.functional import conv2d

        def call(memory_format: Any) -> Callable[[], Any]:
            images, kernels = (t.contiguous(memory_format=memory_format) for t in (data, weight))
            return lambda: conv2d(images, kernels, padding=self.kernel // 2, groups=self.channels)

        ways = (("conv2d", torch.contiguous_format), ("conv2d, channels last", torch.channels_last))
        return [(how, call(memory_format)) for how, memory_format in ways]
