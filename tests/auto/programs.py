"""Programs for automatic schedules: each returns its arguments, and the result by NumPy in float64 of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import te

Program = tuple[list[Any], Callable[..., Any]]


def _axis(extent: Any, name: str) -> Any:
    return te.reduce_axis((0, extent), name=name)


def softmax(n: Any = 37, m: int = 300) -> Program:
    a, k, l = te.placeholder((n, m), name="a"), _axis(m, "k"), _axis(m, "l")
    largest = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="largest")
    power = te.compute((n, m), lambda i, j: te.exp(a[i, j] - largest[i]), name="power")
    total = te.compute((n,), lambda i: te.sum(power[i, l], axis=l), name="total")
    b = te.compute((n, m), lambda i, j: power[i, j] / total[i], name="b")

    def reference(x: Any) -> Any:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return [a, b], reference


def symbolic_softmax() -> Program:
    return softmax(te.var("n"), 64)


def wide_softmax() -> Program:
    return softmax(6, 512)


def layer_norm(n: int = 33, m: int = 256) -> Program:
    a, g, k, l = te.placeholder((n, m), name="a"), te.placeholder((m,), name="g"), _axis(m, "k"), _axis(m, "l")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="total")
    mean = te.compute((n,), lambda i: total[i] / float(m), name="mean")
    spread = te.compute((n,), lambda i: te.sum((a[i, l] - mean[i]) * (a[i, l] - mean[i]), axis=l), name="spread")
    b = te.compute((n, m), lambda i, j: (a[i, j] - mean[i]) * te.rsqrt(spread[i] / float(m) + 1e-5) * g[j], name="b")
    return [a, g, b], lambda x, y: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * y


def group_norm(n: int = 3, c: int = 12, h: int = 7, groups: int = 4) -> Program:
    a, each = te.placeholder((n, c, h, h), name="a"), c // groups
    r = [_axis(each, "r0"), _axis(h, "r1"), _axis(h, "r2")]
    q = [_axis(each, "q0"), _axis(h, "q1"), _axis(h, "q2")]
    count = float(each * h * h)
    total = te.compute((n, groups), lambda i, g: te.sum(a[i, g * each + r[0], r[1], r[2]], axis=r), name="total")

    def square(i: Any, g: Any) -> Any:
        d = a[i, g * each + q[0], q[1], q[2]] - total[i, g] / count
        return te.sum(d * d, axis=q)

    spread = te.compute((n, groups), square, name="spread")

    def value(i: Any, j: Any, y: Any, x: Any) -> Any:
        g = j // each
        return (a[i, j, y, x] - total[i, g] / count) * te.rsqrt(spread[i, g] / count + 1e-5)

    def reference(x: Any) -> Any:
        g = x.reshape(n, groups, -1)
        return ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 1e-5)).reshape(x.shape)

    return [a, te.compute((n, c, h, h), value, name="b")], reference


def log_sum_exp(n: int = 40, m: int = 130) -> Program:
    a, k, l = te.placeholder((n, m), name="a"), _axis(m, "k"), _axis(m, "l")
    largest = te.compute((n,), lambda i: te.max(a[i, k], axis=k), name="largest")
    total = te.compute((n,), lambda i: te.sum(te.exp(a[i, l] - largest[i]), axis=l), name="total")
    return [a, te.compute((n,), lambda i: te.log(total[i]) + largest[i], name="b")], lambda x: np.log(np.exp(x).sum(1))


def column_norm(n: int = 70, m: int = 45) -> Program:
    a, k = te.placeholder((n, m), name="a"), _axis(n, "k")
    total = te.compute((m,), lambda j: te.sum(a[k, j] * a[k, j], axis=k), name="total")
    b = te.compute((n, m), lambda i, j: a[i, j] / te.sqrt(total[j]), name="b")
    return [a, b], lambda x: x / np.sqrt((x * x).sum(0))


def whole_norm(n: int = 300, m: int = 37) -> Program:
    a, k, l = te.placeholder((n, m), name="a"), _axis(n, "k"), _axis(m, "l")
    total = te.compute((), lambda: te.sum(a[k, l] * a[k, l], axis=[k, l]), name="total")
    b = te.compute((n, m), lambda i, j: a[i, j] / te.sqrt(total()), name="b")
    return [a, b], lambda x: x / np.sqrt((x * x).sum())


def total(n: int = 1000, m: int = 37) -> Program:
    a, k, l = te.placeholder((n, m), name="a"), _axis(n, "k"), _axis(m, "l")
    return [a, te.compute((), lambda: te.sum(a[k, l], axis=[k, l]), name="b")], np.sum


def row_sums(n: int = 24, m: int = 256) -> Program:
    a, k = te.placeholder((n, m), name="a"), _axis(m, "k")
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="b")], lambda x: x.sum(1)


def column_sums(n: int = 24, m: int = 256) -> Program:
    a, k = te.placeholder((n, m), name="a"), _axis(n, "k")
    return [a, te.compute((m,), lambda j: te.sum(a[k, j], axis=k), name="b")], lambda x: x.sum(0)


def matrix_product(n: int = 70, m: int = 65, depth: int = 48) -> Program:
    a, w, k = te.placeholder((n, depth), name="a"), te.placeholder((depth, m), name="w"), _axis(depth, "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="c")
    b = te.compute((n, m), lambda i, j: te.if_then_else(c[i, j] > 8, c[i, j], 8.0), name="b")
    return [a, w, b], lambda x, y: np.maximum(x @ y, 8)


def distances(n: int = 40, m: int = 30, depth: int = 16) -> Program:
    a, w, k = te.placeholder((n, depth), name="a"), te.placeholder((m, depth), name="w"), _axis(depth, "k")
    c = te.compute((n, m), lambda i, j: te.sum((a[i, k] - w[j, k]) * (a[i, k] - w[j, k]), axis=k), name="c")
    b = te.compute((n, m), lambda i, j: te.sqrt(c[i, j]), name="b")
    return [a, w, b], lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(2))


def convolution(n: int = 2, c: int = 8, h: int = 9, o: int = 12) -> Program:
    a, w = te.placeholder((n, c, h, h), name="a"), te.placeholder((o, c, 3, 3), name="w")

    def border(i: Any, j: Any, y: Any, x: Any) -> Any:
        return te.if_then_else(te.all(y >= 1, y <= h, x >= 1, x <= h), a[i, j, y - 1, x - 1], 0.0)

    padded = te.compute((n, c, h + 2, h + 2), border, name="padded")
    r = [_axis(c, "rc"), _axis(3, "ry"), _axis(3, "rx")]

    def sums(i: Any, j: Any, y: Any, x: Any) -> Any:
        return te.sum(padded[i, r[0], y + r[1], x + r[2]] * w[j, r[0], r[1], r[2]], axis=r)

    made = te.compute((n, o, h, h), sums, name="made")
    b = te.compute((n, o, h, h), lambda *i: te.exp(-made(*i)), name="b")

    def reference(x: Any, y: Any) -> Any:
        whole = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        parts = (whole[:, :, u : u + h, v : v + h] for u in range(3) for v in range(3))
        taps = y.reshape(o, c, 9).transpose(2, 0, 1)
        return np.exp(-sum(np.einsum("ncyx,oc->noyx", p, t) for p, t in zip(parts, taps, strict=True)))

    return [a, w, b], reference


def grouped_convolution(last: bool = False) -> Program:
    """Two groups of 16 filters and 8 channels, 18 columns; with `last`, filters are the last dimension."""
    h, own = 6, 8
    a, w = te.placeholder((2 * own, h + 2, 20), name="a"), te.placeholder((32, own, 3, 3), name="w")
    c, y, x = _axis(own, "c"), _axis(3, "y"), _axis(3, "x")

    def value(f: Any, i: Any, j: Any) -> Any:
        return te.sum(a[f // 16 * own + c, i + y, j + x] * w[f, c, y, x], axis=[c, y, x])

    if last:
        made = te.compute((h, 18, 32), lambda i, j, f: value(f, i, j), name="made")
    else:
        made = te.compute((32, h, 18), value, name="made")

    def reference(image: Any, weights: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2)).reshape(2, own, h, 18, 3, 3)
        found = np.einsum("gchwyx,gfcyx->gfhw", windows, weights.reshape(2, 16, own, 3, 3)).reshape(32, h, 18)
        return found.transpose(1, 2, 0) if last else found

    return [a, w, made], reference


def grouped_filters_last() -> Program:
    return grouped_convolution(True)


def depthwise(n: int = 2, c: int = 3, h: int = 10, w: int = 18) -> Program:
    """The border of zeros is a stage of each image."""
    a, k = te.placeholder((n, c, h, w), name="a"), te.placeholder((c, 3, 3), name="k")

    def border(i: Any, j: Any, y: Any, x: Any) -> Any:
        return te.if_then_else(te.all(y >= 1, y <= h, x >= 1, x <= w), a[i, j, y - 1, x - 1] * 2.0, 0.0)

    padded, r, q = te.compute((n, c, h + 2, w + 2), border, name="padded"), _axis(3, "r"), _axis(3, "q")

    def sums(i: Any, j: Any, y: Any, x: Any) -> Any:
        return te.sum(padded[i, j, y + r, x + q] * k[j, r, q], axis=[r, q])

    def reference(x: Any, y: Any) -> Any:
        whole = np.pad(2 * x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 3), axis=(2, 3))
        return np.einsum("ncyxrq,crq->ncyx", windows, y)

    return [a, k, te.compute((n, c, h, w), sums, name="made")], reference


def box_blur(n: int = 40, m: int = 50) -> Program:
    a = te.placeholder((n + 2, m + 2), name="a")
    across = te.compute((n + 2, m), lambda i, j: (a[i, j] + a[i, j + 1] + a[i, j + 2]) / 3.0, name="across")
    b = te.compute((n, m), lambda i, j: (across[i, j] + across[i + 1, j] + across[i + 2, j]) / 3.0, name="b")
    return [a, b], lambda x: sum(x[u : u + n, v : v + m] for u in range(3) for v in range(3)) / 9


def argmax(n: int = 50, m: int = 130) -> Program:
    a, k = te.placeholder((n, m), name="a"), _axis(m, "k")

    def larger(x: Any, y: Any) -> Any:
        first = te.any(x[1] > y[1], te.all(x[1] == y[1], x[0] < y[0]))
        return te.if_then_else(first, x[0], y[0]), te.if_then_else(first, x[1], y[1])

    reduce = te.comm_reducer(larger, lambda t, u: (te.const(2**31 - 1, t), te.min_value(u)), name="argmax")
    place, value = te.compute((n,), lambda i: reduce((k.var, a[i, k]), axis=k), name="most")
    return [a, place, value], lambda x: (x.argmax(1), x.max(1))


def attention(heads: int = 2, length: int = 32, depth: int = 16) -> Program:
    q, w, v = (te.placeholder((heads, length, depth), name=name) for name in ("q", "w", "v"))
    k, l, m, r = _axis(depth, "k"), _axis(length, "l"), _axis(length, "m"), _axis(length, "r")
    score = te.compute((heads, length, length), lambda h, i, j: te.sum(q[h, i, k] * w[h, j, k], axis=k), name="score")
    largest = te.compute((heads, length), lambda h, i: te.max(score[h, i, l], axis=l), name="largest")
    power = te.compute(score.shape, lambda h, i, j: te.exp(score[h, i, j] - largest[h, i]), name="power")
    total = te.compute((heads, length), lambda h, i: te.sum(power[h, i, m], axis=m), name="total")

    def mix(h: Any, i: Any, c: Any) -> Any:
        return te.sum(power[h, i, r] / total[h, i] * v[h, r, c], axis=r)

    def reference(x: Any, y: Any, z: Any) -> Any:
        e = np.exp(x @ y.transpose(0, 2, 1))
        return e / e.sum(2, keepdims=True) @ z

    return [q, w, v, te.compute((heads, length, depth), mix, name="b")], reference


def gather(n: int = 30, m: int = 20, rows: int = 50) -> Program:
    table, place = te.placeholder((rows, m), name="table"), te.placeholder((n,), "int32", name="place")
    b = te.compute((n, m), lambda i, j: table[place[i], j] * 2.0, name="b")
    return [table, place, b], lambda x, y: x[y] * 2


def two_outputs(n: int = 33, m: int = 40) -> Program:
    a, k = te.placeholder((n, m), name="a"), _axis(m, "k")
    total = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="total")
    b = te.compute((n, m), lambda i, j: a[i, j] - total[i], name="b")
    return [a, total, b], lambda x: (x.sum(1), x - x.sum(1, keepdims=True))


def running_sum(steps: int = 17, m: int = 20) -> Program:
    a, state = te.placeholder((steps, m), name="a"), te.placeholder((steps, m), name="state")
    first = te.compute((1, m), lambda _, i: a[0, i], name="first")
    update = te.compute((steps, m), lambda t, i: state[t - 1, i] + a[t, i], name="update")
    return [a, te.scan(first, update, state, inputs=[a], name="b")], lambda x: x.cumsum(0)


def pooling(n: int = 2, c: int = 8, h: int = 12) -> Program:
    a, y, x = te.placeholder((n, c, h, h), name="a"), _axis(2, "y"), _axis(2, "x")
    b = te.compute(
        (n, c, h // 2, h // 2), lambda i, j, u, v: te.max(a[i, j, 2 * u + y, 2 * v + x], axis=[y, x]), name="b"
    )
    return [a, b], lambda d: d.reshape(n, c, h // 2, 2, h // 2, 2).max((3, 5))


PROGRAMS: Sequence[Callable[[], Program]] = (
    softmax, symbolic_softmax, wide_softmax, layer_norm, group_norm, log_sum_exp, column_norm, whole_norm, total,
    matrix_product, distances, convolution, grouped_convolution, grouped_filters_last, depthwise, box_blur, argmax,
    attention, gather, two_outputs, running_sum, pooling,
)  # fmt: skip


def assert_right_on_gpu(
    s: te.Schedule, inputs: Sequence[Any], out: Any, reference: Callable[..., Any], on: Any
) -> None:
    """Run a schedule on random inputs, and compare its result with a NumPy function in float64."""
    rng = np.random.default_rng(0)
    given = [rng.standard_normal([int(e) for e in t.shape]).astype(str(t.dtype)) for t in inputs]
    expected = reference(*(x.astype("float64") for x in given))
    held = [tw.nd.array(x, tw.cuda()) for x in (*given, np.full(expected.shape, np.nan, str(out.dtype)))]
    tw.build(s, [*inputs, out], on)(*held)
    np.testing.assert_allclose(held[-1].numpy(), expected, rtol=1e-4, atol=1e-4)
