"""The layers that `accelerate` replaces, and its reasons for the layers that it leaves alone."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

import tilewright as tw
from tests.functional.made_up import seconds
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.nn import acceleration  # noqa: E402  # needs PyTorch
from tilewright.nn.layers import ModelLayer  # noqa: E402  # after the check for PyTorch

nn = torch.nn
X = torch.randn(2, 6, 9, 10)


@pytest.fixture(autouse=True)
def _ours_is_faster(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "_keep", lambda *_: None)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect", groups=6), "conv  2x6x11x12  weights 6x1x3x3"),
        (lambda: nn.Conv2d(6, 6, 3, padding=(2, 1), padding_mode="circular", groups=3), "conv  2x6x13x12"),
        (lambda: nn.Conv2d(6, 6, 3, padding="same", padding_mode="replicate", groups=6), "conv  2x6x11x12"),
        (lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True), "max_pool  2x6x9x10  kernel 3x3  stride 2x2  padding 1x1x1x2"),
        (lambda: nn.MaxPool2d(2, dilation=2, stride=1), "max_pool  2x6x9x10  kernel 2x2  dilation 2x2"),
        (lambda: nn.AvgPool2d(2, count_include_pad=False, padding=1), "avg_pool  2x6x9x10  kernel 2x2  stride 2x2"),
        (lambda: nn.LazyConv2d(6, 3, groups=6), "conv  2x6x9x10  weights 6x1x3x3  groups 6"),
        (lambda: nn.ConvTranspose2d(6, 6, 3, 2, 1, 1, groups=6), "conv_transpose  2x6x9x10  weights 6x1x3x3"),
    ],
    ids="reflect circular replicate max dilated average lazy transposed".split(),
)
def test_layers_that_are_replaced(make: Any, text: str) -> None:
    model = nn.Sequential(make()).eval()
    done = tw.accelerate(model, X)
    (row,) = done.rows
    assert row.replaced
    assert row.text.startswith(text)
    assert type(model[0]).__module__ == "tilewright.nn.modules"
    with torch.no_grad():
        found = model(X)
        done.undo()
        torch.testing.assert_close(found, model(X), rtol=1e-5, atol=1e-5)


def test_one_dimensional_layers_are_shown_as_such() -> None:
    model = nn.Sequential(nn.Conv1d(6, 6, 5, 2, 2, groups=6), nn.ConvTranspose1d(6, 6, 3, 2, 0, 1, groups=6)).eval()
    rows = tw.accelerate(model, torch.randn(9, 6, 10)).rows
    assert [row.text for row in rows] == [
        "conv  9x6x10  weights 6x1x5  stride 2  padding 2x2  groups 6  bias  float32  NCW",
        "conv_transpose  9x6x5  weights 6x1x3  stride 2  output_padding 1  groups 6  bias  float32  NCW",
    ]


class Named(nn.Conv2d):  # type: ignore[misc]  # PyTorch is not followed
    """A class of a user, without a forward call of its own."""

    def size(self) -> int:
        """The number of its weights."""
        return int(self.weight.numel())


class Own(nn.Conv2d):  # type: ignore[misc]  # PyTorch is not followed
    """Another one, with it."""

    def forward(self, x: Any) -> Any:
        """Twice the convolution."""
        return 2 * super().forward(x)


def test_a_subclass_keeps_its_own_methods() -> None:
    model = nn.Sequential(Named(6, 6, 3, groups=6), nn.ReLU()).eval()
    right = model(X)
    done = tw.accelerate(model, X)
    layer = model[0]
    assert isinstance(layer, Named)
    assert layer.size() == 54
    assert layer.forward.__func__ is tw.nn.Conv2d.forward
    torch.testing.assert_close(model(X), right, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(copy.deepcopy(model)(X), right, rtol=1e-5, atol=1e-5)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded[0]) is type(layer)
    torch.testing.assert_close(loaded(X), right, rtol=1e-5, atol=1e-5)
    done.undo()
    assert type(layer) is Named


def parametrized() -> Any:
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(6, 6, 3, groups=6))


def with_own_forward() -> Any:
    layer = nn.Conv2d(6, 6, 3)
    layer.forward = lambda x: nn.Conv2d.forward(layer, x) + 1
    return layer


def prepared() -> Any:
    layer = nn.Conv2d(6, 6, 3)
    layer.qconfig = None
    return layer


def with_activation() -> Any:
    layer = nn.Conv2d(6, 6, 3)
    layer.activation = "relu"
    return layer


def quantised() -> Any:
    return type("Quantised", (nn.Conv2d,), {"__module__": "torch.ao.nn.quantized"})(6, 6, 3)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (quantised, "it is quantised, and our kernels compute floating-point numbers"),
        (with_activation, "it has an attribute of the name activation, which modules of tilewright.nn apply"),
        (lambda: Own(6, 6, 3, groups=6), "its class Own has its own forward(); derive it from tilewright.nn.Conv2d"),
        (with_own_forward, "its class Conv2d has its own forward(); derive it from tilewright.nn.Conv2d"),
        (parametrized, "it has parametrizations; end them by torch.nn.utils.parametrize.remove_parametrizations"),
        (prepared, "it is prepared for quantisation"),
        (lambda: nn.Conv2d(6, 6, 3, dtype=torch.complex64), "it computes in torch.complex64"),
        (lambda: nn.Conv3d(2, 2, 1), "there is no module of ours for Conv3d"),
        (lambda: nn.MaxPool1d(2), "there is no module of ours for MaxPool1d"),
        (lambda: tw.nn.Conv2d(6, 6, 3), "it is a module of tilewright.nn already"),
    ],
)
def test_layers_that_are_left_alone_have_a_row_with_the_reason(make: Any, why: str) -> None:
    layer = make()
    x = {nn.Conv3d: torch.randn(1, 2, 3, 4, 5), nn.MaxPool1d: X[0]}.get(type(layer), X)
    kind = type(layer)
    (row,) = tw.accelerate(nn.Sequential(layer).eval(), x.to(next(layer.parameters(), x).dtype)).rows
    assert (row.why, row.replaced) == (why, False)
    assert row.text.startswith(kind.__name__)
    assert type(layer) is kind


class Branches(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """A layer that the sample does not reach, and one that returns indices."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.MaxPool2d(2, return_indices=True), nn.Conv2d(6, 6, 3)
        self.lazy = nn.LazyConv2d(6, 3)

    def forward(self, x: Any) -> Any:
        """One of the two."""
        return self.used(x)[0]


