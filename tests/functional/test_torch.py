"""Calls on PyTorch's tensors: its results, strides, gradients, graphs, and the modules."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.decided import SAID
from tests.functional.made_up import seconds
from tilewright import te
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

X, W, B = torch.randn(2, 6, 9, 10), torch.randn(12, 1, 3, 3), torch.randn(12)
DENSE = torch.randn(8, 6, 3, 3)


def close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    assert found.dtype == wanted.dtype
    torch.testing.assert_close(found, wanted, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    "x", [X, X.to(memory_format=torch.channels_last), X.transpose(2, 3)], ids="rows last odd".split()
)
@pytest.mark.parametrize(
    "w", [W, DENSE, DENSE.to(memory_format=torch.channels_last)], ids="depthwise dense last".split()
)
def test_results_and_strides_are_pytorchs(x: Any, w: Any) -> None:
    groups = 6 if w is W else 1
    wanted = F.conv2d(x, w, None, 2, 1, 1, groups)
    for _ in range(2):
        found = tw.conv2d(x, w, None, 2, 1, 1, groups)
        close(found, wanted)
    if x.is_contiguous(memory_format=torch.channels_last):
        assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 3e-2), (torch.bfloat16, 2e-1), (torch.float64, 1e-10)]
)
def test_types(dtype: Any, tolerance: float) -> None:
    x, w, bias = X.to(dtype), W.to(dtype), B.to(dtype)
    close(tw.conv2d(x, w, bias, padding=1, groups=6), F.conv2d(x, w, bias, padding=1, groups=6), tolerance)


def test_every_operator() -> None:
    t, line = torch.randn(6, 4, 3, 3), X[:, :, 0]
    close(tw.conv_transpose2d(X, t, None, 2, 1, 1), F.conv_transpose2d(X, t, None, 2, 1, 1))
    close(tw.conv_transpose1d(line, t[:, :, 0], stride=2), F.conv_transpose1d(line, t[:, :, 0], stride=2))
    close(tw.conv1d(line, W[:, :, 0], padding=(2, 0), groups=6), F.conv1d(F.pad(line, (2, 0)), W[:, :, 0], groups=6))
    close(tw.depthwise_conv2d(X, W.reshape(6, 2, 3, 3), B), F.conv2d(X, W, B, groups=6))
    close(tw.max_pool2d(X, 3, 2, 1, ceil_mode=True), F.max_pool2d(X, 3, 2, 1, ceil_mode=True))
    close(tw.avg_pool2d(X, 2, ceil_mode=True), F.avg_pool2d(X, 2, ceil_mode=True))
    close(tw.avg_pool2d(X, 3, 2, 1, True, False), F.avg_pool2d(X, 3, 2, 1, True, False))


@pytest.mark.parametrize("w", [W, DENSE], ids=["ours", "PyTorch's own kernel"])
def test_what_follows_is_the_same_whoever_computes(w: Any) -> None:
    groups, more = (6 if w is W else 1), torch.randn(2, w.shape[0], 9, 10)
    bias = torch.randn(w.shape[0])
    wanted = F.gelu(F.conv2d(X, w, bias, padding=1, groups=groups) + more, approximate="tanh")
    options = {"padding": 1, "groups": groups, "activation": "gelu_tanh"}
    close(tw.conv2d(X, w, bias, residual=more, **options), wanted)
    last = tw.conv2d(
        X.permute(0, 2, 3, 1).contiguous(), w, bias, residual=more.permute(0, 2, 3, 1), layout="NHWC", **options
    )
    close(last.permute(0, 3, 1, 2), wanted)
    out = torch.empty(2, w.shape[0], 9, 10)
    assert tw.conv2d(X, w, bias, residual=more, out=out, **options) is out
    close(out, wanted)


def test_an_activation_of_ones_own() -> None:
    close(tw.conv2d(X, DENSE, activation=lambda v: te.max(v, 0.5)), F.conv2d(X, DENSE).clamp(min=0.5))


def test_a_changed_tensor_is_seen() -> None:
    w = W.clone()
    tw.conv2d(X, w, groups=6)
    w.data = W.double()
    with pytest.raises(UserError, match="weight has the type float64, and x has float32"):
        tw.conv2d(X, w, groups=6)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="x is a tensor, but weight is a list"):
        tw.conv2d(X, [1.0])
    with pytest.raises(UserError, match="x is on meta"):
        tw.explain_call(tw.conv2d, X.to("meta"), W.to("meta"), groups=6)
    with pytest.raises(UserError, match="conv2d: out shares memory with an input"):
        tw.conv2d(X, W[:6].contiguous(), padding=1, groups=6, out=X)


def test_a_residual_shares_part_of_the_memory_of_out() -> None:
    for apart in (0, 1):
        plain = tw.conv2d(X, W, groups=6)
        memory = torch.randn(plain.numel() + apart)
        residual, out = (memory[start : start + plain.numel()].view(plain.shape) for start in (0, apart))
        wanted = plain + residual
        assert tw.conv2d(X, W, groups=6, residual=residual, out=out) is out
        torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-4)


def doubles(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.double, requires_grad=True)


@pytest.mark.parametrize("activation", [None, "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish"])
def test_gradients(activation: str | None) -> None:
    def call(x: Any, w: Any, bias: Any, more: Any) -> Any:
        return tw.conv2d(x, w, bias, stride=2, padding=1, groups=3, activation=activation, residual=more)

    given = (doubles(1, 3, 5, 4), doubles(6, 1, 3, 3), doubles(6), doubles(1, 6, 3, 2))
    assert torch.autograd.gradcheck(call, given, fast_mode=activation is not None)


def test_gradients_of_every_operator() -> None:
    x = doubles(1, 4, 5, 6)
    check = partial(torch.autograd.gradcheck, fast_mode=True)
    assert check(lambda x, w: tw.conv2d(x, w, padding=((0, 2), (1, 0)), dilation=(1, 2)), (x, doubles(2, 4, 3, 2)))
    assert check(lambda x, w: tw.conv2d(x, w, groups=4, layout="NHWC"), (doubles(1, 5, 6, 4), doubles(4, 1, 2, 2)))
    one = (doubles(5, 6, 4), doubles(4, 1, 2, 2))
    assert check(lambda x, w: tw.conv2d(x, w, groups=4, layout="NHWC"), one)
    assert check(lambda x, w: tw.depthwise_conv2d(x, w, padding="same"), (x, doubles(4, 2, 3, 3)))
    assert check(lambda x, w: tw.conv_transpose2d(x, w, stride=2, padding=1, groups=2), (x, doubles(4, 2, 3, 2)))
    assert check(lambda x, w: tw.conv1d(x, w, padding=(2, 0), groups=4), (doubles(4, 8), doubles(4, 1, 3)))
    assert check(lambda x: tw.avg_pool2d(x, 2), (x,))
    assert check(lambda x: tw.max_pool2d(x, 2, 1), (x,))
    given = (x, doubles(4, 1, 3, 3))
    assert torch.autograd.gradgradcheck(lambda x, w: tw.conv2d(x, w, padding=1, groups=4), given, fast_mode=True)


def test_a_negated_view_is_told_from_a_tensor() -> None:
    turned = torch._neg_view(X.clone())  # what the imaginary part of a conjugate is: memory of the opposite sign
    for x in (X, turned, X, turned):
        close(tw.conv2d(x, DENSE), F.conv2d(x, DENSE))


OPTIONS: list[Callable[[Any], Any]] = [
    lambda x: tw.conv2d(x, DENSE, stride=np.int64(2), dilation=np.int64(2), padding=torch.tensor(1)),
    lambda x: tw.conv2d(x, DENSE, stride=(2,), padding=((1, 0), (0, 2))),
    lambda x: tw.conv_transpose2d(x, DENSE.movedim(0, 1), stride=2, output_padding=np.int64(1)),
    lambda x: tw.max_pool2d(x, np.int64(2), padding="valid"),
    lambda x: tw.max_pool2d(x, 3, padding=((1, 1), (0, 0))),
    lambda x: tw.avg_pool2d(x, (2,), padding=(1, 0)),
]


@pytest.mark.parametrize("call", OPTIONS, ids=range(len(OPTIONS)))
def test_a_call_takes_the_same_options_with_a_gradient(call: Callable[[Any], Any]) -> None:
    x = X.clone().requires_grad_()
    made = call(x)
    close(made, call(X))
    made.sum().backward()
    assert x.grad.shape == X.shape


MISTAKES: list[Callable[[Any], Any]] = [
    lambda x: tw.conv2d(x, DENSE, stride=1.5),
    lambda x: tw.conv2d(x, DENSE, stride="2"),
    lambda x: tw.conv2d(x, DENSE, stride=None),
    lambda x: tw.conv2d(x, DENSE, groups=1.5),
    lambda x: tw.conv2d(x, DENSE, layout=3),
    lambda x: tw.conv2d(x, DENSE, precision=3),
    lambda x: tw.conv2d(x, DENSE[0]),
    lambda x: tw.conv2d(x, DENSE[:, :5]),
    lambda x: tw.conv2d(x, DENSE, groups=5),
    lambda x: tw.depthwise_conv2d(x, DENSE),
    lambda x: tw.conv2d(x[..., :2], DENSE),
    lambda x: tw.conv_transpose2d(x, DENSE.movedim(0, 1), padding=40),
    lambda x: tw.conv2d(x, DENSE, torch.ones(3)),
    lambda x: tw.conv2d(x, DENSE, padding=1, out=torch.empty(2, 8, 9, 10, dtype=torch.float64)),
    lambda x: tw.conv2d(x, DENSE, out=torch.empty(1, 1, 1, 1)),
    lambda x: tw.conv_transpose2d(x, DENSE.movedim(0, 1), padding="same"),
    lambda x: tw.max_pool2d(x, None),
    lambda x: tw.max_pool2d(x, 2, padding="same"),
    lambda x: tw.avg_pool2d(x, 2.5),
]


@pytest.mark.parametrize("call", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_in_the_same_words_with_a_gradient(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UserError) as plain:
        call(X)
    with pytest.raises(UserError) as caught:
        call(X.clone().requires_grad_())
    assert str(caught.value) == str(plain.value)


def test_a_mistake_is_told_for_symbolic_sizes() -> None:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    symbolic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 4)
    for call in MISTAKES:
        with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True) as mode, pytest.raises(UserError):
            call(mode.from_tensor(X, symbolic_context=symbolic))


POOLINGS = [
    (lambda x: tw.max_pool2d(x, 2, padding=1), lambda x: F.max_pool2d(x, 2, padding=1)),
    (lambda x: tw.avg_pool2d(x, 3, 2, ceil_mode=True), lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True)),
    (
        lambda x: tw.max_pool2d(x.movedim(1, -1), 2, layout="NHWC").movedim(-1, 1),
        lambda x: F.max_pool2d(x, 2),
    ),
]


@pytest.mark.parametrize(("ours", "theirs"), POOLINGS, ids=["max", "average", "last"])
def test_poolings_have_gradients_of_every_kind(ours: Callable[[Any], Any], theirs: Callable[[Any], Any]) -> None:
    """A forward gradient of the operator of a library is silently none, and `torch.func.grad` refuses it."""
    x, along = torch.randn(2, 3, 7, 6, dtype=torch.float64), torch.randn(2, 3, 7, 6, dtype=torch.float64)
    for transform in (
        lambda f: torch.func.jvp(f, (x,), (along,))[1],
        lambda f: torch.func.grad(lambda x: f(x).pow(2).sum())(x),
        lambda f: torch.func.grad(lambda x: torch.func.jvp(f, (x,), (along,))[1].pow(2).sum())(x),
        lambda f: torch.func.vjp(f, x)[1](f(x))[0],
    ):
        close(transform(ours), transform(theirs), 1e-10)
    with torch.autograd.forward_ad.dual_level():
        moved = torch.autograd.forward_ad.make_dual(x, along)
        found, wanted = (torch.autograd.forward_ad.unpack_dual(f(moved)).tangent for f in (ours, theirs))
        close(found, wanted, 1e-10)
    assert torch.autograd.gradcheck(ours, (x.clone().requires_grad_(),), check_forward_ad=True, fast_mode=True)


def test_an_uneven_pooling_has_no_forward_gradient() -> None:
    with pytest.raises(UserError, match="uneven padding of a pooling has no gradient"):
        torch.func.jvp(lambda x: tw.max_pool2d(x, 2, padding=((1, 0), (0, 0))), (X,), (X,))


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_gradients_of_gradients(activation: str) -> None:
    x, w = X[:1, :2, :5, :5].double(), W[:2].double()
    act = getattr(F, activation)

    def ours(w: Any) -> Any:
        return tw.conv2d(x, w, groups=2, activation=activation)

    def theirs(w: Any) -> Any:
        return act(F.conv2d(x, w, groups=2))

    for transform in (
        lambda f: torch.func.grad(lambda w: torch.func.grad(lambda w: f(w).pow(2).sum())(w).pow(2).sum())(w),
        lambda f: torch.func.grad(lambda w: torch.func.jvp(f, (w,), (w + 1,))[1].pow(2).sum())(w),
    ):
        close(transform(ours), transform(theirs), 1e-10)
    found = []
    for f in (ours, theirs):
        v = w.clone().requires_grad_()
        (first,) = torch.autograd.grad(f(v).pow(2).sum(), v, create_graph=True)
        found.append(torch.autograd.grad(first.pow(2).sum(), v)[0])
    close(*found, 1e-10)


def test_forward_gradients_of_forward_gradients() -> None:
    """PyTorch omits a part of them, without an error, for any `autograd.Function`."""
    x, w = X[:1, :2, :5, :5].double(), W[:2].double()

    def second(f: Any) -> Any:
        return torch.func.jacfwd(lambda x: torch.func.jvp(lambda w: f(x * w.mean(), w), (w,), (w + 1,))[1])(x)

    def third(f: Any) -> Any:
        _, back = torch.func.vjp(lambda x, w: f(x, w), x, w)
        dy = f(x, w)
        return torch.func.jvp(lambda dy: torch.func.jvp(lambda dy: back(dy * dy), (dy,), (dy,))[1], (dy,), (dy,))[1]

    for call, theirs in (
        (lambda x, w: tw.conv2d(x, w, padding=((1, 0), (0, 2)), groups=2, activation="gelu"),
         lambda x, w: F.gelu(F.conv2d(F.pad(x, (0, 2, 1, 0)), w, groups=2))),
        (lambda x, w: tw.conv_transpose2d(x, w, stride=2, padding=1, groups=2, activation="silu"),
         lambda x, w: F.silu(F.conv_transpose2d(x, w, stride=2, padding=1, groups=2))),
    ):  # fmt: skip
        close(second(call), second(theirs), 1e-10)
        for found, wanted in zip(third(call), third(theirs), strict=True):
            close(found, wanted, 1e-10)


def test_a_gradient_notices_that_out_was_overwritten() -> None:
    out, factor = torch.ones(2, 12, 7, 8), torch.ones(2, 12, 7, 8, requires_grad=True)
    product = (out * factor).sum()
    tw.conv2d(X, W, groups=6, out=out)
    assert out._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
    with torch.inference_mode():  # where tensors have no versions
        made = torch.empty(2, 12, 7, 8)
        close(tw.conv2d(X, W, groups=6, out=made), out)


def test_autocast_is_followed() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, wanted = tw.conv2d(X, W, groups=6), F.conv2d(X, W, groups=6)
    close(found, wanted, 2e-1)


def test_shapes_are_inferred() -> None:
    with torch._subclasses.FakeTensorMode() as mode:
        found = tw.conv2d(mode.from_tensor(X), mode.from_tensor(W), padding=1, groups=6)
    assert tuple(found.shape) == (2, 12, 9, 10)
    x, w = (a.detach().requires_grad_() for a in (X.double(), W.double()))
    given = (x, w, None, None, "conv2d", [1, 1], [1, 1, 1, 1], [1, 1], 6, "relu", "NCHW", [0, 0])
    torch.library.opcheck(torch.ops.tilewright.convolution, given)


class Block(torch.nn.Module):
    """A ConvNeXt block, its first layer by `conv`."""

    def __init__(self, conv: Any) -> None:
        super().__init__()
        self.depthwise = conv(8, 8, 7, padding=3, groups=8)
        self.norm = torch.nn.LayerNorm(8)
        self.wide, self.narrow = torch.nn.Linear(8, 32), torch.nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)


def test_a_compiled_block_is_one_graph() -> None:
    model = Block(tw.nn.Conv2d)
    x = torch.randn(2, 8, 10, 11, requires_grad=True)
    found = torch._dynamo.explain(model)(x)
    assert found.graph_break_count == 0
    assert found.graph_count == 1
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    close(compiled(x), model(x))
    compiled(x).sum().backward()
    gradient = x.grad.clone()
    x.grad = None
    model(x).sum().backward()
    close(gradient, x.grad)


def test_a_compiled_call_may_be_the_first_of_its_process() -> None:
    program = """
