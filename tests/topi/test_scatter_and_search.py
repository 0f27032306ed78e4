"""Einstein sums, scattering, searching, sampling, and training's operators against NumPy, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import image, nn, testing

RANDOM = np.random.default_rng(11)
A = RANDOM.normal(0, 1, (3, 4, 5)).astype("float32")
B = RANDOM.normal(0, 1, (5, 6)).astype("float32")
SQUARE = RANDOM.integers(-5, 5, (4, 4)).astype("int32")
IMAGES = RANDOM.normal(0, 1, (2, 3, 5, 7)).astype("float32")
EINSUMS: list[tuple[str, list[np.ndarray]]] = [
    ("ijk,kl->ijl", [A, B]),
    ("ijk,kl", [A, B]),
    ("ij->ji", [SQUARE]),
    ("ii->i", [SQUARE]),
    ("ii", [SQUARE]),
    ("...k,kl->...l", [A, B]),
    ("i...,i...->...", [A, A[:, :1]]),
    ("ij,jk,kl->il", [SQUARE, SQUARE, SQUARE]),
    ("i,j->ij", [SQUARE[0], SQUARE[1]]),
    ("abc->", [A]),
    ("aij, ajk -> ik", [A, RANDOM.normal(0, 1, (3, 5, 2)).astype("float32")]),
]


@every_target
def test_einsum(target: str) -> None:
    cases = [
        Case(f"e{number}", lambda *x, t=text: topi.einsum(t, *x), given, np.asarray(np.einsum(text, *given)),
             "schedule_einsum", rtol=1e-4, atol=1e-5)
        for number, (text, given) in enumerate(EINSUMS)
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_scatter_of_few_lanes(target: str) -> None:
    """Of several updates to an element the last one counts, and sums are added in their order."""
    line, wide = RANDOM.normal(0, 1, 50).astype("float32"), RANDOM.normal(0, 1, (2, 300, 3)).astype("float32")
    places, news = RANDOM.integers(-60, 60, 400).astype("int32"), RANDOM.normal(0, 1, 400).astype("float32")
    where = RANDOM.integers(0, 300, (2, 90, 3)).astype("int64")
    parts = RANDOM.normal(0, 1, (2, 90, 3)).astype("float32")
    cases = [
        Case(f"line {how}", lambda x, i, u, h=how: topi.scatter_elements(x, i, u, 0, h), [line, places, news],
             testing.scatter_elements_python(line, places, news, 0, how), rtol=1e-6)
        for how in ("update", "add", "max")
    ]  # fmt: skip
    for how in ("update", "mul"):
        expected = testing.scatter_elements_python(wide, where, parts, 1, how)
        scatter: Any = lambda x, i, u, h=how: topi.scatter_elements(x, i, u, 1, h)
        cases.append(Case(f"wide {how}", scatter, [wide, where, parts], expected, rtol=1e-6))
    check(cases, target)


@every_target
def test_scatter(target: str) -> None:
    news = RANDOM.normal(0, 1, (3, 2, 5)).astype("float32")
    where = RANDOM.integers(-5, 6, (3, 2, 5)).astype("int32")
    cases = [
        Case(f"elements {how}", lambda x, i, u, h=how: topi.scatter_elements(x, i, u, 1, h), [A, where, news],
             testing.scatter_elements_python(A, where, news, 1, how))
        for how in ("update", "add", "mul", "min", "max")
    ]  # fmt: skip
    for depth, shape in ((1, (6,)), (2, (2, 3)), (3, (4,))):
        places = RANDOM.integers(-4, 5, (depth, *shape)).astype("int64")
        parts = RANDOM.normal(0, 1, (*shape, *A.shape[depth:])).astype("float32")
        for how in ("update", "add"):
            expected = testing.scatter_nd_python(A, places, parts, how)
            scatter: Any = lambda x, i, u, h=how: topi.scatter_nd(x, i, u, h)
            cases.append(Case(f"nd {depth} {how}", scatter, [A, places, parts], expected))
    rows, columns, values = (
        np.array([0, 3, 0, 3], "int32"),
        np.array([1, 2, 1, 0], "int32"),
        np.arange(4, dtype="int32"),
    )
    put, added = SQUARE.copy(), SQUARE.copy()
    np.add.at(added, (rows, columns), values)
    for i, j, v in zip(rows, columns, values, strict=True):
        put[i, j] = v
    dense = np.full((4, 3), -1, "float32")
    dense[rows, columns] = np.float32([7, 1, 7, 1])
    cases += [
        Case("put", lambda x, i, j, v: topi.index_put(x, [i, j], v), [SQUARE, rows, columns, values], put),
        Case("put more", lambda x, i, j, v: topi.index_put(x, [i, j], v, True), [SQUARE, rows, columns, values], added),
        Case("dense", lambda i, v: topi.sparse_to_dense(i, (4, 3), v, -1), [np.stack([rows, columns], 1),
             np.float32([7, 1, 7, 1])], dense),
        Case("dense by a tensor", lambda i, v, d: topi.sparse_to_dense(i, (5,), v, d),
             [columns, np.float32(3), np.float32(-2)], np.float32([3, 3, 3, -2, -2])),
        Case("inverse", topi.invert_permutation, [np.array([2, 0, 3, 1], "int32")], np.array([1, 3, 0, 2], "int32")),
        Case("dense line", lambda i, v: topi.sparse_to_dense(i, (5,), v), [columns, np.float32(3)],
             np.float32([3, 3, 3, 0, 0])),
        Case("of a result", lambda x, i, u: topi.scatter_elements(x * 2, i, u + 1, 1), [A, where, news],
             testing.scatter_elements_python(A * 2, where, news + 1, 1)),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_parts(target: str) -> None:
    i, j = RANDOM.integers(0, 3, (2, 1)).astype("int32"), RANDOM.integers(0, 4, (3,)).astype("int64")
    windows = np.lib.stride_tricks.sliding_window_view(A, (2, 3), (1, 2))[:, ::2]
    backwards, some = A.copy(), A.copy()
    backwards[:, 3:0:-2] = A[:, :2]
    some[1:, ::3, 1:2] = A[:2, :2, :1]
    cases = [
        Case("adv_index", lambda x, i, j: topi.adv_index(x, [i, j]), [A, i, j], A[i, j]),
        Case("windows", lambda x: topi.sliding_window(x, 1, (2, 3), (2, 1)), [A], windows),
        Case(
            "set where tensors say",
            topi.strided_set,
            [A, A[:2, :2, :1], *(np.array(v, "int32") for v in ([1, 0, 1], [3, 4, 2], [1, 3, 1]))],
            some,
        ),
        Case(
            "set backwards where tensors say",
            topi.strided_set,
            [A, A[:, :2], *(np.array(v, "int32") for v in ([0, 3], [3, 0], [1, -2]))],
            backwards,
        ),
        Case("set", lambda x, v: topi.strided_set(x, v, [1, 0, 1], [3, 4, 2], [1, 3, 1]), [A, A[:2, :2, :1]], some),
        Case("set backwards", lambda x, v: topi.strided_set(x, v, [0, 3], [3, 0], [1, -2]), [A, A[:, :2]], backwards),
        Case("astype", lambda x: (x * 3).astype("int32"), [A], (A * 3).astype("int32")),
    ]
    check(cases, target)


@every_target
def test_searching(target: str) -> None:
    line = np.sort(RANDOM.integers(0, 9, 13)).astype("int32")
    rows = np.sort(RANDOM.normal(0, 1, (3, 9)).astype("float32"), -1)
    looked, each = RANDOM.integers(-1, 11, (2, 7)).astype("int32"), RANDOM.normal(0, 1, (3, 4)).astype("float32")
    each[0, 0], each[1, 1] = rows[0, 4], rows[1, 8]
    cases = []
    for right in (False, True):
        side: Any = "right" if right else "left"
        one = np.searchsorted(line, looked, side).astype("int64")
        several = np.stack([np.searchsorted(r, v, side) for r, v in zip(rows, each, strict=True)]).astype("int32")
        find: Any = lambda s, v, r=right: topi.searchsorted(s, v, r)
        find_32: Any = lambda s, v, r=right: topi.searchsorted(s, v, r, "int32")
        cases += [Case(f"{side}", find, [line, looked], one), Case(f"{side} rows", find_32, [rows, each], several)]
    for given in (np.array([3, 1, 3, -2, 1, 3, 9, -2], "int32"), np.float32([0.5]), np.float32([2, 2, 1, 2])):
        for is_sorted in (True, False):
            how: Any = lambda x, s=is_sorted: topi.unique(x, s, True)
            expected = testing.unique_python(given, is_sorted)
            on_opencl = len(given) == 4 and not is_sorted
            cases.append(
                Case(f"unique {len(given)} {is_sorted}", how, [given], expected, "schedule_unique", on_opencl=on_opencl)
            )
    check(cases, target)


@every_target
def test_sampling(target: str) -> None:
    volumes = RANDOM.normal(0, 1, (2, 2, 3, 4, 3)).astype("float32")
    grid, room = (RANDOM.uniform(-1.6, 1.6, shape).astype("float32") for shape in ((2, 2, 4, 3), (2, 3, 2, 3, 2)))
    cases = []
    for method in ("nearest", "bilinear", "bicubic"):
        for mode in ("zeros", "border", "reflection"):
            for corners in (True, False):
                how: Any = lambda x, g, m=method, p=mode, c=corners: image.grid_sample(x, g, m, "NCHW", p, c)
                expected = testing.grid_sample_python(IMAGES, grid, method, "NCHW", mode, corners)
                cases.append(Case(f"{method} {mode} {corners}", how, [IMAGES, grid], expected, rtol=1e-3, atol=1e-4))
    expected = testing.grid_sample_python(volumes, room, "bilinear", "NCDHW", "border", True)
    sampled: Any = lambda x, g: image.grid_sample(x, g, "bilinear", "NCDHW", "border")
    maps, wide = RANDOM.normal(0, 1, (2, 2, 3)).astype("float32"), RANDOM.normal(0, 1, (2, 3, 4)).astype("float32")
    cases += [
        Case("volume", sampled, [volumes, room], expected, rtol=1e-3, atol=1e-4),
        Case("grid", lambda m: image.affine_grid(m, (4, 5)), [maps], testing.affine_grid_python(maps, (4, 5))),
        Case("grid 3d", lambda m: image.affine_grid(m, (2, 1, 3)), [wide], testing.affine_grid_python(wide, (2, 1, 3))),
    ]
    check(cases, target)


@every_target
def test_training(target: str) -> None:
    scale = [RANDOM.uniform(0.5, 2, 3).astype("float32") for _ in range(4)]
    mean, var = IMAGES.mean((0, 2, 3), dtype="float64"), IMAGES.var((0, 2, 3), dtype="float64")
    normal = testing.batch_norm_python(IMAGES, scale[0], scale[1], mean.astype("float32"), var.astype("float32"))
    moved = [(0.8 * old + 0.2 * new).astype("float32") for old, new in zip(scale[2:], (mean, var), strict=True)]
    guess, labels = RANDOM.normal(0, 1, (4, 3, 2)).astype("float32"), RANDOM.integers(0, 3, (4, 2)).astype("int32")
    cases = [
        Case("batch_norm", lambda *t: nn.batch_norm(*t, training=True, momentum=0.2), [IMAGES, *scale],
             [normal, *moved], "schedule_reduce", rtol=1e-4, atol=1e-5),
    ]  # fmt: skip
    for how in ("mean", "sum", "none"):
        loss: Any = lambda *t, h=how: nn.nll_loss(*t, h, 1)
        expected = testing.nll_loss_python(guess, labels, scale[0], how, 1)
        cases.append(Case(f"nll {how}", loss, [guess, labels, scale[0]], expected, "schedule_reduce", rtol=1e-4))
    check(cases, target)
