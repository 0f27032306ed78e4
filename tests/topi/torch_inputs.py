"""Inputs for the operators of `topi` that have a counterpart in PyTorch, by name: arrays, and options by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
Drawn = Iterator[tuple[Arrays, dict[str, Any]]]

FLOATS, INTS, BOOL = ("float32", "float64", "float16"), ("int32", "int8", "uint8", "int64", "int16"), ("bool",)
SHAPES: list[tuple[int, ...]] = [
    (), (1,), (0,), (7,), (16,), (65,), (1, 1), (2, 3), (5, 1), (1, 6), (3, 0), (0, 4), (8, 9), (3, 4, 5), (2, 1, 3),
    (1, 1, 1), (1, 0, 2), (4, 2, 2), (2, 3, 1, 2), (1, 2, 3, 4), (2, 2, 2, 2), (2, 1, 2, 1, 3),
]  # fmt: skip
PAIRS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((1,), (5,)), ((), (2, 3)), ((2, 3), ()),
    ((), ()), ((0,), (0,)), ((0, 3), (1, 3)), ((0, 3), (3,)), ((2, 1, 4), (3, 1)), ((2, 1, 4), (1, 3, 4)), ((1, 1),
    (1,)),
    ((2, 3, 1, 2), (3, 4, 1)), ((17,), (17,)), ((64,), (1,)), ((5, 6), (5, 1)), ((1, 2, 1), (3, 1, 4)), ((6, 1),
    (6, 0)),
    ((2, 2, 2), (2, 2, 2)), ((9,), (2, 9)),
]  # fmt: skip
REDUCED: list[tuple[tuple[int, ...], Any]] = [
    ((5,), None), ((5,), 0), ((5,), -1), ((1,), 0), ((3, 4), None), ((3, 4), 0), ((3, 4), 1), ((3, 4), -1), ((3, 4),
    -2),
    ((2, 3, 4), 1), ((2, 3, 4), (0, 2)), ((2, 3, 4), (-1, 0)), ((2, 3, 4), (0, 1, 2)), ((1, 1), None), ((1, 7), 0),
    ((6, 1), 1), ((2, 3, 2, 3), (1, -1)), ((2, 3, 2, 3), 2), ((33,), 0), ((4, 0), 0), ((0, 4), 1), ((2, 0, 3), (0, 2)),
    ((130,), None), ((2, 70), -1),
]  # fmt: skip
EMPTY: list[tuple[tuple[int, ...], Any]] = [((0,), None), ((0,), 0), ((0, 3), 0), ((2, 0), -1), ((2, 0, 3), (1, 2))]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-3, 300.0, -300.0]
KINDS: dict[str, tuple[str, ...]] = {"f": FLOATS, "i": INTS, "b": BOOL}

_RNG = np.random.default_rng(20)


def values(shape: tuple[int, ...], dtype: str, low: float | None = None, high: float | None = None) -> np.ndarray:
    """Random values of a type; without bounds, a third of the floats are special, and integers are small."""
    if dtype == "bool":
        return _RNG.integers(0, 2, shape).astype(bool)
    if not dtype.startswith("f"):
        least = 0 if dtype.startswith("u") else -9
        return _RNG.integers(least if low is None else int(low), 10 if high is None else int(high), shape).astype(dtype)
    if low is not None and high is not None:
        return _RNG.uniform(low, high, shape).astype(dtype)
    drawn = _RNG.normal(0, 2, shape)
    return np.where(_RNG.random(shape) < 1 / 3, _RNG.choice(SPECIAL, shape), drawn).astype(dtype)


def finite(*shape: int, dtype: str = "float32") -> np.ndarray:
    return values(shape, dtype, -2, 2)


def types(kinds: str) -> Iterator[str]:
    """Types of the kinds in turn, floats first."""
    return itertools.cycle([dtype for kind in kinds for dtype in KINDS[kind]])


def each(kinds: str = "f", low: float | None = None, high: float | None = None) -> Drawn:
    for shape, dtype in zip(SHAPES, types(kinds), strict=False):
        yield (values(shape, dtype, low, high),), {}


def pairs(kinds: str = "f", low: float | None = None, high: float | None = None, divisor: bool = False) -> Drawn:
    for (first, second), dtype in zip(PAIRS, types(kinds), strict=False):
        b = values(second, dtype, low, high)
        if divisor and b.dtype.kind in "iu":
            b = np.where(b == 0, 3, b).astype(dtype)
        yield (values(first, dtype, low, high), b), {}


def choices(kinds: str = "f") -> Drawn:
    """A condition and two operands that broadcast."""
    for (first, second), dtype in zip(PAIRS, types(kinds), strict=False):
        whole = np.broadcast_shapes(first, second)
        yield (values(whole, "bool"), values(first, dtype), values(second, dtype)), {}


def reduced(kinds: str = "f", empty: bool = False, single: bool = False, finite: bool = False) -> Drawn:
    """Dimensions to reduce, with and without `keepdims`; `single`: no tuples of them."""
    cases = [(s, a) for s, a in (*REDUCED, *(EMPTY if empty else ())) if not (single and isinstance(a, tuple))]
    if len(cases) < 20:
        cases += [((4, 5, 2), a) for a in range(-3, 3)]
    low = -2 if finite else None
    for number, ((shape, axis), dtype) in enumerate(zip(cases, types(kinds), strict=False)):
        high = None if low is None else 3
        yield (values(shape, dtype, low, high),), {"axis": axis, "keepdims": number % 3 == 1}


def along(kinds: str = "f", empty: bool = True, low: float | None = None, high: float | None = None) -> Drawn:
    """One dimension of each shape, from the front or from the end."""
    shapes = [s for s in SHAPES if s and (empty or 0 not in s)] + [(4, 5), (9, 2), (3, 8), (5, 5, 2), (40,)]
    for number, (shape, dtype) in enumerate(zip(shapes, types(kinds), strict=False)):
        axis = number % len(shape)
        yield (values(shape, dtype, low, high),), {"axis": axis - len(shape) if number % 2 else axis}


def windows(rank: int, kinds: str = "f") -> Drawn:
    """Pooling: sizes, strides, even and uneven padding, `ceil_mode`, and whether padding counts."""
    sides = [(4, 5, 6), (7, 6, 5), (5, 9, 4)]
    grid = itertools.product((1, 2, 3), (1, 2, 3), (0, 1), (False, True), (True, False))
    cases = [c for c in grid if 2 * c[2] <= c[0]]
    for number, (kernel, stride, around, up, inside) in enumerate(cases):
        if number % 5 not in (0, 2) and rank > 1:
            continue
        shape = (1 + number % 2, 2, *sides[number % 3][:rank])
        taps = tuple(kernel + (kernel > 1 and d == number % 2) for d in range(rank))
        steps = (stride, *(2,) * (rank - 1))
        if up and _ends_beyond(shape[2:], taps, steps, (around,) * (2 * rank)):
            continue
        options = {"kernel": taps, "stride": steps, "padding": (around,) * rank}
        yield (finite(*shape, dtype=FLOATS[number % 2]),), {**options, "ceil_mode": up, "inside": inside}


def _ends_beyond(size: tuple[int, ...], taps: tuple[int, ...], steps: tuple[int, ...], sides: tuple[int, ...]) -> bool:
    """Whether, with `ceil_mode`, a window would begin behind the data: PyTorch leaves it out."""
    rank = len(size)
    room = [n + sides[d] + sides[d + rank] - taps[d] for d, n in enumerate(size)]
    return any(-(-room[d] // steps[d]) * steps[d] >= size[d] + sides[d] for d in range(rank))


def uneven() -> Drawn:
    """Pooling with more padding on one side, in 2-D."""
    for number, (up, inside) in enumerate(itertools.product((False, True), (True, False))):
        for sides in ((0, 1, 1, 0), (1, 0, 0, 1), (1, 1, 0, 0), (0, 0, 1, 1), (1, 0, 1, 0)):
            options = {"kernel": (2, 3), "stride": (2, 2 + number % 2), "sides": sides}
            if up and _ends_beyond((6, 7), (2, 3), (2, 2 + number % 2), sides):
                continue
            yield (finite(1, 2, 6, 7, dtype=FLOATS[number % 2]),), {**options, "ceil_mode": up, "inside": inside}


def sizes(rank: int) -> Drawn:
    """Images to be pooled to a size."""
    for number, wanted in enumerate([*itertools.product((1, 2, 3, 5, 7), repeat=2), (4, 4), (6, 2)]):
        shape = (2, 2, *((5, 7, 3), (6, 4, 5), (1, 3, 2), (9, 8, 4))[number % 4][:rank])
        yield (finite(*shape, dtype=FLOATS[number % 2]),), {"size": tuple((*wanted, 2)[:rank])}


def convolved(
    rank: int, grouped: bool = False, depthwise: bool = False, plain: bool = False, last: bool = False
) -> Drawn:
    """Data and filters in PyTorch's order; `plain`: stride and dilation 1, and kernels of 3; `last`: channels last."""
    grid = itertools.product((1, 2, 3, 4), (1, 2), (0, 1, 2), (1, 2))
    for number, (taps, stride, around, dilation) in enumerate(grid):
        if plain:
            taps, stride, dilation = 3, 1, 1
        if number % 7 not in (0, 3, 5):
            continue
        groups = (1, 2, 3)[number % 3] if grouped else 6 if depthwise else 1
        filters = 6 * (1 + number % 2) if depthwise else 6
        kernel = tuple(taps if plain else 1 + (taps + d) % 4 for d in range(rank))
        shape = (1 + number % 2, 6, *((9 if rank < 3 else 7) + d + number % 3 for d in range(rank)))
        dtype = FLOATS[number % 2]
        options = {"stride": stride, "padding": around, "dilation": dilation, "groups": groups}
        data, weights = finite(*shape, dtype=dtype), finite(filters, 6 // groups, *kernel, dtype=dtype)
        if last:
            spatial = range(2, rank + 2)
            data, weights = data.transpose(0, *spatial, 1), weights.transpose(*spatial, 1, 0)
        yield (np.ascontiguousarray(data), np.ascontiguousarray(weights)), options


def undilated(source: Callable[[], Drawn]) -> Drawn:
    """The cases of another generator, without dilation."""
    for arrays, found in source():
        yield arrays, {**found, "dilation": 1}


def spread(rank: int, grouped: bool = False) -> Drawn:
    """Data and filters of transposed convolutions."""
    grid = itertools.product((1, 2, 3, 4), (1, 2, 3), (0, 1))
    for number, (taps, stride, around) in enumerate(grid):
        groups = (1, 2)[number % 2] if grouped else 1
        kernel = tuple(max(taps, 2 * around + 1) + d % 2 for d in range(rank))
        dtype, more = FLOATS[number % 2], number % stride
        shape = (1 + number % 2, 4, *(3 + (d + number) % 3 for d in range(rank)))
        options = {"stride": stride, "padding": around, "more": (more,) * rank, "groups": groups}
        yield (finite(*shape, dtype=dtype), finite(4, 3, *kernel, dtype=dtype)), options


PRODUCTS = [
    (1, 1, 1), (2, 3, 4), (5, 1, 3), (1, 7, 2), (4, 4, 4), (3, 0, 2), (0, 3, 2), (2, 3, 0), (8, 16, 9), (17, 5, 1),
    (6, 2, 6), (1, 64, 1), (3, 9, 5), (10, 10, 10), (2, 2, 2), (7, 3, 7), (4, 8, 2), (1, 1, 9), (12, 5, 3), (2, 33, 2),
]  # fmt: skip


def products(kinds: str = "f", batched: bool = False, bias: bool = False) -> Drawn:
    """Factors (M, K) and (K, N), each transposed in some cases."""
    for number, ((m, k, n), dtype) in enumerate(zip(PRODUCTS, types(kinds), strict=False)):
        flip_a, flip_b = bool(number % 2), bool(number % 3)
        batch = (1 + number % 3,) if batched else ()
        a, b = ((k, m) if flip_a else (m, k)), ((n, k) if flip_b else (k, n))
        factors = (values((*batch, *a), dtype, -2, 3), values((*batch, *b), dtype, -2, 3))
        extra = (values((n,), dtype, -2, 3),) if bias else ()
        yield (*factors, *extra), {"flip_a": flip_a, "flip_b": flip_b}


def normalised(rank: int = 0, channels: int = 6) -> Drawn:
    """Data, and one factor and one addend per channel (dimension 1), or for the last `rank` dimensions."""
    shapes = [
        (1, 6),
        (3, 6),
        (2, 6, 5),
        (1, 6, 1),
        (2, 6, 3, 4),
        (1, 6, 7, 1),
        (4, 6, 2),
        (2, 6, 1, 1),
        (1, 6, 2, 2, 3),
    ]
    for number, shape in enumerate(shapes * 4):
        if len(shape) < rank + 1 or (rank == 0 and len(shape) < 3):
            continue
        dtype = FLOATS[number % 2]
        own = shape[-rank:] if rank else (channels,)
        yield (finite(*shape, dtype=dtype), finite(*own, dtype=dtype), finite(*own, dtype=dtype)), {"number": number}


def resized(rank: int, kinds: str = "f") -> Drawn:
    for number in range(22):
        shape = (1 + number % 2, 2, *(((5, 4, 3), (3, 6, 4), (7, 2, 2), (1, 5, 3))[number % 4][:rank]))
        size = tuple((4, 7, 1, 9, 5)[(number + d) % 5] for d in range(rank))
        yield (finite(*shape, dtype=FLOATS[number % 2]),), {"size": size, "scale": 1 + number % 3}


def options(**given: list[Any]) -> Drawn:
    """No arrays; each combination of options."""
    for chosen in itertools.product(*given.values()):
        yield (), dict(zip(given, chosen, strict=True))


def with_options(source: Callable[[], Drawn], **given: list[Any]) -> Drawn:
    """The cases of another generator, each with the next choice of the options."""
    turns = {name: itertools.cycle(choices) for name, choices in given.items()}
    for arrays, found in source():
        yield arrays, {**found, **{name: next(turn) for name, turn in turns.items()}}