import os
import tilewright as tw
tw.conv2d  # loaded before PyTorch is
import torch
import torch._dynamo

def function(x):
    return tw.conv2d(x, w, padding=1, groups=8, activation="relu")

x, w = torch.randn(1, 8, 9, 9), torch.randn(8, 1, 3, 3)
module = tw.nn.Conv2d(8, 8, 3, padding=1, groups=8)
for called in (function, module):
    if os.fork() == 0:
        with torch.no_grad():
            found = torch.compile(called, fullgraph=True, backend="aot_eager")(x)
            assert torch.allclose(found, called(x), atol=1e-5)
        os._exit(0)
print(*(os.wait()[1] for _ in range(2)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "0 0\n", done.stderr


def test_a_compiled_call_takes_every_option() -> None:
    def call(x: Any) -> Any:
        y = tw.conv2d(x, W, B, padding="same", groups=6, activation="relu")
        return tw.avg_pool2d(tw.max_pool2d(y, 2), 2)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (2, 3, 5):
        x = torch.randn(batch, 6, 9, 10)
        close(compiled(x), call(x))


def test_modules_have_pytorchs_state() -> None:
    for ours, theirs, given in (
        (tw.nn.Conv2d, torch.nn.Conv2d, (6, 12, 3, 2, 1, 1, 3)),
        (tw.nn.ConvTranspose2d, torch.nn.ConvTranspose2d, (6, 4, 3, 2, 1, 1)),
    ):
        a, b = ours(*given), theirs(*given)
        a.load_state_dict(b.state_dict())
        with torch.no_grad():
            close(a(X), b(X))
    reflected = tw.nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect")
    plain = torch.nn.Conv2d(6, 6, 3, padding=1, padding_mode="reflect")
    plain.load_state_dict(reflected.state_dict())
    close(reflected(X), plain(X))
    assert "activation='relu'" in repr(tw.nn.Conv2d(6, 6, 3, activation="relu"))
    close(tw.nn.MaxPool2d(2)(X), F.max_pool2d(X, 2))
    close(tw.nn.AvgPool2d(2)(X), F.avg_pool2d(X, 2))
    close(tw.nn.AvgPool2d(3, 2, 1, ceil_mode=True)(X), F.avg_pool2d(X, 3, 2, 1, ceil_mode=True))
    transposed = tw.nn.ConvTranspose2d(6, 4, 3, 2)
    assert transposed(X, output_size=(20, 21)).shape == (2, 4, 20, 21)


def test_accelerate_replaces_what_is_faster_and_undoes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.nn import acceleration

    model = torch.nn.Sequential(Block(torch.nn.Conv2d), torch.nn.Conv2d(8, 4, 1)).eval()
    x = torch.randn(1, 8, 10, 11)
    before = model(x)
    monkeypatch.setattr(
        acceleration, "compared", lambda problem, *_: seconds(1.0, 2.0) if problem.depthwise else seconds(1.0, 1.0)
    )
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    done = tw.accelerate(model, x)
    assert type(model[0].depthwise) is tw.nn.Conv2d
    assert type(model[1]) is torch.nn.Conv2d
    assert "1 of 2 layers replaced" in str(done)
    close(model(x), before)
    done.undo()
    assert type(model[0].depthwise) is torch.nn.Conv2d
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(2.0, 1.0))
    tw.accelerate(model, x)  # which makes the model slower, and so is not kept
    assert type(model[0].depthwise) is torch.nn.Conv2d


def test_accelerate_says_which_layer_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.nn import acceleration

    said: list[str] = []
    steps: list[None] = []

    @contextmanager
    def seen(total: int) -> Iterator[tuple[Any, Any]]:
        assert total == 3
        yield said.append, lambda: steps.append(None)

    monkeypatch.setattr(acceleration, "progress", seen)
    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 1.0))
    tw.accelerate(
        torch.nn.Sequential(Block(torch.nn.Conv2d), torch.nn.Conv2d(8, 4, 1)).eval(), torch.randn(1, 8, 10, 11)
    )
    assert said == ["0.depthwise", "1", "the whole model"]
    assert len(steps) == 2


