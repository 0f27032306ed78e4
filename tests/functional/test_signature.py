"""Checked calls: shapes that follow, and one test for each message."""

from __future__ import annotations

from itertools import product

import pytest

from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.functional.arguments.activations import activation_name
from tilewright.functional.arguments.call import CallOptions
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.arguments.signature import ArrayProperties, Arrays, signature
from tilewright.functional.planning.compiler import strategies_of

HERE = ("cpu", 0)


def seen(shape, dtype="float32", device=HERE, last=False):
    return ArrayProperties(tuple(shape), dtype, device, last)


def call(name="conv2d", x=(2, 4, 9, 8), w=(8, 2, 3, 3), bias=None, residual=None, out=None, **options):
    given = [a if isinstance(a, ArrayProperties) or a is None else seen(a) for a in (x, w, bias, residual, out)]
    usual = {"conv2d": {"groups": 2}, "depthwise_conv2d": {"groups": None}}.get(name, {})
    return signature(name, Arrays(*given), CallOptions(**{**usual, **options}))


ON_GPU = ("cuda", 0)


def test_filters_that_lie_channels_last_are_taken_as_they_lie_on_a_gpu() -> None:
    def order(groups=1, device=ON_GPU, last=True):
        x = seen((2, 16, 9, 8), device=device, last=True)
        w = seen((16, 16 // groups, 3, 3), device=device, last=last)
        return call(x=x, w=w, groups=groups).problem.weights

    assert order() == "OHWI"
    assert {order(last=False), order(device=HERE), order(groups=2)} == {"OIHW"}


def test_kernels_take_filters_that_lie_channels_last() -> None:
    for dtype, taps, channels, filters in product(("float16", "float32", "float64"), (1, 3, 7), (3, 16), (4, 8, 64)):
        window = ((taps, taps), (1, 1), (taps // 2,) * 4, (1, 1))
        problem = Problem("conv", (2, channels, 14, 14), filters, *window, 1, dtype, "NHWC").with_filters_last
        able, workload = strategies_of(problem, Target("cuda"))
        assert able
        assert workload.weights == problem.weights


def test_the_shape_of_the_result_follows() -> None:
    assert call().shape == (2, 8, 7, 6)
    assert call(stride=2, padding=1, dilation=2).shape == (2, 8, 4, 3)
    assert call(x=(4, 9, 8)).shape == (8, 7, 6)
    assert call(x=(2, 9, 8, 4), layout="NHWC").shape == (2, 7, 6, 8)
    assert call("conv1d", (1, 4, 9), (6, 4, 3)).shape == (1, 6, 7)
    assert call("conv_transpose2d", w=(4, 3, 3, 3), stride=2, output_padding=1).shape == (2, 3, 20, 18)
    pooled = call("max_pool2d", w=None, kernel_size=3, stride=2, padding=1, ceil_mode=True)
    assert pooled.shape == (2, 4, 5, 5)


def test_channels_last_memory_is_another_problem_of_the_same_shape() -> None:
    found = call(x=seen((2, 4, 9, 8), last=True))
    assert found.problem.layout == "NHWC"
    assert found.shape == (2, 8, 7, 6)
    assert found.order == (0, 2, 3, 1)
    assert call(x=seen((4, 9, 8), last=True)).order == (1, 2, 0)
    line = call("conv1d", seen((2, 4, 9), last=True), (8, 4, 3))
    assert (line.problem.layout, line.order) == ("NHWC", (0, 2, 1))
    assert line.problem == call("conv1d", seen((2, 9, 4)), (8, 4, 3), layout="NWC").problem
    assert call("conv1d", seen((4, 9), last=True), (8, 4, 3)).order == (1, 0)


def test_a_problem_is_read_as_it_was_written() -> None:
    problem = call(padding="same", bias=(8,)).problem
    assert Problem.read(problem.description()) == problem
    assert str(problem) == "conv  2x4x9x8  weights 8x2x3x3  padding 1x1x1x1  groups 2  bias  float32  NCHW"


WRONG = {
    "x has the type int32": {"x": seen((2, 4, 9, 8), "int32")},
    "x has the type complex64": {"x": seen((2, 4, 9, 8), "complex64")},
    "x has 2 dimensions: its shape is (2, 4)": {"x": (2, 4)},
    "x has 1 dimension: its shape is (4,)": {"x": (4,)},
    "x has the shape (2, 4, 0, 8); only the batch may be empty": {"x": (2, 4, 0, 8)},
    "a window of 3x3 is larger than the padded input, 2x2": {"x": (2, 4, 2, 2)},
    "layout is 'NCW'": {"layout": "NCW"},
    "output_padding 2x2 reaches the stride 2x2 and the dilation 1x1": {
        "name": "conv_transpose2d", "w": (4, 3, 3, 3), "stride": 2, "output_padding": 2,
    },
    "the weight is not given": {"w": None},
    "the weight is of shape (8, 2, 3)": {"w": (8, 2, 3)},
    "the weight has the shape (8, 2, 0, 3)": {"w": (8, 2, 0, 3)},
    "a weight of shape (8, 4, 3, 3) does not fit 4 channels in 2 groups": {"w": (8, 4, 3, 3)},
    "groups is 0": {"groups": 0},
    "groups is 3, which does not divide the 4 channels of x": {"w": (9, 1, 3, 3), "groups": 3},
    "there is no kernel_size": {"name": "max_pool2d", "w": None},
    'padding="same" needs a convolution of stride 1': {"padding": "same", "stride": 2},
    "padding is -1": {"padding": -1},
    "padding is 'full'": {"padding": "full"},
    "padding 2x2x2x2 is more than half of the kernel 3x3": {
        "name": "max_pool2d", "w": None, "kernel_size": 3, "padding": 2,
    },
    "divisor_override is 0": {"name": "avg_pool2d", "w": None, "kernel_size": 3, "divisor_override": 0},
    "return_indices is True": {"name": "max_pool2d", "w": None, "kernel_size": 3, "return_indices": True},
    "groups is 2, and x has 4 channels": {"name": "depthwise_conv2d", "w": (4, 1, 3, 3), "groups": 2},
    "stride is (1, 2, 3)": {"stride": (1, 2, 3)},
    "dilation is 1.5": {"dilation": 1.5},
    "bias has the shape (7,)": {"bias": (7,)},
    "residual has the shape (2, 8, 7, 7)": {"residual": (2, 8, 7, 7)},
    "out has the shape (1,)": {"out": (1,)},
    "weight has the type float64, and x has float32": {"w": seen((8, 2, 3, 3), "float64")},
    "bias is on cuda:1, and x is on cpu": {"bias": seen((8,), device=("cuda", 1))},
    "weight is on meta, and x is on cpu": {"w": seen((8, 2, 3, 3), device=("meta", -1))},
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_messages(message: str) -> None:
    with pytest.raises(UserError) as caught:
        call(**WRONG[message])
    assert message in caught.value.message
    assert caught.value.fix


FITS = {
    "pass groups=4, which this weight fits, or a weight of shape (filters, 4, rows, columns)": {
        "w": (4, 1, 3, 3), "groups": 1,
    },
    "pass groups=1, which this weight fits, or a weight of shape "
    "(filters, 2, rows, columns), with filters a multiple of 2": {"w": (8, 4, 3, 3)},
    "exchange its first two dimensions: PyTorch's order is (filters, channels, ...)": {"w": (4, 8, 3, 3), "groups": 1},
    "transpose it: PyTorch's order is (filters, channels, ...), and this looks like TensorFlow's": {
        "w": (3, 3, 1, 4), "groups": 4,
    },
    "give a weight of shape (filters, 4, rows, columns)": {"w": (8, 8, 4, 4), "groups": 1},
    "give a weight of shape (filters, 2, rows, columns), with filters a multiple of 2": {"w": (7, 2, 3, 3)},
    "give a weight of shape (filters, 2, length), with filters a multiple of 2": {
        "name": "conv1d", "x": (2, 4, 9), "w": (8, 3, 3), "groups": 2,
    },
    "give a weight of shape (4, filters / 2, rows, columns)": {
        "name": "conv_transpose2d", "w": (6, 3, 3, 3), "groups": 2,
    },
    "give a weight of shape (4 x multiplier, 1, rows, columns)": {"name": "depthwise_conv2d", "w": (6, 1, 3, 3)},
}  # fmt: skip


@pytest.mark.parametrize("fix", FITS)
def test_the_fix_for_a_weight_reads_what_was_meant(fix: str) -> None:
    with pytest.raises(UserError, match=r"a weight of shape .* does not fit 4 channels in") as caught:
        call(**FITS[fix])
    assert caught.value.fix == fix


def test_a_precision_is_for_float32() -> None:
    assert call(precision="tf32").problem.precision == "tf32"
    halves = call(x=seen((2, 4, 9, 8), "float16"), w=seen((8, 2, 3, 3), "float16"), precision="tf32")
    assert halves.problem.precision == "fp32"
    assert "tf32" in str(call(precision="tf32").problem)
    with pytest.raises(UserError, match="precision is 'bf16'"):
        call(precision="bf16")
    with pytest.raises(UserError, match=r"precision is \['tf32'\]"):
        call(precision=["tf32"])


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(UserError, match="activation is 'swish'"):
        activation_name("conv2d", "swish")
