"""Convolutions of well-known networks, measured by `benchmarks.convolutions`."""

from __future__ import annotations

from math import prod
from typing import Any

WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "dw-3x4x16x32-k7": ("depthwise", {"shape": (3, 4, 16, 32), "kernel": 7}),
    "dw-256x21-k3": ("depthwise", {"shape": (1, 256, 21, 21)}),
    "dw-256x32-k3": ("depthwise", {"shape": (1, 256, 32, 32)}),
    "dw-256x64-k3": ("depthwise", {"shape": (1, 256, 64, 64)}),
    "dw-256x96-k3": ("depthwise", {"shape": (1, 256, 96, 96)}),
    "dw-256x96-k5": ("depthwise", {"shape": (1, 256, 96, 96), "kernel": 5}),
    "dw-256x96-k3-m2": ("depthwise", {"shape": (1, 256, 96, 96), "multiplier": 2}),
    "dw-256x96-k5-m2": ("depthwise", {"shape": (1, 256, 96, 96), "kernel": 5, "multiplier": 2}),
    "mbv2-b1-dw32x112": ("depthwise", {"shape": (1, 32, 112, 112)}),
    "mbv2-b128-dw144x56": ("depthwise", {"shape": (128, 144, 56, 56)}),
    "mbv2-b128-dw576x14s2": ("depthwise", {"shape": (128, 576, 14, 14), "stride": 2}),
    "convnext-b1-dw96x56": ("depthwise", {"shape": (1, 96, 56, 56), "kernel": 7}),
    "convnext-b128-dw96x56": ("depthwise", {"shape": (128, 96, 56, 56), "kernel": 7}),
    "dw1d-3072x202-k3": ("depthwise", {"shape": (16, 3072, 1, 202), "kernel": (1, 3)}),
    "dw1d-12288x16384-k4": ("depthwise", {"shape": (1, 12288, 1, 16384), "kernel": (1, 4), "padding": (0, 3, 0, 0)}),
    "dw1d-512x4096-k31": ("depthwise", {"shape": (8, 512, 1, 4096), "kernel": (1, 31)}),
    "dw1d-768x1024-k7": ("depthwise", {"shape": (64, 768, 1, 1024), "kernel": (1, 7)}),
    "conv1d-16384-k32": ("conv1d", {"shape": 16384, "kernel": 32}),
    "replk-b32-dw128x56-k31": ("depthwise", {"shape": (32, 128, 56, 56), "kernel": 31}),
    "grouped-b1-128x56-g32": ("conv2d", {"shape": (1, 128, 56, 56), "groups": 32}),
    "grouped-b16-256x28-g32": ("conv2d", {"shape": (16, 256, 28, 28), "groups": 32}),
    "resnet-last": ("conv2d", {"shape": (1, 512, 7, 7)}),
    "r50-b1-l1.3x3": ("conv2d", {"shape": (1, 64, 56, 56)}),
    "r50-b1-l3.3x3": ("conv2d", {"shape": (1, 256, 14, 14)}),
    "r50-b1-l3.1x1": ("conv2d", {"shape": (1, 256, 14, 14), "filters": 1024, "kernel": 1}),
    "r50-b64-l2.3x3": ("conv2d", {"shape": (64, 128, 28, 28)}),
    "r50-b64-l3.3x3": ("conv2d", {"shape": (64, 256, 14, 14)}),
}
DENSE = ("resnet", "r50")
"""How the names of dense convolutions begin, which another table is for."""
DEPTHWISE = [name for name, (operator, _) in WORKLOADS.items() if operator == "depthwise"]
SMALL_DEPTHWISE = [n for n in DEPTHWISE if prod(WORKLOADS[n][1]["shape"]) < 1e8 and not n.startswith("replk")]
"""Depthwise rows that take a CPU no more than a second."""
