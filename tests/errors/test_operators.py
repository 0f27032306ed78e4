"""Wrong uses of the operator library: one test a message."""

from __future__ import annotations

from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import te, topi

A = te.placeholder((1, 4, 8, 8), name="A")
W, D = te.placeholder((4, 4, 3, 3), name="W"), te.placeholder((4, 1, 3, 3), name="D")
S = te.placeholder((4,), name="S")
M, R = te.placeholder((4, 8), name="M"), te.placeholder((1, 4, 8), name="R")


@pytest.mark.parametrize(
    ("operator", "given", "argument"),
    [
        (topi.nn.relu, (3,), "'x' is 3"),
        (topi.nn.leaky_relu, ("[A]", 0.1), "'x' is '[A]'"),
        (topi.nn.pad, (3, [1]), "'data' is 3"),
        (topi.nn.dilate, (None, [1]), "'data' is None"),
        (topi.nn.conv2d_nchw, (3, W, 1, 1), "'Input' is 3"),
        (topi.nn.conv2d_nchw, (A, 3, 1, 1), "'Filter' is 3"),
        (topi.nn.depthwise_conv2d_nchw, (A, (4, 1, 3, 3), 1, 1), "'Filter' is (4, 1, 3, 3)"),
        (topi.nn.depthwise_conv2d_nhwc, (3, W, 1, 1), "'Input' is 3"),
        (topi.nn.conv2d, (3, W, 1, 1, 1), "'input' is 3"),
        (topi.nn.conv1d, (R, 3), "'kernel' is 3"),
        (topi.nn.dense, (M, 3), "'weight' is 3"),
        (topi.nn.group_conv2d_nchw, ("A", W, 1, 1), "'Input' is 'A'"),
        (topi.nn.scale_shift_nchw, (3, S, S), "'Input' is 3"),
        (topi.nn.scale_shift_nhwc, (A, 2.0, S), "'Scale' is 2.0"),
    ],
)
def test_what_is_no_tensor(operator: Any, given: tuple[Any, ...], argument: str) -> None:
    name = operator.__name__
    with refused("scale_shift" if "shift" in name else name, f"argument {argument}, which is not a tensor", fix="te.p"):
        operator(*given)


def test_a_border_that_is_no_list() -> None:
    with refused("pad", "argument 'pad_before' is 1, which is not a list", fix="each dimension of 'A': [1, 1, 1, 1]"):
        topi.nn.pad(A, 1)
    with refused("pad", "argument 'pad_after' is 2, which is not a list", fix="[2, 2, 2, 2]"):
        topi.nn.pad(A, [0, 0, 1, 1], 2)


def test_a_border_of_another_rank() -> None:
    with refused("pad", "'A' has 4 dimensions, but pad_after has 2 entries", fix="one entry per dimension"):
        topi.nn.pad(A, [0, 0, 1, 1], [1, 1])


@pytest.mark.parametrize("width", [-1, 1.5, "a", None, True])
def test_a_border_that_is_no_width(width: Any) -> None:
    with refused("pad", f"pad_before is [0, 0, {width!r}, 1], and {width!r} is not a whole", fix="A[i + 1]"):
        topi.nn.pad(A, [0, 0, width, 1])
    with refused("pad", f"pad_after is [0, 0, 1, {width!r}]", fix="whole numbers from 0 on"):
        topi.nn.pad(A, [0, 0, 1, 1], (0, 0, 1, width))


@pytest.mark.parametrize("stride", [0, -1, 2.5, None])
def test_a_stride_that_is_none(stride: Any) -> None:
    with refused("dilate", f"strides is [1, 1, 1, {stride!r}]", fix="whole numbers from 1 on"):
        topi.nn.dilate(A, [1, 1, 1, stride])


def test_strides_that_are_no_list() -> None:
    with refused("dilate", "argument 'strides' is 3, which is not a list", fix="each dimension of 'A': [3, 3, 3, 3]"):
        topi.nn.dilate(A, 3)


def test_strides_of_another_rank() -> None:
    with refused("dilate", "'A' has 4 dimensions, but strides has 2 entries", fix="one entry per dimension"):
        topi.nn.dilate(A, [2, 2])


@pytest.mark.parametrize("groups", ["a", 2.0, None])
def test_groups_that_are_no_number(groups: Any) -> None:
    with refused("group_conv2d_nchw", f"argument 'groups' is {groups!r}", fix="groups=2"):
        topi.nn.group_conv2d_nchw(A, W, 1, 1, groups=groups)


def test_a_layout_that_is_none() -> None:
    with refused("conv2d", "argument 'data_layout' is 'NCHW4c'", fix="the letters of NCHW"):
        topi.nn.conv2d(A, W, 1, 1, 1, "NCHW4c")
    with refused("conv2d", "argument 'kernel_layout' is 'float32'", fix="out_dtype=..."):
        topi.nn.conv2d(A, W, 1, 1, 1, "NCHW", "float32")
    with refused("conv1d", "argument 'data_layout' is None", fix="the letters of NCW"):
        topi.nn.conv1d(A, W, data_layout=None)


@pytest.mark.parametrize(
    ("operator", "given", "says", "fix"),
    [
        (topi.nn.conv1d_ncw, (A, W), "data 'A' has the shape [1, 4, 8, 8]", "3-dimensional tensor of layout NCW"),
        (topi.nn.conv2d_hwcn, (A, W, 1, 1), "channels of Input and Filter: 8 and 3 differ", "shapes agree"),
        (topi.nn.conv2d, (A, W, (1, 2, 3), 1, 1), "argument 'stride' is (1, 2, 3)", "int >= 1, or a pair"),
        (topi.nn.conv2d, (A, W, 1, (1, 2, 3), 1), "padding is (1, 2, 3)", "(top, left, bottom, right)"),
        (topi.nn.conv2d, (A, W, 1, -1, 1), "padding is -1", "an int of at least 0"),
        (topi.nn.conv2d_nchw, (A, W, 1, 0, 4), "the kernel's height 9 is larger than the padded input's", "pad more"),
        (topi.nn.dense, (A, W), "data 'A' has the shape [1, 4, 8, 8]", "2-dimensional"),
    ],
)
def test_a_window_that_does_not_fit(operator: Any, given: tuple[Any, ...], says: str, fix: str) -> None:
    with refused(operator.__name__, says, fix=fix):
        operator(*given)