def test_accelerate_measures_what_is_expected_to_be_slower(
    rival_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright.nn import acceleration

    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, (3, 5), groups=6), torch.nn.Conv2d(6, 4, (1, 5))).eval()
    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    done = tw.accelerate(model, X)
    assert [row.replaced for row in done.rows] == [True, False]
    assert done.rows[1].why == f'{SAID}; tune="quick" searches for a faster kernel'


def test_a_model_that_accelerate_refuses_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.nn import acceleration

    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, 3, groups=6), torch.nn.Dropout(0.5)).train()
    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    with pytest.raises(UserError, match="the accelerated model differs"):
        tw.accelerate(model, X)
    assert type(model[0]) is torch.nn.Conv2d


class Stack(torch.nn.Module):
    """Convolutions and poolings of one library."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        layers = [library.Conv2d(2, 4, 3, padding=1), library.MaxPool2d(2), library.Conv2d(4, 4, 3, groups=4)]
        self.layers = torch.nn.Sequential(*layers, library.AvgPool2d(2), library.Conv2d(4, 2, 1))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def test_a_compiled_model_takes_images_of_any_size() -> None:
    """Shape inference compares no two sizes of an image with each other: that would hold for the next image."""
    compiled: list[Any] = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph

    torch._dynamo.reset()
    model = Stack(tw.nn).eval()
    fast = torch.compile(model, backend=backend, dynamic=True, fullgraph=True)
    for size in ((1, 2, 20, 20), (3, 2, 12, 31), (2, 2, 40, 11), (4, 2, 11, 11), (5, 2, 33, 12)):
        x = torch.randn(size)
        with torch.no_grad():
            close(fast(x), model(x))
    assert len(compiled) <= 2  # one image alone is another program


def test_an_exported_pooling_takes_portraits() -> None:
    height, width = torch.export.Dim("height", max=50), torch.export.Dim("width", max=50)
    shapes = {"input": {2: 2 * height, 3: 2 * width}}
    program = torch.export.export(tw.nn.MaxPool2d(2), (torch.randn(1, 2, 8, 10),), dynamic_shapes=shapes, strict=True)
    assert program.module()(torch.randn(1, 2, 10, 8)).shape == (1, 2, 5, 4)


def test_a_compiled_padding_varies() -> None:
    call = torch.compile(lambda x, p: tw.conv2d(x, W, padding=p, groups=6), backend="eager", fullgraph=True)
    for padding in (1, 2, 3):
        close(call(X, padding), F.conv2d(X, W, padding=padding, groups=6))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (lambda: torch.randn(8, 10).to_sparse_csr(), "x has the layout torch.sparse_csr"),
        (lambda: torch.randn(1, 6, 5, 5).to_sparse(), "x has the layout torch.sparse_coo"),
        (lambda: torch.nested.nested_tensor([torch.randn(6, 5, 5), torch.randn(6, 4, 4)]), "x is a nested tensor"),
    ],
    ids=["csr", "coo", "nested"],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_without_strides_are_refused(x: Callable[[], Any], message: str, grad: bool) -> None:
    for _ in range(2):  # a call with this weight is known then
        tw.conv2d(X, W, groups=6)
    with pytest.raises(UserError, match=message):
        tw.conv2d(x().requires_grad_(grad), W, groups=6)


def test_shape_inference_knows_the_activations() -> None:
    with torch._subclasses.FakeTensorMode() as mode, pytest.raises(UserError, match="activation is 'rleu'"):
        tw.conv2d(mode.from_tensor(X), mode.from_tensor(W), groups=6, activation="rleu")


@pytest.fixture
def replaces_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is measured to be faster by Tilewright, and the model as well."""
    from tilewright.nn import acceleration

    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "_keep", lambda *_: None)


