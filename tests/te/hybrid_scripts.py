"""Scripts of every part of the hybrid language, with values to run them on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.loops.running import floats
from tilewright import te

# ruff: noqa: F821  # the words of the language are known where a script is read


@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), a.dtype)
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def row_statistics(a):
    """Several results, variables, and branches within a loop."""
    total = output_tensor((a.shape[0],), "float32")
    best = output_tensor((a.shape[0],), "int32")
    for i in range(a.shape[0]):
        s = 0.0
        at = 0
        for j in range(a.shape[1]):
            s += a[i, j]
            if a[i, j] > a[i, at]:
                at = j
        total[i] = exp(s) if s < 0 else -s
        best[i] = at
    return total, best


@te.hybrid.script
def fibonacci(a):
    b = output_tensor(a.shape, "int32")
    for i in range(2):
        b[i] = a[i]
    for i in range(2, a.shape[0]):
        b[i] = b[i - 1] + b[i - 2]
    return b


@te.hybrid.script
def reverse_and_step(a):
    """Values that are kept before they are overwritten, and loops with steps."""
    b = output_tensor((8,), "float32")
    for i in range(8):
        b[i] = a[i]
    for i in range(4):
        t = b[i]
        b[i] = b[7 - i]
        b[7 - i] = t
    x, y = b[0], b[1]
    b[0], b[1] = y, x
    for i in range(0, 8, 3):
        b[i] *= 2.0
    for i in range(7, 0, -2):
        b[i] += 0.5
    return b


@te.hybrid.script
def every_loop(a, n):
    b = output_tensor((n, 4), "float32")
    tmp = allocate((n,), "float32")
    for i in parallel(n):
        tmp[i] = 0.0
        for k in const_range(3):
            tmp[i] += a[i] + k
    for i in range(n):
        for j in vectorize(4):
            b[i, j] = tmp[i] + sqrt(a[i]) * float32(j) if i % 2 == 0 and j != 3 else max(a[i], 1, 2.0)
        for j in unroll(2):
            b[i][j] = -b[i][j] * 0.3 + (i // 2)
    return b


@te.hybrid.script
def all_branches(a):
    """A variable that every branch assigns, and one that lives through the loop."""
    b = output_tensor((a.shape[0],), "float32")
    last = 0.0
    for i in range(a.shape[0]):
        if a[i] > 0.5:
            s = 1.0
        elif not a[i] > 0.25 or i == 3:
            s = 2.0
        else:
            s = 3.0
        for k in const_range(2):
            s = s * 2
            u = s + k
            s = u
        for _j in range(i):
            last = last + 1
        b[i] = s + last
    return b


WIDTH = 3


def weight(k: int) -> float:
    """Python's, called as the script is read."""
    return 1.0 / (k + 1)


@te.hybrid.script
def shifted(n, x):
    """Another script, which one below calls."""
    y = output_tensor((n,), x.dtype)
    for i in range(n):
        assert i < n, "never"
        y[i] = x[i + WIDTH] if i + WIDTH < n else 0.0
    return y


@te.hybrid.script
def from_outside(a):
    """Names of the module, functions, and scripts."""
    n = len(a)
    t = allocate((n,), "float32")
    for i in range(n):
        t[i] = i + 1.0
    first = shifted(n, a)
    second = shifted(n, t)
    b = output_tensor(first.shape, first.dtype)
    if n > 4 and a.ndim == 1:
        for i in range(n):
            b[i] = first[i] * weight(WIDTH) + second[i]
    else:
        not_read_at_all(a)
    return b


@te.hybrid.script
def triangle(a):
    """Loops whose range depends on another one."""
    b = output_tensor(a.shape, "float32")
    for i in range(a.shape[0]):
        for j in range(i + 1):
            b[i, j] = a[i, j]
        for j in range(i + 1, a.shape[1]):
            b[i, j] = a[j, i]
    return b


@te.hybrid.script
def collatz(a):
    """How many steps each number takes down to 1: loops whose length is known only as they run."""
    b = output_tensor(a.shape, "int32")
    for i in range(a.shape[0]):
        n = a[i]
        steps = 0
        while n > 1 and steps < 200:
            if n % 2 == 0:
                n = n // 2
            else:
                tripled = 3 * n
                n = tripled + 1
            steps += 1
        b[i] = steps
    return b


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (outer_product, (floats(12), floats(7))),
    (collatz, (np.arange(1, 24, dtype="int32"),)),
    (row_statistics, (floats(9, 11) - np.float32(0.6),)),
    (fibonacci, (np.arange(1, 11, dtype="int32"),)),
    (reverse_and_step, (floats(8),)),
    (every_loop, (np.abs(floats(6)), 6)),
    (all_branches, (floats(12),)),
    (from_outside, (floats(10),)),
    (triangle, (floats(6, 6),)),
]


@te.hybrid.script
def mathematics(a):
    b = output_tensor((12, a.shape[0]), "float32")
    p = output_tensor((a.shape[0],), "int32")
    for i in range(a.shape[0]):
        x = a[i]
        b[0, i] = sigmoid(x) + tanh(x)
        b[1, i] = log(x + 3) * exp(-x)
        b[2, i] = power(x + 3, 1.5) + rsqrt(x + 3)
        b[3, i] = floor(x) + ceil(x) + trunc(x) + round(x)
        b[4, i] = min(x, 0.5) + abs(x) + clip(x, -0.25, 0.25)
        b[5, i] = erf(x) + cos(x) + atan2(x, 2.0)
        b[6, i] = (x + 3) ** 2 - x % 0.75
        b[7, i] = float32(int32(x * 10)) if not isnan(x) else 0.0
        b[8, i] = float32(ceil_div(i, 3) + (i << 2 & 7 | 1) ^ 3)
        b[9, i] = fmod(x, 0.3) + copysign(2.0, x)
        b[10, i] = 1.0 if 0 < x <= 0.5 else -1.0
        b[11, i] = float32(~i >> 1) + max_num_threads()
        p[i] = popcount(i * 37)
    return b, p
