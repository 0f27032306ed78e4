"""Operators at the corners of their domain: no rows, NaN at the end of a sequence, labels of eight bits."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tw
from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import te, topi
from tilewright.runtime.array import array
from tilewright.topi import nn, testing


@every_target
def test_values_are_found_among_nan(target: str) -> None:
    sequence = np.array([-1.5, 0, 0, 2, np.nan, np.nan], "float32")
    values = np.array([np.nan, 0, 5, -9, 2], "float32")
    cases = [
        Case(
            f"to the {side}",
            lambda s, v, right=side == "right": topi.searchsorted(s, v, right),
            [sequence, values],
            np.searchsorted(sequence, values, side),  # type: ignore[call-overload]
            "schedule_extern",
        )
        for side in ("left", "right")
    ]
    check(cases, target)


@every_target
def test_labels_are_of_eight_bits(target: str) -> None:
    """The default of `ignore_index` is below all numbers of uint8."""
    guess = np.log(np.random.default_rng(5).uniform(0.1, 1, (3, 200))).astype("float32")
    labels = np.array([0, 199, 130], "uint8")
    loss = -np.mean(guess[np.arange(3), labels], dtype=np.float64, keepdims=False)
    given = [guess, labels, np.ones(200, "float32")]
    check([Case("loss", nn.nll_loss, given, np.asarray(loss, "float32"), "schedule_reduce")], target)


@every_target
def test_a_label_that_is_no_class_has_no_loss(target: str) -> None:
    labels = np.array([1, -1, 2_000_000_000, 2, 3, -100], "int32")
    expected = np.array([3, np.nan, np.nan, 6, np.nan, 0], "float32")
    given = [np.full((6, 3), -3, "float32"), labels, np.array([9, 1, 2], "float32")]
    check([Case("loss", lambda *t: nn.nll_loss(*t, "none"), given, expected)], target)


@every_target
def test_moving_moments_are_outputs_beside_inputs(target: str) -> None:
    moments = [np.array([1, 2], "float32"), np.array([4, 9], "float32")]
    given = [np.full((2, 2, 3, 3), 5, "float32"), *(np.ones(2, "float32"),) * 2, *moments]
    normal = testing.batch_norm_python(*given)
    check([Case("batch norm", nn.batch_norm, given, [normal, *moments], "schedule_batch_norm")], target)


EMPTY: list[tuple[Any, list[tuple[int, ...]], tuple[int, ...]]] = [
    (lambda x: nn.space_to_batch_nd(x, [2], [1], [1]), [(0, 4)], (0, 3)),
    (lambda x: nn.space_to_depth(x, 2), [(1, 0, 2, 2)], (1, 0, 1, 1)),
    (lambda x: nn.dilate(x, [3, 2]), [(0, 4)], (0, 7)),
    (lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1), [(1, 2, 4, 4), (2, 0, 3, 3)], (1, 0, 4, 4)),
    (lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2), [(1, 4, 4, 4), (0, 2, 3, 3)], (1, 0, 4, 4)),
    (lambda x, w: nn.group_conv2d_transpose_nchw(x, w, 1, 1, None, 0, 2), [(1, 4, 4, 4), (4, 0, 3, 3)], (1, 0, 4, 4)),
    (lambda x, g, b: nn.group_norm(x, g, b, 2, 1, [2]), [(1, 0, 3), (0,), (0,)], (1, 0, 3)),
    (lambda x, w: nn.depthwise_conv2d_NCHWc(x, w, 1, 1, 1, "NCHW4c", "NCHW4c"),
     [(1, 0, 4, 4, 4), (0, 1, 3, 3, 1, 4)], (1, 0, 4, 4, 4)),
    (lambda x, m, w: nn.deformable_conv2d_nchw(x, m, w, 1, 1, 1, 1, 1),
     [(1, 0, 4, 4), (1, 18, 4, 4), (3, 0, 3, 3)], (1, 3, 4, 4)),
]  # fmt: skip


def test_there_are_no_images_channels_or_filters() -> None:
    """What results there are sums of no terms."""
    for operator, given, shape in EMPTY:
        inputs = [te.placeholder(s, name=f"A{i}") for i, s in enumerate(given)]
        made = operator(*inputs)
        s = te.create_schedule(made.op)
        found = array(np.full(shape, 7, "float32"))
        tw.build(s, [*inputs, made], target="llvm")(*(array(np.ones(each, "float32")) for each in given), found)
        assert topi.utils.get_const_tuple(made.shape) == shape
        assert not found.numpy().any()


@every_target
def test_deformed_images_of_float64_keep_its_digits(target: str) -> None:
    random = np.random.default_rng(9)
    image, moves, taps = (random.normal(0, 1, s) for s in ((1, 2, 6, 5), (1, 18, 6, 5), (3, 2, 3, 3)))
    expected = testing.deformable_conv2d_nchw_python(image, moves, taps, 1, 1, 1, 1, 1)
    operator = lambda x, m, w: nn.deformable_conv2d_nchw(x, m, w, 1, 1, 1, 1, 1)
    schedule = "schedule_deformable_conv2d_nchw"
    check([Case("deformed", operator, [image, moves, taps], expected, schedule, 1e-12, 1e-12)], target)


@every_target
def test_there_are_no_rows_to_sort(target: str) -> None:
    nothing = np.zeros((0, 3), "float32")
    check([Case("sort", topi.sort, [nothing], nothing, "schedule_sort")], target)


@every_target
def test_nothing_is_moved_by_indices(target: str) -> None:
    """No indices into a tensor, of which some have no elements, and no updates: results are empty, or copies."""
    table, none, row = np.zeros((0, 4), "float32"), np.zeros((0, 4), "int32"), np.zeros((0,), "int32")
    data = np.arange(12, dtype="float32").reshape(3, 4)
    copied = "schedule_scatter"
    cases = [
        Case("embed", nn.embed, [table, row], table),
        Case("wrap", lambda a, i: topi.take(a, i, 0, mode="wrap"), [table, row], table),
        Case("nan", lambda a, i: topi.take(a, i, 0, mode="nan"), [table, np.zeros((2,), "int32")],
             np.full((2, 4), np.nan, "float32")),
        Case("gather", lambda a, i: topi.gather(a, 0, i), [table, none], table),
        Case("tile", lambda a: topi.tile(a, (2, 3)), [table], np.zeros((0, 12), "float32")),
        Case("scatter", lambda a, i, u: topi.scatter_elements(a, i, u, 0, "add"), [data, none, table], data, copied),
        Case("update", lambda a, i, u: topi.scatter_elements(a, i, u, 0), [data, none, table], data, copied),
        Case("nd", lambda a, i, u: topi.scatter_nd(a, i, u, "add"), [data, row[None], table], data, copied),
        Case("no lanes", lambda a, i, u: topi.scatter_elements(a, i, u, 1), [table, none, table], table, copied),
    ]  # fmt: skip
    check(cases, target)


def _half(name: str, operator: Any, given: list[np.ndarray], expected: np.ndarray, schedule: str) -> Case:
    return Case(name, operator, given, expected, schedule, 2e-3, 1e-7)


@every_target
def test_sums_of_16_bits_do_not_stand_still(target: str) -> None:
    """A float16 that has grown to 2048 stays there when 1 is added: so do partial sums, of long rows."""
    random = np.random.default_rng(7)
    rows, image = random.normal(0, 0.1, (1, 60_000)).astype("float16"), np.ones((1, 2, 72, 72), "float16")
    classes, guess = np.zeros(5000, "int32"), np.full((5000, 2), -1, "float16")
    loud = random.uniform(250, 400, (1, 6, 4)).astype("float16")  # squares overflow float16
    cases = [
        _half("softmax", nn.softmax, [rows], testing.softmax_python(rows), "schedule_softmax"),
        _half("log", nn.log_softmax, [rows], testing.log_softmax_python(rows), "schedule_softmax"),
        _half("global", lambda x: nn.global_pool(x, "avg"), [image], image[:, :, :1, :1], "schedule_adaptive_pool"),
        _half("pool", lambda x: nn.pool2d(x, 72, 1, 1, 0, "avg"), [image], image[:, :, :1, :1], "schedule_pool"),
        _half("lrn", lambda x: nn.lrn(x, 3), [loud], testing.lrn_python(loud, 3, 1, 2.0, 1e-4, 0.75), "schedule_lrn"),
        _half("loss", lambda g, c, w: nn.nll_loss(g, c, w, "sum"), [guess, classes, np.ones(2, "float16")],
              np.asarray(5000, "float16"), "schedule_reduce"),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_gradients_of_16_bits_do_not_stand_still(target: str) -> None:
    data, grads = (np.ones((1, 56, 56, 2), "float16") for _ in range(2))
    by_filter = nn.depthwise_conv2d_backward_weight_nhwc
    each = np.ones((1, 1, 50, 50), "float16")
    cases = [
        _half("by filter", lambda x, g: by_filter(x, g, grads.shape, (1, 1, 2, 1), 1, 0), [data, grads],
              np.full((1, 1, 2, 1), 56 * 56, "float16"), "schedule_depthwise_conv2d_backward_weight_nhwc"),
        _half("pool", lambda g, x: nn.pool_grad(g, x, 50, 1, 49, "avg"), [np.ones((1, 1, 99, 99), "float16"), each],
              each, "schedule_pool_grad"),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_averages_of_bytes_are_not_those_of_what_wrapped(target: str) -> None:
    random = np.random.default_rng(8)
    cases = []
    for kind, low in (("int8", -128), ("uint8", 0), ("int16", -30_000)):
        image = random.integers(low, -low - 1 if low else 255, (1, 2, 20, 18)).astype(kind)
        for size in ((3, 3), (20, 18)):
            expected = testing.poolnd_python(image, size, (1, 1), (1, 1), (0, 0), (0, 0), "avg")
            pool = lambda x, s=size: nn.pool2d(x, s, 1, 1, 0, "avg")
            cases.append(Case(f"{kind} {size[0]}", pool, [image], expected, "schedule_pool"))
    check(cases, target)
