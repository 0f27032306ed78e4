"""Products of copied factors: convolutions with channels moved last, with and without a border around the image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, topi
from tilewright.auto.program import AutomaticProgram, unfit
from tilewright.core.target import Target

TARGET = Target("cuda -arch=sm_90")
CASES = {"3x3": (2, 32, 72, 6, 3, 1), "1x1": (1, 64, 64, 8, 1, 0), "valid": (1, 16, 80, 9, 3, 0)}
"""Images, channels, filters, size, kernel, and border."""


def _layer(case: str) -> list[Any]:
    images, channels, filters, size, kernel, border = CASES[case]
    x = te.placeholder((images, channels, size, size), "float16", "x")
    w = te.placeholder((filters, channels, kernel, kernel), "float16", "w")
    sums = topi.nn.conv2d_nchw(x, w, 1, border, 1, "float32")
    return [x, w, te.compute(sums.shape, lambda *i: te.max(sums[i], 0.0).astype("float16"), name="out")]


def _expected(case: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    *_, size, kernel, border = CASES[case]
    wide = np.pad(x, ((0, 0), (0, 0), (border, border), (border, border)))
    places = size + 2 * border - kernel + 1
    taps = [(i, j) for i in range(kernel) for j in range(kernel)]
    parts = (
        np.einsum("nchw,fc->nfhw", wide[:, :, i : i + places, j : j + places], w[:, :, i, j]) for i, j in taps
    )  # fmt: skip
    return np.maximum(sum(parts), 0)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["warpgroup instructions of a copy", "matrix instructions of a copy"])
@pytest.mark.parametrize("case", CASES)
def test_results(case: str, name: str) -> None:
    _check(case, name)


@pytest.mark.cuda
@pytest.mark.parametrize("case", ["3x3", "valid"])
def test_results_of_unfolded_copies(case: str) -> None:
    _check(case, "warpgroup instructions of an unfolded copy")


def _scheduled(args: list[Any], name: str) -> Any:
    program = AutomaticProgram([args[-1].op], TARGET)
    way = next(way for way in program.ways[-1] if way.name == name)
    return program.schedule([*(ways[0] for ways in program.ways[:-1]), way])


def _check(case: str, name: str) -> None:
    args = _layer(case)
    s = _scheduled(args, name)
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(-1, 1, [int(e) for e in t.shape]).astype("float16") for t in args[:2])
    right = _expected(case, x.astype("float64"), w.astype("float64"))
    held = [tw.nd.array(each, tw.cuda()) for each in (x, w, np.full(right.shape, np.nan, "float16"))]
    tw.build(s, args, TARGET)(*held)
    np.testing.assert_allclose(held[-1].numpy(), right, rtol=4e-3, atol=4e-3)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["matrix instructions of a copy", "matrix instructions of an unfolded copy"])
def test_the_printed_program_makes_the_same_schedule(name: str) -> None:
    args = _layer("3x3")
    s = _scheduled(args, name)
    names: dict[str, Any] = {}
    exec(s.as_python(), names)
    again = names["schedule"](args[-1])
    assert str(tw.lower(again, args, simple_mode=True)) == str(tw.lower(s, args, simple_mode=True))


def test_the_first_way_fits() -> None:
    x, w = te.placeholder((64, 128, 28, 28), "float16", "x"), te.placeholder((128, 128, 3, 3), "float16", "w")
    sums = topi.nn.conv2d_nchw(x, w, 1, 1, 1, "float32")
    out = te.compute(sums.shape, lambda *i: sums[i].astype("float16"), name="out")
    program = AutomaticProgram([out.op], TARGET)
    assert program.ways[-1][0].name == "warpgroup instructions of a copy"
    assert unfit(program.schedule([ways[0] for ways in program.ways]), TARGET) == ""
