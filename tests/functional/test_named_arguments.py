"""Names and positions of arguments are PyTorch's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.errors import UserError
from tilewright.functional.arguments.call import PUBLIC

X, W = np.arange(98.0, dtype="float32").reshape(1, 2, 7, 7), np.ones((2, 1, 3, 3), "float32")
LINE = {"1d": (X[:, :, 0], W[:, :, 0]), "2d": (X, W)}
POSITIONS = {
    "conv1d": "input weight bias stride padding dilation groups",
    "conv2d": "input weight bias stride padding dilation groups",
    "conv_transpose1d": "input weight bias stride padding output_padding groups dilation",
    "conv_transpose2d": "input weight bias stride padding output_padding groups dilation",
    "max_pool2d": "input kernel_size stride padding dilation ceil_mode return_indices",
    "avg_pool2d": "input kernel_size stride padding ceil_mode count_include_pad divisor_override",
}
"""The positional arguments of PyTorch's functions of these names."""


def arguments(name: str) -> list[Any]:
    x, w = LINE[name[-2:]]
    return [x, 3] if "pool" in name else [x, w]


@pytest.mark.parametrize("name", PUBLIC)
def test_x_may_be_called_input(name: str) -> None:
    call, (x, second) = getattr(tw, name), arguments(name)
    named = {"kernel_size" if "pool" in name else "weight": second}
    named |= {} if "pool" in name else {"groups": 2}
    wanted = call(x, **named)
    np.testing.assert_array_equal(call(input=x, **named), wanted)
    assert tw.explain_call(name, input=x, **named) == tw.explain_call(name, x, **named)
    with pytest.raises(UserError, match=r"x is given twice(?s:.*)fix: input is another name of x"):
        call(x, input=x, **named)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_wrong_name_is_told_the_right_one(name: str) -> None:
    call, given = getattr(tw, name), arguments(name)
    with pytest.raises(UserError, match=rf"{name}: there is no argument 'strid'(?s:.*)fix: did you mean stride\?"):
        call(*given, strid=2)
    with pytest.raises(UserError, match=r"there is no argument 'qqq'(?s:.*)fix: the arguments are x, .*stride"):
        tw.explain_call(name, *given, qqq=2)


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_pytorchs(name: str) -> None:
    ours = list(inspect.signature(getattr(tw, name)).parameters)
    wanted = POSITIONS[name].split()
    assert ours[: len(wanted)] == ["x", *wanted[1:]]


def test_groups_of_a_depthwise_convolution() -> None:
    wanted = tw.depthwise_conv2d(X, W)
    np.testing.assert_array_equal(tw.depthwise_conv2d(X, W, groups=2), wanted)
    for groups in (1, 3, 1.5, True):
        with pytest.raises(UserError, match=r"groups is .*, and x has 2 channels(?s:.*)fix: leave groups out, or give"):
            tw.depthwise_conv2d(X, W, groups=groups)


def calls() -> Iterator[Callable[[Any, Any], Any]]:
    """Calls by position, of a library's functions and of an image in float64."""
    yield lambda of, x: of.conv2d(x, x.new_ones(6, 1, 3, 2), None, (2, 1), (1, 0), 2, 3)
    yield lambda of, x: of.conv1d(x[:, :, 0], x.new_ones(6, 1, 3), None, 2, 1, 2, 3)
    yield lambda of, x: of.conv_transpose2d(x, x.new_ones(3, 2, 3, 2), None, 2, 1, (1, 0), 3, 2)
    yield lambda of, x: of.conv_transpose1d(x[:, :, 0], x.new_ones(3, 2, 3), None, 2, 1, 1, 3, 2)
    yield lambda of, x: of.max_pool2d(x, 3, 2, 1, 2, True, False)
    yield lambda of, x: of.avg_pool2d(x, 2, (), 0, False, True, -2)
    windows = ((2, 2, 1), (3, 2, 1), ((5, 2), (3, 2), (2, 1)), ((3, 2), (2, 3), (1, 0)), (3, 2, 0))
    for window, counts, divisor in product(windows, (True, False), (None, 5)):
        yield lambda of, x, given=(*window, True, counts, divisor): of.avg_pool2d(x, *given)


def test_calls_by_position_compute_what_pytorch_computes() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.randn(2, 3, 9, 10, dtype=torch.double)
    for call in calls():
        exact, leaf = (x.clone().requires_grad_() for _ in range(2))
        wanted, found = call(torch.nn.functional, exact), call(tw, leaf)
        torch.testing.assert_close(call(tw, x), wanted.detach())
        torch.testing.assert_close(found, wanted)
        grad = torch.randn_like(wanted)
        found.backward(grad)
        wanted.backward(grad)
        torch.testing.assert_close(leaf.grad, exact.grad)