def test_layers_that_the_sample_does_not_reach() -> None:
    rows = tw.accelerate(Branches().eval(), X).rows
    assert [row.why for row in rows] == [
        "it returns indices", "the sample does not reach it", "it is lazy, and the sample does not reach it",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "kind", "summed"),
    [
        (nn.Conv2d(6, 6, 3, groups=6), "cuda", [True, False]),
        (nn.Conv2d(6, 6, 3, groups=6), "cpu", [False, False]),
        (nn.Conv2d(6, 6, 3, groups=6, bias=False), "cuda", [False, False]),
        (nn.ConvTranspose2d(6, 6, 3, groups=6), "cuda", [False, False]),
    ],
)
def test_a_weight_gradient_is_timed_with_the_gradient_of_the_bias_if_calls_compute_both(
    module: Any, kind: str, summed: list[bool]
) -> None:
    layer = ModelLayer("one", module, x=X, dtype="float32", needs_gradient=True)
    assert [problem.bias for problem in layer.gradients(kind)] == summed


def test_poolings_stay_in_training() -> None:
    model = nn.Sequential(nn.Conv2d(6, 6, 3, groups=6), nn.MaxPool2d(2)).eval()
    rows = tw.accelerate(model, X, training=True).rows
    assert [(row.replaced, row.why) for row in rows] == [
        (True, ""), (False, "PyTorch computes the gradients of poolings"),
    ]  # fmt: skip


@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_is_refused(whole: bool) -> None:
    layer = nn.Conv2d(6, 6, 3, groups=6)
    model = torch.compile(layer) if whole else nn.Sequential(torch.compile(layer))
    with pytest.raises(UserError, match=r"is compiled\n.*call accelerate before torch.compile"):
        tw.accelerate(model, X)
    layer.compile()
    with pytest.raises(UserError, match="the model is compiled"):
        tw.accelerate(layer, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_traced_model_is_refused() -> None:
    model = torch.jit.trace(nn.Sequential(nn.Conv2d(6, 6, 3)), X)
    with pytest.raises(UserError, match=r"the model is a program of TorchScript\n.*before torch.jit.trace"):
        tw.accelerate(model, X)


class Functions(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """Convolutions without modules."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.randn(6, 1, 3, 3) for _ in range(count)])

    def forward(self, x: Any) -> Any:
        """All of them."""
        for weight in self.weights:
            x = nn.functional.conv2d(x, weight, groups=6)
        return x


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "the model contains no convolution"),
        (1, "the model calls a convolution as a function, without modules; call tilewright.conv2d there"),
        (2, "the model calls 2 convolutions as functions, without modules; call tilewright.conv2d there"),
    ],
)
def test_convolutions_without_modules(count: int, text: str) -> None:
    assert str(tw.accelerate(Functions(count), X)) == f"nothing to replace: {text}"


class Unequal(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """A layer, and a function of the layer and of its result."""

    def __init__(self, then: Any) -> None:
        super().__init__()
        self.layer, self.then = nn.Conv2d(6, 6, 3, groups=6), then

    def forward(self, x: Any) -> Any:
        """The function's result."""
        return self.then(self.layer, self.layer(x))


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (lambda _, y: y + torch.randn_like(y), r"relative L2\)\n.*put it into evaluation mode first"),
        (lambda _, y: torch.sin(1e7 * y), r"but the model itself changes by .* rounding error\n.*trained weights"),
        (lambda layer, y: y * (1 + (type(layer) is nn.Conv2d)), r"by 0.5 \(relative L2\)\n.*do not use its results"),
    ],
    ids=["random", "amplifies rounding", "a fault"],
)
def test_the_cause_of_a_difference(then: Any, message: str) -> None:
    model = Unequal(then).eval()
    with pytest.raises(UserError, match=message):
        tw.accelerate(model, X)
    assert type(model.layer) is nn.Conv2d
    assert not model._forward_pre_hooks
