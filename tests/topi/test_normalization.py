"""softmax and normalisation against NumPy: rows of every length, along every dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import te, topi
from tilewright.topi import testing

RANDOM = np.random.default_rng(3)
ROWS, SHORT, LONG = (RANDOM.normal(0, 4, s).astype("float32") for s in ((7, 515), (3, 5, 4), (2, 13_000)))
EVEN = RANDOM.normal(2, 3, (4, 2048)).astype("float32")
IMAGES = RANDOM.normal(1, 2, (2, 6, 5, 7)).astype("float32")
GAMMA, BETA, MEAN = (RANDOM.normal(0, 1, 6).astype("float32") for _ in range(3))


def row_case(name: str, operator: Any, given: list[np.ndarray], expected: Any, on_opencl: bool = True) -> Case:
    return Case(name, operator, given, expected, "schedule_softmax", 1e-4, 1e-5, on_opencl=on_opencl)


@every_target
def test_softmax(target: str) -> None:
    cases = []
    for value, axis in ((ROWS, -1), (EVEN, 1), (SHORT, 1), (SHORT, 0), (LONG, -1), (ROWS[0], 0)):
        lean = value is ROWS or value is SHORT
        for name in ("softmax", "log_softmax"):
            expected = getattr(testing, f"{name}_python")(value, axis)
            operator = getattr(topi.nn, name)
            cases.append(row_case(name, lambda x, f=operator, a=axis: f(x, a), [value], expected, lean))
    fused = lambda x: topi.nn.softmax_common(topi.multiply(x, 0.125), -1, True)
    cases.append(row_case("scaled", fused, [ROWS], testing.softmax_python(ROWS / 8)))
    cases.append(
        row_case(
            "half", topi.nn.softmax, [EVEN.astype("float16")], testing.softmax_python(EVEN.astype("float16")), False
        )
    )
    cases[-1].rtol = cases[-1].atol = 2e-3
    check(cases, target)


@every_target
def test_layers_and_norms(target: str) -> None:
    scale, shift = (RANDOM.normal(0, 1, 515).astype("float32") for _ in range(2))
    wide, wider = (RANDOM.normal(0, 1, 2048).astype("float32") for _ in range(2))
    norm, nn = topi.nn.layer_norm, topi.nn
    cases = [
        row_case("layer", lambda x, g, b: norm(x, g, b, -1), [ROWS, scale, shift],
                 testing.layer_norm_python(ROWS, scale, shift, [-1])),
        row_case("layer even", lambda x, g, b: norm(x, g, b, [1]), [EVEN, wide, wider],
                 testing.layer_norm_python(EVEN, wide, wider, [-1]), False),
        row_case("layer 2", lambda x, g: norm(x, g, None, [2, 3]), [IMAGES, IMAGES[0, 0]],
                 testing.layer_norm_python(IMAGES, IMAGES[0, 0], None, [2, 3])),
        row_case("rms", lambda x, g: nn.rms_norm(x, g, 1), [ROWS, scale], testing.rms_norm_python(ROWS, scale, 1)),
        row_case("l2", lambda x: nn.l2_normalize(x, 1e-3, 1), [ROWS], testing.l2_normalize_python(ROWS, 1e-3, 1)),
        row_case("l2 channels", lambda x: nn.l2_normalize(x, 900.0, [1]), [IMAGES],
                 testing.l2_normalize_python(IMAGES, 900.0, 1)),
        row_case("l2 all", lambda x: nn.l2_normalize(x, 1e-3), [IMAGES], testing.l2_normalize_python(IMAGES, 1e-3)),
        row_case("instance", lambda x, g, b: nn.instance_norm(x, g, b, [2, 3]), [IMAGES, *IMAGES[1, :2]],
                 testing.instance_norm_python(IMAGES, *IMAGES[1, :2], (2, 3))),
        row_case("group", lambda x, g, b: nn.group_norm(x, g, b, 3, 1, [2, 3]), [IMAGES, GAMMA, BETA],
                 testing.group_norm_python(IMAGES, GAMMA, BETA, 3, 1, (2, 3))),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_channels(target: str) -> None:
    variance = np.abs(MEAN) + 1
    given = [IMAGES, GAMMA, BETA, MEAN, variance]
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    cases = [
        Case("batch", lambda *t: topi.nn.batch_norm(*t)[0], given, testing.batch_norm_python(*given)),
        Case(
            "batch last",
            lambda *t: topi.nn.batch_norm(*t, axis=3, epsilon=0.5)[0],
            [last, *given[1:]],
            testing.batch_norm_python(last, *given[1:], axis=3, epsilon=0.5),
        ),
    ]
    for axis, size in ((1, 3), (3, 5)):
        across = lambda x, a=axis, s=size: topi.nn.lrn(x, s, a, 0.5, 0.75, 2.0)
        expected = testing.lrn_python(IMAGES, size, axis, 2.0, 0.5, 0.75)
        cases.append(Case(f"lrn {axis}", across, [IMAGES], expected, "schedule_lrn"))
    check(cases, target)


def test_means_of_more_elements_than_an_integer_of_32_bits_counts() -> None:
    """Nothing of this size runs here: what sums are divided by is a constant."""
    data = te.placeholder((65536, 65536), name="X")
    for made in (topi.nn.rms_norm(data, data, (0, 1)), topi.nn.layer_norm(data, data, None, (0, 1))):
        assert f"/ T.float32({2**32})" in str(made.op.body)
    images = te.placeholder((1, 2**30, 5, 5), name="Y")
    made = topi.nn.correlation_nchw(images, images, 3, 1, 1, 1, 0, True)
    assert f"/ T.float32({9 * 2**30})" in str(made.op.body)
