"""Calls that are unusual and legal, and some that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tilewright.core.errors import UserError

X, W = np.ones((1, 2, 4, 4), "float32"), np.ones((2, 1, 3, 3), "float32")


@pytest.mark.parametrize("activation", [None, "relu", "gelu"])
def test_a_vector_of_filters_beside_one_of_columns(activation: str | None) -> None:
    """Whether a choice is repeated in a loop asks which node it is, not whether it equals others of any width."""
    x, w = np.random.default_rng(0).random((2, 16, 1), "float32"), np.full((1, 3, 1), 2, "float32")
    found = tw.conv_transpose1d(x, w, padding=1, layout="NWC", activation=activation)
    wanted = np.repeat(2 * x[:, 1:-1].astype("float64"), 3, axis=2)
    np.testing.assert_allclose(found, np.vectorize(direct.ACTIVATIONS[activation])(wanted), rtol=1e-5)


@pytest.mark.parametrize("name", ["conv2d", "max_pool2d"])
def test_an_empty_batch_is_explained(name: str) -> None:
    x = np.ones((0, 2, 4, 4), "float32")
    arguments: tuple[Any, ...] = (x, W) if name == "conv2d" else (x, 2)
    options = {"groups": 2} if name == "conv2d" else {}
    assert tw.explain_call(name, *arguments, **options).endswith("runs:    nothing, since the result is empty")
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    assert "nothing, since" in tw.explain_call(name, *tensors, **options)


def test_an_output_whose_elements_are_one_place_is_refused() -> None:
    out = np.lib.stride_tricks.as_strided(np.zeros(2, "float32"), (1, 2, 2, 2), (0, 4, 0, 0))
    with pytest.raises(UserError, match="conv2d: several elements of out are one place in memory"):
        tw.conv2d(X, W, groups=2, out=out)


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        (((1, 2),), r"padding is \(\(1, 2\),\)(?s:.*)fix: give an int of at least 0, \(vertical, horizontal\)"),
        (2**31, r"padding is 2147483648(?s:.*)fix: give at most 1,073,741,824 on a side"),
        ((0, 2**62), r"fix: give at most 1,073,741,824 on a side"),
    ],
)
def test_paddings_that_mean_nothing(padding: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        tw.conv2d(X, W, groups=2, padding=padding)


def test_explain_call_names_the_type_of_what_is_no_operator_not_all_its_elements() -> None:
    with pytest.raises(UserError, match=r"the first argument, of type ndarray, is not one of the operators"):
        tw.explain_call(np.zeros((1, 4, 8, 8), "float32"), np.zeros((4, 1, 3, 3), "float32"))


@pytest.mark.parametrize("value", ["x", "", None, 2, [1]])
@pytest.mark.parametrize("option", ["ceil_mode", "count_include_pad"])
def test_options_that_are_neither_true_nor_false(option: str, value: Any) -> None:
    with pytest.raises(UserError, match=rf"'{option}' is (?s:.*)fix: give True or False"):
        tw.avg_pool2d(X, 2, **{option: value})


def test_numpys_true_is_true() -> None:
    found = tw.max_pool2d(np.ones((1, 2, 5, 5), "float32"), 2, ceil_mode=np.True_)
    assert found.shape == (1, 2, 3, 3)
    assert tw.max_pool2d(np.ones((1, 2, 5, 5), "float32"), 2, ceil_mode=0).shape == (1, 2, 2, 2)


@pytest.mark.parametrize("activation", [3, ("relu",), b"relu"])
def test_activations_that_are_neither_names_nor_functions(activation: Any) -> None:
    with pytest.raises(UserError, match=r"conv2d: activation is .*, which is not known"):
        tw.conv2d(X, W, groups=2, activation=activation)


def test_the_explanation_of_a_call_without_arrays() -> None:
    with pytest.raises(UserError, match="x is None, which is not an array"):
        tw.explain_call(tw.conv2d)


def test_a_transposed_result_of_no_size() -> None:
    x, w = np.ones((1, 2, 1), "float32"), np.ones((2, 1, 3), "float32")
    with pytest.raises(UserError, match=r"the result would have the size -1(?s:.*)fix: give a smaller padding"):
        tw.conv_transpose1d(x, w, padding=2)