def one_layer() -> Any:
    return torch.nn.Sequential(torch.nn.Conv2d(6, 6, 3, groups=6)).eval()


@pytest.mark.usefixtures("replaces_all")
def test_accelerated_layers_are_the_same_objects() -> None:
    model = one_layer()
    model.tied, layer = model[0], model[0]
    heard: list[int] = []
    done = tw.accelerate(model, X)
    assert model[0] is layer is model.tied
    assert type(layer) is tw.nn.Conv2d
    model.train()
    layer.register_full_backward_hook(lambda *_: heard.append(1))
    done.undo()
    assert type(layer) is torch.nn.Conv2d
    assert layer.training
    model(X.clone().requires_grad_()).sum().backward()
    assert heard


@pytest.mark.usefixtures("replaces_all")
def test_undo_leaves_a_layer_that_came_since() -> None:
    model = one_layer()
    done = tw.accelerate(model, X)
    model[0] = new = torch.nn.Conv2d(6, 6, 3, groups=6)
    done.undo()
    assert model[0] is new


@pytest.mark.usefixtures("replaces_all")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_undo_keeps_what_was_done_to_a_layer_meanwhile() -> None:
    model = one_layer()
    torch.nn.utils.weight_norm(model[0])
    done = tw.accelerate(model, X)
    torch.nn.utils.remove_weight_norm(model[0])
    model.load_state_dict({name: value * 0 for name, value in model.state_dict().items()})
    done.undo()
    assert not model(X).any()
    model = one_layer()
    done = tw.accelerate(model, X)
    before = model(X)
    torch.nn.utils.parametrizations.weight_norm(model[0])
    assert isinstance(model[0], tw.nn.Conv2d)
    done.undo()
    assert not isinstance(model[0], tw.nn.Conv2d)
    close(model(X), before)


