"""Operators of 16-bit floats round once: results are within two ulps of exact ones, also if terms cancel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.topi.cases import Case, built
from tilewright import topi
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi import testing

RANDOM = np.random.default_rng(3)
TYPES = {"float16": (np.dtype(np.float16), 10, -14), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 7, -126)}
"""NumPy's type, the bits of a fraction, and the least exponent."""


def spread(*shape: int) -> np.ndarray:
    """Numbers of all magnitudes."""
    return np.asarray(RANDOM.choice([-1, 1], shape) * 2.0 ** RANDOM.uniform(-8, 3, shape))


X, Y = spread(40, 50), spread(40, 50)
IMAGE, SCALE, MEAN = spread(4, 3, 5, 6), spread(3), spread(3)
NEGATIVE, POSITIVE = -np.abs(X) - 0.01, np.abs(X) + 0.01
DOMAIN = {**dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "log1p"), POSITIVE), "acosh": POSITIVE + 1}
DOMAIN |= dict.fromkeys(("asin", "acos", "atanh"), np.tanh(X) * 0.99)
ON_FLOATS = "add subtract multiply divide floor_divide mod floor_mod power maximum minimum log_add_exp".split()
nn, image, UNARY, BINARY = topi.nn, topi.image, testing.UNARY, testing.BINARY


def cancelling(value: np.ndarray) -> np.ndarray:
    """Summands that leave little of the values."""
    return np.asarray(-value * (1 + RANDOM.choice([0, 1e-3, 1e-2, 0.3], value.shape)))


def element_by_element() -> list[Case]:
    """The tables of operators, beside NumPy; and the operators of several steps."""
    unary = [name for name in UNARY if not name.startswith(("is", "logical", "bitwise", "fast"))]
    cases = [Case(name, getattr(topi, name), [DOMAIN.get(name, X)], UNARY[name]) for name in unary]
    left = {"power": np.abs(X)}
    cases += [Case(name, getattr(topi, name), [left.get(name, X), Y], BINARY[name]) for name in ON_FLOATS]
    nearly = np.log(-np.expm1(NEGATIVE)) * (1 + RANDOM.choice([0, 1e-3, 1e-2], X.shape))
    whole = np.round(Y * 8)
    cases += [
        Case("log_add_exp near 0", topi.log_add_exp, [NEGATIVE, nearly], None),
        Case("floor_divide near whole numbers", topi.floor_divide, [whole * (X + 1), X], None),
        Case("ceil_log2", topi.ceil_log2, [POSITIVE], None),
        Case("ceil_log2 near whole numbers", topi.ceil_log2, [2.0 ** np.round(np.log2(POSITIVE)) * 1.01], None),
    ]
    products = IMAGE * SCALE[:, None, None]
    shift = cancelling(products[0, :, 0, 0])
    last = np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    variance = np.abs(SCALE) + 0.1
    beta = cancelling((IMAGE[0, :, 0, 0] - MEAN) / np.sqrt(variance + 1e-5) * SCALE)
    plain: Any = lambda *given: nn.batch_norm(*given)[0]
    trained: Any = lambda *given: nn.batch_norm(*given, training=True)
    cases += [
        Case("scale_shift", nn.scale_shift_nchw, [IMAGE, SCALE, shift], None),
        Case("scale_shift last", nn.scale_shift_nhwc, [last, SCALE, shift], None),
        Case("scale_shift blocks", nn.scale_shift_nchwc, [IMAGE[..., None], SCALE[:, None], shift[:, None]], None),
        Case("batch_norm", plain, [IMAGE, SCALE, beta, MEAN, variance], None),
        Case("batch_norm trained", trained, [IMAGE, SCALE, beta, MEAN, variance], None),
        Case("affine_grid", lambda m: image.affine_grid(m, (7, 9)), [spread(2, 2, 3)], None),
        Case("affine_grid 3d", lambda m: image.affine_grid(m, (3, 4, 5)), [spread(2, 3, 4)], None),
        Case("leaky_relu", lambda x: nn.leaky_relu(x, 0.1), [X], None),
        Case("prelu", nn.prelu, [IMAGE, SCALE], None),
    ]
    return cases


def of_rows() -> list[Case]:
    """Operators with sums, of which terms cancel: errors count beside the largest result."""
    rows, weight = spread(6, 24), spread(24)
    sampled = np.tanh(spread(2, 2, 4, 3))
    return [
        Case("softmax", nn.softmax, [rows], None),
        Case("log_softmax", nn.log_softmax, [rows], None),
        Case("layer_norm", lambda *given: nn.layer_norm(*given, 1), [rows, weight, spread(24)], None),
        Case("rms_norm", lambda *given: nn.rms_norm(*given, 1), [rows, weight], None),
        Case("group_norm", lambda *given: nn.group_norm(*given, 1, 1, [2, 3]), [IMAGE, SCALE, MEAN], None),
        Case("l2_normalize", lambda x: nn.l2_normalize(x, 1e-3, [1]), [rows], None),
        Case("lrn", lambda x: nn.lrn(x, 3), [IMAGE], None),
        Case("linear", lambda x: image.resize2d(x, None, (7, 9)), [IMAGE], None),
        Case("cubic", lambda x: image.resize2d(x, None, (7, 9), method="cubic"), [IMAGE], None),
        Case("grid_sample", image.grid_sample, [IMAGE[:2], sampled], None),
        Case("average", lambda x: nn.pool2d(x, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), "avg"), [IMAGE], None),
        Case("dft", lambda *given: topi.dft(*given), [rows, spread(6, 24)], None),
        Case("dft back", lambda *given: topi.dft(*given, True), [rows, spread(6, 24)], None),
        Case("stft", lambda x, w: topi.stft(x, 8, 3, 8, w, True, True), [rows, spread(8)], None),
    ]


def results(cases: list[Case]) -> list[list[np.ndarray]]:
    module, made = built("llvm -opt-level=1", cases)
    found = []
    for case, entry, read, outputs in made:
        shapes = [topi.utils.get_const_tuple(o.shape) for o in outputs]
        arrays = [array(np.zeros(shape, case.given[0].dtype), device("llvm")) for shape in shapes]
        module[entry](*(array(np.ascontiguousarray(case.given[i]), device("llvm")) for i in read), *arrays)
        found.append([each.numpy().astype(np.float64) for each in arrays])
    return found


def exact(cases: list[Case]) -> list[list[np.ndarray]]:
    """NumPy's results in float64, or the operator's own."""
    wide = [replace(case, given=[each.astype(np.float64) for each in case.given]) for case in cases]
    own = iter(results([case for case in wide if case.expected is None]))
    return [next(own) if case.expected is None else [case.expected(*case.given)] for case in wide]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("cases", [element_by_element, of_rows])
def test_results_are_rounded_once(cases: Any, name: str) -> None:
    kind, bits, least = TYPES[name]
    narrow = [replace(case, given=[each.astype(kind) for each in case.given]) for case in cases()]
    largest, wrong = float(ml_dtypes.finfo(kind).max), []
    for case, found, wanted in zip(narrow, results(narrow), exact(narrow), strict=True):
        for got, want in zip(found, wanted, strict=True):
            there = np.abs(want) <= largest
            size = np.abs(want[there]) if cases is element_by_element else np.abs(want[there]).max()
            ulp = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(size, 1e-300))), least) - bits)
            off = (np.abs(got[there] - want[there]) / ulp).max()
            if not off <= 2.0 or not np.array_equal(np.isnan(got), np.isnan(want)):
                wrong.append(f"{case.name}: {off:.2f} ulp")
    assert not wrong, "\n".join(wrong)
