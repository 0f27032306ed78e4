"""What operators declare is what their references compute, in every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, topi
from tilewright.tensor.reference import reference

nn, testing = topi.nn, topi.testing


def values(*shape: int) -> np.ndarray:
    """Whole numbers, which add up exactly in any order."""
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype("float32")


def computed(operator: Any, given: list[np.ndarray], *options: Any, **named: Any) -> np.ndarray:
    tensors = [te.placeholder(each.shape, str(each.dtype)) for each in given]
    made = operator(*tensors, *options, **named)
    (found,) = reference([made], dict(zip(tensors, given, strict=True)))
    return found


WINDOWS = [(1, 0), (2, 1), ((2, 1), (1, 2)), (1, "SAME"), (2, "VALID"), (1, (0, 1, 2, 1))]
IMAGE, FILTER, DEPTHWISE = values(2, 4, 7, 6), values(6, 4, 3, 2), values(4, 3, 3, 2)


def moved(value: np.ndarray, layout: str, to: str) -> np.ndarray:
    return np.ascontiguousarray(value.transpose([layout.index(d) for d in to]))


@pytest.mark.parametrize(("stride", "padding"), WINDOWS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "HWCN", "CHWN"])
def test_conv2d(layout: str, stride: Any, padding: Any) -> None:
    kernel = "OIHW" if layout.startswith("NC") else "HWIO"
    image, weights = moved(IMAGE, "NCHW", layout), moved(FILTER, "OIHW", kernel)
    expected = moved(testing.conv2d_nchw_python(IMAGE, FILTER, stride, padding), "NCHW", layout)
    found = computed(nn.conv2d, [image, weights], stride, padding, 1, data_layout=layout)
    np.testing.assert_array_equal(found, expected)
    operator = getattr(nn, f"conv2d_{layout.lower()}", None)
    if operator is not None:
        np.testing.assert_array_equal(computed(operator, [image, weights], stride, padding), expected)
        theirs = getattr(testing, f"conv2d_{layout.lower()}_python")
        np.testing.assert_array_equal(theirs(image, weights, stride, padding), expected)


def test_conv2d_with_a_layout_for_the_kernel() -> None:
    found = computed(nn.conv2d, [IMAGE, moved(FILTER, "OIHW", "HWOI")], 1, 1, 2, "NCHW", "HWOI", "float64")
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, testing.conv2d_nchw_python(IMAGE, FILTER, 1, 1, dilation=2))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_group_conv2d(layout: str) -> None:
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    weights = FILTER[:, :2]
    expected = moved(testing.conv2d_nchw_python(IMAGE, weights, 1, 1, groups=2), "NCHW", layout)
    operator = getattr(nn, f"group_conv2d_{layout.lower()}")
    given = [moved(IMAGE, "NCHW", layout), moved(weights, "OIHW", kernel)]
    np.testing.assert_array_equal(computed(operator, given, 1, 1, groups=2), expected)


@pytest.mark.parametrize(("stride", "padding"), WINDOWS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_depthwise_conv2d(layout: str, stride: Any, padding: Any) -> None:
    given = [moved(IMAGE, "NCHW", layout), moved(DEPTHWISE, "CMHW", "CMHW" if layout == "NCHW" else "HWCM")]
    expected = moved(testing.depthwise_conv2d_python_nchw(IMAGE, DEPTHWISE, stride, padding), "NCHW", layout)
    operator = getattr(nn, f"depthwise_conv2d_{layout.lower()}")
    np.testing.assert_array_equal(computed(operator, given, stride, padding), expected)
    theirs = getattr(testing, f"depthwise_conv2d_python_{layout.lower()}")
    np.testing.assert_array_equal(theirs(*given, stride, padding), expected)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 2), ((3,), (2, 1)), (1, "SAME")])
def test_conv1d(stride: Any, padding: Any) -> None:
    """A row of images is what a 1-D convolution sees."""
    row, weights = values(2, 4, 9), values(5, 4, 3)
    side = padding[0] if isinstance(padding, tuple) else padding
    other = padding[1] if isinstance(padding, tuple) else padding
    around = padding if padding == "SAME" else (0, side, 0, other)
    step = stride[0] if isinstance(stride, tuple) else stride
    expected = testing.conv2d_nchw_python(row[:, :, None], weights[:, :, None], (1, step), around)[:, :, 0]
    for operator in (nn.conv1d, nn.conv1d_ncw):
        np.testing.assert_array_equal(computed(operator, [row, weights], stride, padding), expected)
    turned = [moved(row, "NCW", "NWC"), moved(weights, "OIW", "WIO")]
    expected = moved(expected, "NCW", "NWC")
    np.testing.assert_array_equal(computed(nn.conv1d_nwc, turned, stride, padding), expected)
    np.testing.assert_array_equal(computed(nn.conv1d, turned, stride, padding, data_layout="NWC"), expected)


def test_dense() -> None:
    data, weight, bias = values(3, 5), values(4, 5), values(4)
    np.testing.assert_array_equal(computed(nn.dense, [data, weight]), data @ weight.T)
    np.testing.assert_array_equal(computed(nn.dense, [data, weight, bias]), data @ weight.T + bias)
    assert (
        nn.dense(te.placeholder((3, 5), "float16"), te.placeholder((4, 5), "float16"), None, "float32").dtype
        == "float32"
    )


def test_the_legacy_names_of_results_and_axes() -> None:
    made = nn.conv2d(te.placeholder((1, 8, 8, 4)), te.placeholder((3, 3, 4, 2)), 1, 1, 1, "NHWC")
    assert (made.op.name, made.op.tag) == ("conv2d_nhwc", "conv2d_nhwc")
    assert [axis.name for axis in made.op.axis] == ["nn", "yy", "xx", "ff"]
    assert [axis.name for axis in made.op.reduce_axis] == ["ry", "rx", "rc"]