@pytest.mark.usefixtures("replaces_all")
def test_a_model_that_is_a_layer_is_accelerated() -> None:
    layer = torch.nn.Conv2d(6, 6, 3, groups=6)
    with tw.accelerate(layer, X) as done:
        assert type(layer) is tw.nn.Conv2d
        assert done.rows[0].name == "(the model)"
    assert type(layer) is torch.nn.Conv2d


class Forward(torch.nn.Module):
    """A layer, and what a test does with it."""

    def __init__(self, forward: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(6, 6, 3, groups=6)
        self.register_buffer("count", torch.zeros(()))
        self.given = forward

    def forward(self, x: Any) -> Any:
        return self.given(self, x)


def counted(model: Any, x: Any) -> Any:
    model.count = model.count + 1  # another tensor
    return model.layer(x)


@pytest.mark.usefixtures("replaces_all")
@pytest.mark.parametrize(
    "forward",
    [
        counted,
        lambda model, x: model.layer(input=x),
        lambda model, x: model.layer(x.add_(1)),
        lambda model, x: model.layer(x).masked_fill(torch.ones(7, 8).triu().bool(), -torch.inf),
        lambda model, x: model.layer(x) / model.layer(x).relu().sign().mul(0),
    ],
    ids=["counts", "named", "writes", "infinite", "nan"],
)
def test_models_that_accelerate_takes_as_they_are(forward: Callable[[Any, Any], Any]) -> None:
    model, x = Forward(forward).eval(), X.clone()
    tw.accelerate(model, x)
    assert type(model.layer) is tw.nn.Conv2d
    assert model.count == 0
    close(x, X, 0)


@pytest.mark.usefixtures("replaces_all")
@pytest.mark.parametrize(
    "forward",
    [
        lambda model, x: [model.layer(x)] * int(1 + model.runs() % 2),
        lambda model, x: model.layer(x)[..., : 2 + model.runs()],
    ],
)
def test_a_model_whose_results_change_their_shape_is_refused(forward: Callable[[Any, Any], Any]) -> None:
    model = Forward(forward).eval()
    runs = iter(range(9))
    model.runs = lambda: next(runs)
    with pytest.raises(UserError, match="gives results of other shapes in each run"):
        tw.accelerate(model, X)
    assert type(model.layer) is torch.nn.Conv2d


@pytest.mark.usefixtures("replaces_all")
def test_a_model_with_a_lazy_layer_is_accelerated() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, 3, groups=6), torch.nn.LazyBatchNorm2d()).eval()
    tw.accelerate(model, X)
    assert type(model[0]) is tw.nn.Conv2d


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "MaxPool2d", "AvgPool2d"])
def test_modules_take_what_pytorchs_take(name: str) -> None:
    ours, theirs = getattr(tw.nn, name), getattr(torch.nn, name)
    own = dict(inspect.signature(ours).parameters)
    assert own.pop("activation", None) is not None or "Pool" in name
    assert own == dict(inspect.signature(theirs).parameters)
    assert next(iter(inspect.signature(ours.forward).parameters)) == "self"
    assert list(inspect.signature(ours.forward).parameters)[1] == list(inspect.signature(theirs.forward).parameters)[1]


