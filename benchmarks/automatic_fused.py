"""Fused programs for `tw.auto_schedule`: normalisations, losses, images, grids, iterations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.automatic_programs import FLOAT, HALF, Program, Tensors, axis_of, dequantise, input_of, pairwise
from tilewright import te, tir, topi

# Normalisations and losses


def softmax(n: int, m: int) -> Tensors:
    x = input_of("x", n, m)
    return [x], [topi.nn.softmax(x)]


def layer_norm(n: int, m: int) -> Tensors:
    x, gamma, beta = input_of("x", n, m), input_of("gamma", m), input_of("beta", m)
    return [x, gamma, beta], [topi.nn.layer_norm(x, gamma, beta, [1])]


def group_norm(n: int, c: int, h: int, groups: int) -> Tensors:
    x, gamma, beta = input_of("x", n, c, h, h), input_of("gamma", c), input_of("beta", c)
    return [x, gamma, beta], [topi.nn.group_norm(x, gamma, beta, groups, 1, [2, 3])]


def _group_norm(xp: Any, x: Any, gamma: Any, beta: Any, groups: int) -> Any:
    n, c, h, w = x.shape
    parts = x.reshape(n, groups, -1)
    centered = parts - parts.mean(-1, keepdims=True)
    normal = centered / xp.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)
    return normal.reshape(n, c, h, w) * gamma[:, None, None] + beta[:, None, None]


def rms_norm(n: int, m: int) -> Tensors:
    x, weight = input_of("x", n, m), input_of("weight", m)
    k = axis_of(m, "k")
    squares = te.compute((n,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="squares")
    scale = te.compute((n,), lambda i: te.rsqrt(squares[i] / float(m) + 1e-5), name="scale")
    return [x, weight], [te.compute((n, m), lambda i, j: x[i, j] * scale[i] * weight[j], name="normal")]


def _rms_norm(xp: Any, x: Any, weight: Any) -> Any:
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def _norm(xp: Any, x: Any, gamma: Any, beta: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered / xp.sqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * gamma + beta


def _softmax(xp: Any, x: Any) -> Any:
    part = xp.exp(x - xp.amax(x, -1, keepdims=True))
    return part / part.sum(-1, keepdims=True)


def _logsumexp(xp: Any, x: Any) -> Any:
    high = xp.amax(x, -1, keepdims=True)
    return xp.log(xp.exp(x - high).sum(-1)) + high[:, 0]


def _declare_logsumexp(x: Any) -> Any:
    n, m = topi.utils.get_const_tuple(x.shape)
    k, r = axis_of(m, "k"), axis_of(m, "r")
    high = te.compute((n,), lambda i: te.max(x[i, k], axis=k), name="high")
    sums = te.compute((n,), lambda i: te.sum(te.exp(x[i, r] - high[i]), axis=r), name="sums")
    return te.compute((n,), lambda i: te.log(sums[i]) + high[i], name="logsumexp")


def cross_entropy(n: int, classes: int) -> Tensors:
    x, labels = input_of("x", n, classes), input_of("labels", n, dtype="int32")
    total = _declare_logsumexp(x)
    return [x, labels], [te.compute((n,), lambda i: total[i] - x[i, labels[i]], name="loss")]


def logsumexp(n: int, m: int) -> Tensors:
    x = input_of("x", n, m)
    return [x], [_declare_logsumexp(x)]


def rope(batch: int, length: int, heads: int, size: int) -> Tensors:
    half = size // 2
    x = input_of("x", batch, length, heads, size)
    cos, sin = input_of("cos", length, half), input_of("sin", length, half)

    def turned(b: Any, t: Any, h: Any, d: Any) -> Any:
        first = x[b, t, h, d] * cos[t, d] - x[b, t, h, d + half] * sin[t, d]
        second = x[b, t, h, d] * cos[t, d - half] + x[b, t, h, d - half] * sin[t, d - half]
        return te.if_then_else(d < half, first, second)

    return [x, cos, sin], [te.compute(x.shape, turned, name="turned")]


def _rope(xp: Any, x: Any, cos: Any, sin: Any) -> Any:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = cos[:, None], sin[:, None]
    return xp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def cumulative_mean(n: int, m: int) -> Tensors:
    x, state = input_of("x", n, m), input_of("state", n, m)
    first = te.compute((1, m), lambda _, j: x[0, j], name="first")
    update = te.compute((n, m), lambda t, j: state[t - 1, j] + x[t, j], name="update")
    sums = te.scan(first, update, state, inputs=[x], name="sums")
    return [x], [te.compute((n, m), lambda t, j: sums[t, j] / (t + 1).astype(FLOAT), name="mean")]


def _cumulative_mean(xp: Any, x: Any) -> Any:
    return xp.cumsum(x, 0) / _like(xp, np.arange(1, len(x) + 1), x)[:, None]


def _like(xp: Any, values: np.ndarray, array: Any) -> Any:
    """Constants in the type and on the device of an array."""
    if xp is np:
        return values.astype(array.dtype)
    return xp.as_tensor(values, dtype=array.dtype, device=array.device)


# Images and grids


def box_blur(n: int, h: int, w: int) -> Tensors:
    x = input_of("x", n, h, w)
    padded = topi.nn.pad(x, [0, 2, 2], [0, 2, 2], name="padded")
    dy, dx = axis_of(5, "dy"), axis_of(5, "dx")
    sums = te.compute((n, h, w), lambda b, y, i: te.sum(padded[b, y + dy, i + dx], axis=[dy, dx]), name="sums")
    return [x], [te.compute((n, h, w), lambda b, y, i: sums[b, y, i] * (1 / 25), name="blurred")]


def _shifted(x: Any, reach: int) -> list[Any]:
    """The neighbours of each element inside, row by row."""
    h, w = x.shape[-2:]
    steps = range(2 * reach + 1)
    return [x[..., y : h - 2 * reach + y, i : w - 2 * reach + i] for y in steps for i in steps]


def _box_blur(xp: Any, x: Any) -> Any:
    if xp is not np:
        return xp.nn.functional.avg_pool2d(x, 5, 1, 2)
    return sum(_shifted(np.pad(x, ((0, 0), (2, 2), (2, 2))), 2)) / 25


def bilateral(h: int, w: int) -> Tensors:
    x = input_of("x", h, w)
    dy, dx = axis_of(5, "dy"), axis_of(5, "dx")
    both = te.comm_reducer(
        lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda t, u: (tir.const(0, t), tir.const(0, u)), name="both"
    )

    def terms(y: Any, i: Any) -> Any:
        near = (dy - 2) * (dy - 2) + (dx - 2) * (dx - 2)
        other = x[y + dy, i + dx]
        apart = other - x[y + 2, i + 2]
        weight = te.exp(near.astype(FLOAT) * (-1 / 8) - apart * apart * 2.0)
        return both((weight * other, weight), axis=[dy, dx])

    values, weights = te.compute((h - 4, w - 4), terms, name="sums")
    return [x], [te.compute((h - 4, w - 4), lambda y, i: values[y, i] / weights[y, i], name="filtered")]


def _bilateral(xp: Any, x: Any) -> Any:
    center, places = x[2:-2, 2:-2], range(-2, 3)
    values, weights = 0.0, 0.0
    for near, other in zip((y * y + i * i for y in places for i in places), _shifted(x, 2), strict=True):
        weight = xp.exp(-near / 8 - (other - center) ** 2 * 2.0)
        values, weights = values + weight * other, weights + weight
    return values / weights


def _middle(least: Any, most: Any, a: Any, b: Any, c: Any) -> Any:
    return most(least(a, b), least(most(a, b), c))


def median(h: int, w: int) -> Tensors:
    """Columns of three are sorted first. The greatest low, the median mid and the least high have the same median."""
    x = input_of("x", h, w)

    def columns(name: str, value: Callable[[Any, Any, Any], Any]) -> Any:
        return te.compute((h - 2, w), lambda y, i: value(x[y, i], x[y + 1, i], x[y + 2, i]), name=name)

    low = columns("low", lambda a, b, c: te.min(te.min(a, b), c))
    middle = columns("middle", lambda a, b, c: _middle(te.min, te.max, a, b, c))
    high = columns("high", lambda a, b, c: te.max(te.max(a, b), c))

    def of_nine(y: Any, i: Any) -> Any:
        lows = te.max(te.max(low[y, i], low[y, i + 1]), low[y, i + 2])
        mids = _middle(te.min, te.max, middle[y, i], middle[y, i + 1], middle[y, i + 2])
        highs = te.min(te.min(high[y, i], high[y, i + 1]), high[y, i + 2])
        return _middle(te.min, te.max, lows, mids, highs)

    return [x], [te.compute((h - 2, w - 2), of_nine, name="median")]


def _median(xp: Any, x: Any) -> Any:
    if xp is np:
        return np.median(np.stack(_shifted(x, 1)), 0)
    least, most = xp.minimum, xp.maximum
    rows = [_shifted(x, 1)[k : k + 3] for k in (0, 3, 6)]
    lows = [least(least(a, b), c) for a, b, c in zip(*rows, strict=True)]
    mids = [_middle(least, most, a, b, c) for a, b, c in zip(*rows, strict=True)]
    highs = [most(most(a, b), c) for a, b, c in zip(*rows, strict=True)]
    return _middle(
        least, most, most(most(*lows[:2]), lows[2]), _middle(least, most, *mids), least(least(*highs[:2]), highs[2])
    )


def stencil_2d(h: int, w: int) -> Tensors:
    x = input_of("x", h, w)

    def step(y: Any, i: Any) -> Any:
        around = x[y, i + 1] + x[y + 2, i + 1] + x[y + 1, i] + x[y + 1, i + 2]
        return x[y + 1, i + 1] * 0.5 + around * 0.125

    return [x], [te.compute((h - 2, w - 2), step, name="stepped")]


def _stencil_2d(xp: Any, x: Any) -> Any:
    return x[1:-1, 1:-1] * 0.5 + (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.125


def stencil_3d(d: int, h: int, w: int) -> Tensors:
    x = input_of("x", d, h, w)

    def step(z: Any, y: Any, i: Any) -> Any:
        around = x[z, y + 1, i + 1] + x[z + 2, y + 1, i + 1] + x[z + 1, y, i + 1]
        around = around + x[z + 1, y + 2, i + 1] + x[z + 1, y + 1, i] + x[z + 1, y + 1, i + 2]
        return x[z + 1, y + 1, i + 1] * 0.4 + around * 0.1

    return [x], [te.compute((d - 2, h - 2, w - 2), step, name="stepped")]


def _stencil_3d(xp: Any, x: Any) -> Any:
    m = slice(1, -1)
    around = x[:-2, m, m] + x[2:, m, m] + x[m, :-2, m] + x[m, 2:, m] + x[m, m, :-2] + x[m, m, 2:]
    return x[m, m, m] * 0.4 + around * 0.1


def biased(m: int, n: int, k: int) -> Tensors:
    left, right, bias = (input_of(name, *shape, dtype=HALF) for name, shape in
                         (("left", (m, k)), ("right", (k, n)), ("bias", (n,))))  # fmt: skip
    r = axis_of(k, "r")

    def term(i: Any, j: Any) -> Any:
        return left[i, r].astype(FLOAT) * right[r, j].astype(FLOAT)

    sums = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=r), name="sums")

    def finished(i: Any, j: Any) -> Any:
        return te.max(sums[i, j] + bias[j].astype(FLOAT), 0.0).astype(HALF)

    return [left, right, bias], [te.compute((m, n), finished, name="product")]


def _biased(xp: Any, left: Any, right: Any, bias: Any) -> Any:
    made = left @ right + bias
    return np.maximum(made, 0) if xp is np else xp.relu(made)


# Reductions of pairs, attention, iterations


def argmax(n: int, m: int) -> Tensors:
    x, k = input_of("x", n, m), axis_of(m, "k")
    largest = te.comm_reducer(
        lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), te.max(a[1], b[1])),
        lambda t, u: (tir.const(-1, t), te.min_value(u)),
        name="largest",
    )
    places, values = te.compute((n,), lambda i: largest((k, x[i, k]), axis=k), name="largest")
    return [x], [places, values]


def _argmax(xp: Any, x: Any) -> Any:
    if xp is np:
        return x.argmax(-1), x.max(-1)
    values, places = x.max(-1)
    return places, values


def attention(heads: int, length: int, size: int) -> Tensors:
    q, k, v = (input_of(name, heads, length, size) for name in "qkv")
    d, t = axis_of(size, "d"), axis_of(length, "t")
    scores = te.compute((heads, length, length), lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d), name="scores")
    scaled = te.compute(scores.shape, lambda *i: scores[i] * (1 / math.sqrt(size)), name="scaled")
    part = topi.nn.softmax(scaled)
    out = te.compute((heads, length, size), lambda h, i, e: te.sum(part[h, i, t] * v[h, t, e], axis=t), name="attended")
    return [q, k, v], [out]


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    return _softmax(xp, q @ k.swapaxes(1, 2) * (1 / math.sqrt(q.shape[-1]))) @ v


STEPS = 16


def mandelbrot(h: int, w: int) -> Tensors:
    """The number of steps until a point escapes; each step is a stage of three values."""
    re, im = input_of("re", w), input_of("im", h)
    zr, zi, count = te.compute((h, w), lambda y, x: (re[x], im[y], tir.const(0, FLOAT)), name="start")
    for number in range(STEPS):

        def step(y: Any, x: Any, zr: Any = zr, zi: Any = zi, count: Any = count) -> Any:
            a, b = zr[y, x], zi[y, x]
            inside = a * a + b * b <= 4.0
            return (
                tir.Select(inside, a * a - b * b + re[x], a),
                tir.Select(inside, a * b * 2.0 + im[y], b),
                count[y, x] + tir.Select(inside, tir.const(1, FLOAT), tir.const(0, FLOAT)),
            )

        zr, zi, count = te.compute((h, w), step, name=f"step{number}")
    return [re, im], [te.compute((h, w), lambda y, x: count[y, x], name="count")]


def _mandelbrot(xp: Any, re: Any, im: Any) -> Any:
    c, d = re[None, :], im[:, None]
    zr, zi = c + 0 * d, d + 0 * c
    count = 0 * zr
    for _ in range(STEPS):
        inside = zr * zr + zi * zi <= 4.0
        real, imaginary = zr * zr - zi * zi + c, zr * zi * 2.0 + d
        zr, zi = xp.where(inside, real, zr), xp.where(inside, imaginary, zi)
        count = count + xp.where(inside, 1.0, 0.0)
    return count


def nbody(n: int) -> Tensors:
    place, speed = [input_of(f"p{d}", n) for d in "xyz"], [input_of(f"v{d}", n) for d in "xyz"]
    mass, j = input_of("mass", n), axis_of(n, "j")
    force = te.comm_reducer(
        lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
        lambda *types: tuple(tir.const(0, t) for t in types),
        name="force",
    )

    def pulls(i: Any) -> Any:
        apart = [p[j] - p[i] for p in place]
        near = te.rsqrt(apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2] + 0.01)
        weight = mass[j] * near * near * near
        return force(tuple(weight * d for d in apart), axis=j)

    pull = te.compute((n,), pulls, name="pull")
    faster = [te.compute((n,), lambda i, v=v, a=a: v[i] + a[i] * 0.01, name="faster") for v, a in zip(speed, pull)]  # noqa: B905
    moved = [te.compute((n,), lambda i, p=p, v=v: p[i] + v[i] * 0.01, name="moved") for p, v in zip(place, faster)]  # noqa: B905
    return [*place, *speed, mass], [*moved, *faster]


def _nbody(xp: Any, *given: Any) -> Any:
    place, speed, mass = given[:3], given[3:6], given[6]
    apart = [p[None, :] - p[:, None] for p in place]
    weight = mass / (apart[0] ** 2 + apart[1] ** 2 + apart[2] ** 2 + 0.01) ** 1.5
    faster = [v + (weight * d).sum(1) * 0.01 for v, d in zip(speed, apart, strict=True)]
    return (*(p + v * 0.01 for p, v in zip(place, faster, strict=True)), *faster)


ROWS, TINY_ROWS = {"n": 2048, "m": 4096}, {"n": 6, "m": 40}
FUSED = (
    Program("softmax", softmax, _softmax, ROWS, TINY_ROWS, library=lambda t, x: t.softmax(x, -1)),
    Program(
        "layer norm", layer_norm, _norm, ROWS, TINY_ROWS,
        library=lambda t, x, g, b: t.nn.functional.layer_norm(x, x.shape[1:], g, b),
    ),
    Program(
        "group norm", group_norm, lambda xp, x, g, b: _group_norm(xp, x, g, b, x.shape[1] // 4),
        {"n": 16, "c": 128, "h": 64, "groups": 32}, {"n": 2, "c": 8, "h": 5, "groups": 2},
        library=lambda t, x, g, b: t.nn.functional.group_norm(x, x.shape[1] // 4, g, b),
    ),
    Program("RMS norm", rms_norm, _rms_norm, ROWS, TINY_ROWS),
    Program(
        "RoPE", rope, _rope, {"batch": 4, "length": 1024, "heads": 32, "size": 64},
        {"batch": 2, "length": 5, "heads": 3, "size": 8},
    ),
    Program(
        "cross-entropy", cross_entropy,
        lambda xp, x, labels: _logsumexp(xp, x) - x[_like(xp, np.arange(len(x)), labels), labels],
        {"n": 1024, "classes": 8192}, {"n": 6, "classes": 40}, limit="classes",
        library=lambda t, x, labels: t.nn.functional.cross_entropy(x, labels.long(), reduction="none"),
    ),
    Program(
        "log-sum-exp", logsumexp, _logsumexp, {"n": 1024, "m": 16384}, TINY_ROWS,
        library=lambda t, x: t.logsumexp(x, -1),
    ),
    Program("cumulative mean", cumulative_mean, _cumulative_mean, {"n": 1024, "m": 8192}, {"n": 9, "m": 20}),
    Program("box blur", box_blur, _box_blur, {"n": 8, "h": 1024, "w": 1024}, {"n": 2, "h": 9, "w": 12}),
    Program("bilateral filter", bilateral, _bilateral, {"h": 2048, "w": 2048}, {"h": 11, "w": 14}),
    Program("median of 3×3", median, _median, {"h": 4096, "w": 2048}, {"h": 9, "w": 13}),
    Program("2-D stencil", stencil_2d, _stencil_2d, {"h": 4096, "w": 2048}, {"h": 9, "w": 13}),
    Program("3-D stencil", stencil_3d, _stencil_3d, {"d": 128, "h": 256, "w": 256}, {"d": 5, "h": 6, "w": 9}),
    Program(
        "pairwise distances", pairwise, lambda xp, x, y: xp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)),
        {"n": 2048, "m": 2048, "size": 64}, {"n": 6, "m": 9, "size": 7}, {"n": 512},
    ),
    Program("argmax with value", argmax, _argmax, ROWS, TINY_ROWS),
    Program(
        "dequantise int8", dequantise, lambda xp, x, w, s: (w * s[:, None] * x).sum(-1),
        {"n": 8192, "size": 4096}, {"n": 6, "size": 40},
    ),
    Program(
        "attention", attention, _attention, {"heads": 256, "length": 256, "size": 64},
        {"heads": 2, "length": 8, "size": 4}, {"heads": 64},
    ),
    Program("Mandelbrot", mandelbrot, _mandelbrot, {"h": 2048, "w": 4096}, {"h": 7, "w": 9}, {"h": 512}, error=1e-2),
    Program("N-body step", nbody, _nbody, {"n": 8192}, {"n": 12}, {"n": 2048}),
)  # fmt: skip
PAGE = (
    Program("page: RMS norm 4096×1024", rms_norm, _rms_norm, {"n": 4096, "m": 1024}, TINY_ROWS),
    Program(
        "page: product 4096×4096×4096, bias, ReLU", biased, _biased, {"m": 4096, "n": 4096, "k": 4096},
        {"m": 5, "n": 24, "k": 40}, error=1e-3,
    ),
    Program("page: stencil 2048×2048", stencil_2d, _stencil_2d, {"h": 2050, "w": 2050}, {"h": 9, "w": 13}),
)  # fmt: skip
"""The programs of docs/automatic.md; the norm and the product are for GPUs."""
