"""A causal 1-D layer on NumPy arrays: four taps for each channel, bias and SiLU in the same kernel.

    python examples/causal_conv1d.py [length]

State-space models (Mamba, Hyena) begin with such a layer. Causal: all zeros of the padding stand before the signal.
"""

import sys
import time

import numpy as np

import tilewright as tw


def main(length=2048):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 256, length), np.float32)
    weight, bias = rng.standard_normal((256, 1, 4), np.float32), rng.standard_normal(256, np.float32)

    def layer(x):
        return tw.conv1d(x, weight, bias, padding=(3, 0), groups=256, activation="silu")

    y = layer(x)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (3, 0)))
    v = sum(padded[:, :, k : k + length] * weight[:, :, k] for k in range(4)) + bias[:, None]
    print(f"largest difference from float64: {np.abs(y - v / (1 + np.exp(-v))).max():.1e}")
    later = x.copy()
    later[:, :, length // 2 :] = 0
    print("causal:", np.array_equal(layer(later)[:, :, : length // 2], y[:, :, : length // 2]))
    began = time.perf_counter()
    for _ in range(20):
        layer(x)
    print(f"{(time.perf_counter() - began) / 20 * 1e6:.0f} µs per call, on the CPU")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
