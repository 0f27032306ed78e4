"""ConvNeXt-T and MobileNetV2 in plain PyTorch, with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class _Norm(nn.LayerNorm):
    """Layer normalisation over the channels of NCHW."""

    def forward(self, x: Any) -> Any:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class _Block(nn.Module):
    """A ConvNeXt block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.act, self.narrow = (
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
        )
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.narrow(self.act(self.wide(y)))).permute(0, 3, 1, 2)


def convnext_tiny() -> Any:
    """ConvNeXt-T: 28 million parameters."""
    layers: list[Any] = [nn.Conv2d(3, 96, 4, 4), _Norm(96)]
    channels = 96
    for depth, wider in ((3, 192), (3, 384), (9, 768), (3, None)):
        layers += [_Block(channels) for _ in range(depth)]
        if wider:
            layers += [_Norm(channels), nn.Conv2d(channels, wider, 2, 2)]
            channels = wider
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(768), nn.Linear(768, 1000)).eval()


class _Inverted(nn.Module):
    """A MobileNetV2 block."""

    def __init__(self, before: int, after: int, stride: int, ratio: int) -> None:
        super().__init__()
        inner = before * ratio
        layers: list[Any] = [] if ratio == 1 else _with_norm(nn.Conv2d(before, inner, 1, bias=False), inner)
        layers += _with_norm(nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), inner)
        self.layers = nn.Sequential(*layers, nn.Conv2d(inner, after, 1, bias=False), nn.BatchNorm2d(after))
        self.adds = stride == 1 and before == after

    def forward(self, x: Any) -> Any:
        return x + self.layers(x) if self.adds else self.layers(x)


def _with_norm(conv: Any, channels: int) -> list[Any]:
    return [conv, nn.BatchNorm2d(channels), nn.ReLU6(inplace=True)]


def mobilenet_v2() -> Any:
    """MobileNetV2: 3.5 million parameters."""
    layers = _with_norm(nn.Conv2d(3, 32, 3, 2, 1, bias=False), 32)
    channels = 32
    settings = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for ratio, after, count, stride in settings:
        for i in range(count):
            layers.append(_Inverted(channels, after, stride if i == 0 else 1, ratio))
            channels = after
    layers += _with_norm(nn.Conv2d(320, 1280, 1, bias=False), 1280)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)).eval()


MODELS = {"ConvNeXt-T": convnext_tiny, "MobileNetV2": mobilenet_v2}
