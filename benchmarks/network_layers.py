"""The convolutions of common networks, each with how often one run of the network computes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tilewright.functional.arguments.problem import CONV, Problem

Layer = tuple[Any, int, Any, int, Any, int, int, tuple[int, int]]
"""Channels, filters, window, step, zeros around, groups, how often; then rows and columns of the input."""


def _depthwise(*rows: tuple[int, int, int, int, int]) -> Iterator[Layer]:
    """Rows: channels, size, window, step, how often."""
    for channels, size, taps, step, often in rows:
        yield channels, channels, taps, step, taps // 2, channels, often, (size, size)


def _dense(*rows: tuple[int, int, int, int, int, int]) -> Iterator[Layer]:
    """Rows: channels, filters, size, window, step, how often."""
    for channels, filters, size, taps, step, often in rows:
        yield channels, filters, taps, step, taps // 2, 1, often, (size, size)


def _causal(*rows: tuple[int, int, int, int]) -> Iterator[Layer]:
    """Rows: channels, length, taps, how often; each channel by itself, padded at its beginning alone."""
    for channels, length, taps, often in rows:
        yield channels, channels, (1, taps), 1, (0, taps - 1, 0, 0), channels, often, (1, length)


_STEM = (3, 64, 224, 7, 2, 1)
NETWORKS: dict[str, list[Layer]] = {
    "MobileNetV2": [*_depthwise(
        (32, 112, 3, 1, 1), (96, 112, 3, 2, 1), (144, 56, 3, 1, 1), (144, 56, 3, 2, 1), (192, 28, 3, 1, 2),
        (192, 28, 3, 2, 1), (384, 14, 3, 1, 4), (576, 14, 3, 1, 2), (576, 14, 3, 2, 1), (960, 7, 3, 1, 3),
    )],
    "MobileNetV3-Large": [*_depthwise(
        (16, 112, 3, 1, 1), (64, 112, 3, 2, 1), (72, 56, 3, 1, 1), (72, 56, 5, 2, 1), (120, 28, 5, 1, 2),
        (240, 28, 3, 2, 1), (200, 14, 3, 1, 1), (184, 14, 3, 1, 2), (480, 14, 3, 1, 1), (672, 14, 3, 1, 1),
        (672, 14, 5, 2, 1), (960, 7, 5, 1, 2),
    )],
    "EfficientNet-B0": [*_depthwise(
        (32, 112, 3, 1, 1), (96, 112, 3, 2, 1), (144, 56, 3, 1, 1), (144, 56, 5, 2, 1), (240, 28, 5, 1, 1),
        (240, 28, 3, 2, 1), (480, 14, 3, 1, 2), (480, 14, 5, 1, 1), (672, 14, 5, 1, 2), (672, 14, 5, 2, 1),
        (1152, 7, 5, 1, 3), (1152, 7, 3, 1, 1),
    )],
    "ConvNeXt-T": [*_depthwise((96, 56, 7, 1, 3), (192, 28, 7, 1, 3), (384, 14, 7, 1, 9), (768, 7, 7, 1, 3))],
    "Mamba": [*_causal((1536, 2048, 4, 24), (2048, 2048, 4, 48), (5120, 2048, 4, 64))],
    "Hyena": [*_causal((2304, 2048, 3, 18), (768, 8192, 3, 6))],
    "WaveNet": [
        (128, 256, (1, 2), 1, (0, apart, 0, 0), 1, 1, (1, 16000)) for apart in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    ],
    "ResNet-18": [*_dense(
        _STEM, (64, 64, 56, 3, 1, 4), (64, 128, 56, 3, 2, 1), (128, 128, 28, 3, 1, 3), (128, 256, 28, 3, 2, 1),
        (256, 256, 14, 3, 1, 3), (256, 512, 14, 3, 2, 1), (512, 512, 7, 3, 1, 3), (64, 128, 56, 1, 2, 1),
        (128, 256, 28, 1, 2, 1), (256, 512, 14, 1, 2, 1),
    )],
    "ResNet-50": [*_dense(
        _STEM, (64, 64, 56, 1, 1, 1), (64, 64, 56, 3, 1, 3), (64, 256, 56, 1, 1, 4), (256, 64, 56, 1, 1, 2),
        (256, 128, 56, 1, 1, 1), (128, 128, 56, 3, 2, 1), (128, 512, 28, 1, 1, 4), (512, 128, 28, 1, 1, 3),
        (128, 128, 28, 3, 1, 3), (256, 512, 56, 1, 2, 1), (512, 256, 28, 1, 1, 1), (256, 256, 28, 3, 2, 1),
        (256, 1024, 14, 1, 1, 6), (1024, 256, 14, 1, 1, 5), (256, 256, 14, 3, 1, 5), (512, 1024, 28, 1, 2, 1),
        (1024, 512, 14, 1, 1, 1), (512, 512, 14, 3, 2, 1), (512, 2048, 7, 1, 1, 3), (2048, 512, 7, 1, 1, 2),
        (512, 512, 7, 3, 1, 2), (1024, 2048, 14, 1, 2, 1),
    )],
    "U-Net": [*_dense(
        (3, 64, 256, 3, 1, 1), (64, 64, 256, 3, 1, 2), (64, 128, 128, 3, 1, 1), (128, 128, 128, 3, 1, 2),
        (128, 256, 64, 3, 1, 1), (256, 256, 64, 3, 1, 2), (256, 512, 32, 3, 1, 1), (512, 512, 32, 3, 1, 2),
        (512, 1024, 16, 3, 1, 1), (1024, 1024, 16, 3, 1, 1), (1024, 512, 32, 3, 1, 1), (512, 256, 64, 3, 1, 1),
        (256, 128, 128, 3, 1, 1), (128, 64, 256, 3, 1, 1),
    )],
}  # fmt: skip
_MODES = (("float32", "NCHW"), ("float16", "NCHW"), ("float16", "NHWC"))
_DENSE_MODES = (("float32", "NCHW"), ("float16", "NHWC"))
"""Modes of dense layers: float16 in NCHW is left to PyTorch."""
_BATCHES, _DENSE_BATCHES = (1, 32, 128), (1,)


def layers() -> dict[Problem, Counter[str]]:
    """Return each distinct layer, with the networks that have it and how often they compute it."""
    found: dict[Problem, Counter[str]] = {}
    for network, rows in NETWORKS.items():
        for channels, filters, window, step, zeros, groups, often, size in rows:
            dense, line = groups == 1, size[0] == 1
            for dtype, layout in _DENSE_MODES if dense else _MODES:
                for batch in _DENSE_BATCHES if dense else (1, 8) if line else _BATCHES:
                    apart = zeros[1] if dense and line else 1
                    problem = Problem(
                        CONV, (batch, channels, *size), filters,
                        (window, window) if isinstance(window, int) else window, (1 if line else step, step),
                        (zeros,) * 4 if isinstance(zeros, int) else zeros, (1, apart), groups, dtype, layout,
                    ).with_filters_last  # fmt: skip
                    found.setdefault(problem, Counter())[network] += often
    return found
