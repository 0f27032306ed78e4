"""Modules read their weight and bias as PyTorch's do, wherever these are."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.nn import layers  # noqa: E402  # needs PyTorch

nn = torch.nn
X = torch.randn(1, 4, 6, 6)


class Doubled(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """A parametrization."""

    def forward(self, a: Any) -> Any:
        return 2 * a


class Shifted(nn.Conv2d):  # type: ignore[misc]  # likewise
    """A layer whose class has a property in place of the parameter."""

    @property
    def weight(self) -> Any:
        if "weight" not in self._parameters:
            raise AttributeError
        return self._parameters["weight"] + 1


def plain(layer: Any) -> Any:
    return layer


def parametrized(layer: Any) -> Any:
    for name in ("weight", "bias"):
        nn.utils.parametrize.register_parametrization(layer, name, Doubled())
    return layer


def pruned(layer: Any) -> Any:
    prune: Any = importlib.import_module("torch.nn.utils.prune")
    return prune.custom_from_mask(layer, "weight", torch.ones(4, 1, 3, 3).tril())


def frozen(layer: Any) -> Any:
    layer.weight = nn.Parameter(layer.weight.detach() * 3, requires_grad=False)
    return layer


def replica(layer: Any) -> Any:
    """Return a replica as `DataParallel` makes it: its tensors are attributes, not parameters."""
    made, weight, bias = layer._replicate_for_data_parallel(), layer.weight * 3, layer.bias * 3
    made._parameters = {}
    made.weight, made.bias = weight, bias
    return made


def without_bias(layer: Any) -> Any:
    layer.bias = None
    return layer


def called(layer: Any) -> Any:
    state = {"weight": layer.weight * 5}
    return lambda x: torch.func.functional_call(layer, state, (x,))


CHANGES: list[Callable[[Any], Any]] = [plain, parametrized, pruned, frozen, replica, without_bias, called]
CASES = [*product((nn.Conv2d, nn.ConvTranspose2d), CHANGES), (Shifted, plain), (Shifted, called)]


@pytest.mark.parametrize(("kind", "change"), CASES, ids=lambda part: part.__name__)
def test_the_weight_and_the_bias_of_a_module(kind: type, change: Callable[[Any], Any]) -> None:
    theirs = kind(4, 4, 3, padding=1, groups=4)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_()
    ours = copy.deepcopy(theirs)
    ours.__class__ = layers.replacement(kind)
    both = change(ours), change(theirs)
    for _ in range(3):  # the second call finds the first one's executor
        mine, right = (run(X) for run in both)
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-4)
    mine.sum().backward()
    right.sum().backward()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)


def test_a_class_of_ones_own_with_a_property() -> None:
    class Tripled(tw.nn.Conv2d):  # type: ignore[misc]  # PyTorch is not followed
        @property
        def bias(self) -> Any:
            if "bias" not in self._parameters:
                raise AttributeError
            return 3 * self._parameters["bias"]

    layer = Tripled(4, 4, 3, groups=4)
    right = nn.functional.conv2d(X, layer.weight, layer.bias, groups=4)
    torch.testing.assert_close(layer(X), right, rtol=1e-4, atol=1e-4)
