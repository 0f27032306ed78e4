"""A MobileNet-like model before and after `tilewright.accelerate`, and undone again.

python examples/accelerate_mobilenet.py [batch] [size]
"""

import sys

import torch
from torch import nn

import tilewright as tw


def separable(before, after, stride):
    """A depthwise 3x3 and a pointwise convolution, each with batch normalisation and ReLU6."""
    return [
        nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False), nn.BatchNorm2d(before), nn.ReLU6(),
        nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU6(),
    ]  # fmt: skip


def main(batch=1, size=64):
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    for before, after, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2)):
        layers += separable(before, after, stride)
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)).to(device).eval()
    x = torch.randn(batch, 3, size, size, device=device)
    with torch.no_grad():
        before = model(x)
        print(f"measuring the layers of {batch}×3×{size}×{size} on the {device}, and then the model ...", flush=True)
        done = tw.accelerate(model, x)
        print(done)
        print("results agree:", torch.allclose(model(x), before, rtol=1e-3, atol=1e-4))
        done.undo()
        print("undone:", all(type(layer) is not tw.nn.Conv2d for layer in model))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