def test_a_module_without_initial_values() -> None:
    assert torch.nn.utils.skip_init(tw.nn.Conv2d, 4, 4, 3).weight.shape == (4, 4, 3, 3)


def test_accelerate_says_what_it_needs() -> None:
    with pytest.raises(UserError, match="model is a list"):
        tw.accelerate([], X)
    with pytest.raises(UserError, match="the model does not run on its sample"):
        tw.accelerate(torch.nn.Sequential(torch.nn.Conv2d(5, 5, 3)), X)
    with pytest.raises(UserError, match="model is a NumPy array"):
        tw.accelerate(np.ones(3), X)
    nothing = tw.accelerate(torch.nn.Sequential(torch.nn.ReLU()), X)
    assert str(nothing) == "nothing to replace: the model contains no convolution"


def test_modules_check_their_activation_when_they_are_made() -> None:
    for kind in (tw.nn.Conv2d, tw.nn.ConvTranspose1d):
        with pytest.raises(UserError, match=f"{kind.__name__}: activation is 'rleu', which is not known"):
            kind(4, 4, 3, activation="rleu")


def test_an_error_in_a_module_names_the_line_that_calls_it() -> None:
    with pytest.raises(UserError, match="does not fit 6 channels") as caught:
        tw.nn.Conv2d(5, 5, 3)(torch.ones(1, 6, 8, 8))
    assert caught.value.where.startswith(__file__)  # and not PyTorch's own, between the two


def test_a_call_is_explained(our_kernels: None) -> None:
    text = tw.explain_call(tw.conv2d, X, W, groups=6)
    assert "runs:    topi/depthwise" in text
    assert "origin:" in text
    assert "tf32" in tw.explain_call(tw.conv2d, X, W, groups=6, precision="tf32")


def test_an_explanation_says_why_pytorchs_kernel_runs(rival_kernels: None) -> None:
    dense = torch.randn(1, 64, 8, 8, dtype=torch.float64), torch.randn(64, 64, 3, 3, dtype=torch.float64)
    text = tw.explain_call("conv2d", *dense)
    assert f"runs:    the kernel of torch {torch.__version__}: {SAID}" in text
