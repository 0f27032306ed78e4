"""Training with calls of PyTorch's tensors: gradients by our kernels and by PyTorch's, and the tools around them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tests.functional.made_up import seconds
from tilewright.functional.planning import decision, plans, rivals

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.usefixtures("little_optimisation")
from tests.functional.drawn_layers import draw  # noqa: E402  # after the check for PyTorch
from tests.functional.random_layers import judged  # noqa: E402  # needs PyTorch

F = torch.nn.functional
nn = import_module("tilewright.nn")  # needs PyTorch


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    number = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(number)


def doubles(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.double, requires_grad=True)


def close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


def decided(op: str) -> list[str]:
    """Whose kernels the plans of an operation run."""
    return [plan.choice.side for (problem, *_), plan in plans._plans.items() if problem.op == op]


LAYERS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "depthwise": (tw.conv2d, (2, 4, 5, 6), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    "strides": (tw.conv2d, (2, 3, 7, 6), (3, 1, 3, 2), {"padding": (2, 1), "groups": 3, "stride": (2, 3)}),
    "uneven": (tw.conv2d, (1, 3, 5, 6), (3, 1, 2, 3), {"padding": ((0, 2), (3, 1)), "groups": 3, "dilation": (1, 2)}),
    "multiplier": (tw.depthwise_conv2d, (1, 3, 5, 4), (3, 2, 3, 3), {"padding": "same"}),
    "last": (tw.conv2d, (2, 5, 4, 3), (3, 1, 3, 3), {"padding": 1, "groups": 3, "layout": "NHWC"}),
    "causal": (tw.conv1d, (2, 4, 9), (4, 1, 4), {"padding": (3, 0), "groups": 4}),
    "causal, last": (tw.conv1d, (2, 9, 4), (4, 1, 4), {"padding": (3, 0), "groups": 4, "layout": "NWC"}),
    "unbatched": (tw.conv1d, (4, 9), (8, 1, 3), {"groups": 4, "stride": 2}),
    "grouped": (tw.conv2d, (2, 6, 4, 5), (4, 3, 3, 2), {"padding": 1, "groups": 2}),
    "few channels": (tw.conv2d, (2, 2, 4, 5), (3, 2, 2, 2), {}),
    "transposed": (tw.conv_transpose2d, (1, 4, 3, 4), (4, 1, 3, 2), {"groups": 4, "stride": 2, "output_padding": 1}),
    "blind taps": (tw.conv2d, (1, 2, 1, 1), (2, 1, 5, 5), {"padding": 2, "groups": 2}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_and_their_gradients(name: str, kernels: str) -> None:
    layer, shape, weight, options = LAYERS[name]
    given = doubles(*shape), doubles(*weight)
    assert torch.autograd.gradcheck(lambda x, w: layer(x, w, **options), given)
    assert torch.autograd.gradgradcheck(lambda x, w: layer(x, w, **options), given, fast_mode=True)
    how = decision.Side.OURS if kernels == "ours" else decision.Side.THEIRS
    assert set(decided("weight_gradient")) == {how}


@pytest.mark.parametrize("first", range(0, 600, 60))
def test_random_training_layers(first: int, our_kernels: None) -> None:
    """All types, sizes, orders in memory and gradients of `tests/functional/random_layers.py`."""
    drawn = [draw(35, number) for number in range(first, first + 60)]
    for layer in [each for each in drawn if each.task == "gradients" and "conv" in each.group.name][:6]:
        assert not judged(layer), layer


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_sums_are_of_float32(dtype: Any, our_kernels: None) -> None:
    """Sums of 16 bits would overflow, or lose all terms but the first."""
    x = torch.full((8, 2, 64, 64), 8.0, dtype=dtype)
    w = torch.ones(2, 1, 1, 1, dtype=dtype, requires_grad=True)
    grad = torch.full_like(x, 2**-8)
    tw.conv2d(x, w, groups=2).backward(grad)
    close(w.grad, torch.full_like(w, 1024.0), 0)


@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose2d"])
def test_parameters_get_unrounded_gradients_under_autocast(name: str, our_kernels: None) -> None:
    """From the first step on, they are the sums of products of 16 bits."""
    layer = getattr(nn, name)(8, 8, 3, 2, 1, groups=8)
    x = torch.randn(2, 8, *[9] * (1 if name == "Conv1d" else 2))
    exact = getattr(torch.nn, name)(8, 8, 3, 2, 1, groups=8).double()
    exact.weight.data = layer.weight.data.bfloat16().double()
    for _ in range(2):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = layer(x)
        dy = torch.randn_like(y)
        y.backward(dy)
        (wanted,) = torch.autograd.grad(exact(x.bfloat16().double()), exact.weight, dy.double())
        assert layer.weight.grad.dtype is torch.float32
        close(layer.weight.grad.double(), wanted, 1e-5)


@pytest.mark.parametrize("groups", [16, 2])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_dilated_windows_in_16_bits(dtype: Any, groups: int, kernels: str) -> None:
    """PyTorch's own weight gradient of these is of unset memory on CPUs, with channels last and 32 places or more."""
    x, w = torch.randn(1, 16, 40, 40).to(dtype, memory_format=torch.channels_last), torch.randn(16, 16 // groups, 5, 5)
    w = w.to(dtype).requires_grad_()
    made = tw.conv2d(x, w, None, 1, 4, 2, groups)
    dy = torch.randn(made.shape).to(dtype, memory_format=torch.channels_last)
    exact = w.detach().double().requires_grad_()
    F.conv2d(x.double().contiguous(), exact, None, 1, 4, 2, groups).backward(dy.double().contiguous())
    (found,) = torch.autograd.grad(made, w, dy)
    assert float((found - exact.grad).norm() / exact.grad.norm()) < 1e-2


def test_one_column_in_steps(kernels: str) -> None:
    """PyTorch's own convolution of bfloat16 reads unset memory on CPUs."""
    for taps, stride, padding in (((3, 3), (1, 3), 1), ((1, 3), (1, 2), 0), ((2, 2), (3, 3), 1)):
        x, w = torch.randn(1, 64, 16, 3).bfloat16(), torch.randn(33, 64, *taps).bfloat16()
        wanted = F.conv2d(x.double(), w.double(), None, stride, padding)
        assert float((tw.conv2d(x, w, None, stride, padding) - wanted).norm() / wanted.norm()) < 1e-2


def test_one_image_with_the_strides_of_a_transposed_one(kernels: str) -> None:
    """The dimensions of size 1 have other strides than PyTorch's own: it takes them for another memory order."""
    x, w, dy = torch.randn(7, 16, 1).movedim(2, 0), torch.randn(32, 1, 8).movedim(1, 2), torch.randn(1, 7, 32)
    exact = w.detach().double().contiguous().requires_grad_()
    F.conv1d(x.double().transpose(1, 2).contiguous(), exact, groups=2).backward(dy.double().transpose(1, 2))
    w.requires_grad_()
    (found,) = torch.autograd.grad(tw.conv1d(x, w, groups=2, layout="NWC"), w, dy)
    close(found.double(), exact.grad)


def test_an_empty_batch_has_gradients_of_zeros(kernels: str) -> None:
    x, w = torch.randn(0, 4, 5, 5, requires_grad=True), torch.randn(4, 1, 3, 3, requires_grad=True)
    b = torch.randn(4, requires_grad=True)
    tw.conv2d(x, w, b, groups=4, activation="silu").sum().backward()
    assert x.grad.shape == x.shape
    assert not w.grad.any()
    assert not b.grad.any()


@pytest.mark.parametrize("last", [False, True])
def test_only_the_gradients_that_are_asked_for_are_computed(last: bool, our_kernels: None) -> None:
    x, w, b = torch.randn(2, 4, 6, 5), torch.randn(4, 1, 3, 3), torch.randn(4)
    x = x.to(memory_format=torch.channels_last) if last else x
    for wanted, ops in ((w, {"convolution", "weight_gradient"}), (x, {"convolution"}), (b, {"convolution"})):
        seen: list[str] = []

        class Names(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not followed
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                seen.append(f"{func.namespace}.{func._opname}")  # noqa: B023  # called within this turn
                return func(*args, **(kwargs or {}))

        leaf = wanted.detach().requires_grad_()
        arguments = [leaf if a is wanted else a for a in (x, w, b)]
        with Names():
            tw.conv2d(*arguments, padding=1, groups=4).sum().backward()
        assert {name.partition(".")[2] for name in seen if name.startswith("tilewright")} == ops
        assert seen.count("tilewright.convolution") == (2 if wanted is x else 1)
        assert "aten.convolution_backward" not in seen


def test_the_input_is_not_kept_for_frozen_weights(our_kernels: None) -> None:
    w = torch.randn(4, 1, 3, 3)
    sizes: list[int] = []
    for needs in (False, True):
        kept: list[Any] = []
        x = torch.randn(2, 4, 16, 16, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda a: kept.append(a) or a, lambda a: a):  # noqa: B023
            tw.conv2d(x, w.detach().requires_grad_(needs), padding=1, groups=4)
        sizes.append(sum(a.numel() for a in kept))
    assert sizes == [w.numel(), w.numel() + 2 * 4 * 16 * 16]


GRADS: dict[str, Callable[[Any], Any]] = {
    "expanded": lambda y: torch.ones(1).expand(y.shape),
    "turned": lambda y: torch.randn(y.shape[::-1]).permute(3, 2, 1, 0),
    "every second": lambda y: torch.randn(*y.shape[:3], 2 * y.shape[3])[..., ::2],
    "channels last": lambda y: torch.randn(y.shape).to(memory_format=torch.channels_last),
    "negated": lambda y: torch._neg_view(torch.randn(y.shape)),
}


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", GRADS)
def test_gradients_lie_anyhow_in_memory(name: str, order: Any, our_kernels: None) -> None:
    x, w = torch.randn(2, 4, 6, 5).to(memory_format=order), torch.randn(8, 1, 3, 3)
    found, wanted = [], []
    for call, into in ((tw.conv2d, found), (F.conv2d, wanted)):
        leaves = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = call(*leaves, padding=1, groups=4)
        torch.manual_seed(1)
        y.backward(GRADS[name](y))
        into += [leaf.grad for leaf in leaves]
    close(found, wanted)
    assert found[0].is_contiguous(memory_format=order)


class Net(torch.nn.Module):
    """Two layers that train, of one library."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = library.Conv2d(8, 8, 3, padding=1, groups=8)
        self.line = library.Conv1d(8, 16, 4, padding=3, groups=8)
        self.norm = torch.nn.BatchNorm1d(16)

    def forward(self, x: Any) -> Any:
        return self.norm(self.line(F.gelu(self.first(x)).flatten(2)))


def _trained(model: Any, x: Any, steps: int = 3, run: Callable[[Any, Any], Any] | None = None) -> list[Any]:
    """Return the parameters after some steps. A loss of squares would be constant behind the batch norm."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) if run is None else run(model, x)).exp().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def _offloaded(model: Any, x: Any) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return model(x)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda model, x: model(x),
    "checkpoint": lambda model, x: torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False),
    "reentrant checkpoint": lambda model, x: torch.utils.checkpoint.checkpoint(
        model, x.requires_grad_(), use_reentrant=True
    ),
    "offloaded": lambda model, x: _offloaded(model, x),
}


@pytest.mark.parametrize("way", WAYS)
def test_steps_of_training_are_pytorchs(way: str, kernels: str) -> None:
    x = torch.randn(4, 8, 5, 6)
    close(_trained(Net(nn), x, run=WAYS[way]), _trained(Net(torch.nn), x))


def test_training_is_deterministic(our_kernels: None) -> None:
    x = torch.randn(4, 8, 5, 6)
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (_trained(Net(nn), x) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_compiled_step_is_one_graph(our_kernels: None) -> None:
    x = torch.randn(4, 8, 5, 6)
    torch._dynamo.reset()
    model, other = Net(nn), Net(nn)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for number in (4, 3):
        for each in (compiled, other):
            each(x[:1].expand(number, -1, -1, -1)).square().mean().backward()
    close([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


def test_shapes_of_weight_gradients_are_inferred() -> None:
    x, grad = doubles(2, 6, 9, 10), doubles(2, 12, 9, 10)
    given = (x, grad, "weight_gradient2d", [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 6, "NCHW")
    torch.library.opcheck(torch.ops.tilewright.weight_gradient, given)
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        found = torch.ops.tilewright.weight_gradient(*given)
    assert found.shape == (12, 1, 3, 3)
    assert counter.get_total_flops() == 2 * 2 * 12 * 9 * 10 * 9


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_weight_gradients_with_those_of_a_bias(dtype: Any, layout: str, kernels: str) -> None:
    x, grad = torch.randn(2, 6, 9, 10).to(dtype), torch.randn(2, 12, 9, 10).to(dtype)
    wanted = torch.nn.grad.conv2d_weight(x.double(), (12, 1, 3, 3), grad.double(), padding=1, groups=6)
    wanted = torch.cat([wanted.reshape(-1), grad.double().sum((0, 2, 3))])
    images = [a.movedim(1, -1).contiguous() if layout == "NHWC" else a for a in (x, grad)]
    options = ("weight_gradient2d", [3, 3], [1, 1], [1, 1, 1, 1], [1, 1], 6, layout, "fp32", True)
    for wide in (False, True):
        found = torch.ops.tilewright.weight_gradient(*images, *options, wide)
        assert found.dtype == (torch.float32 if wide and dtype != torch.float64 else dtype)
        close(found.double(), wanted, {torch.float16: 2e-2, torch.bfloat16: 2e-1}.get(dtype, 1e-4))


def test_mixed_precision(our_kernels: None) -> None:
    x = torch.randn(4, 8, 5, 6)
    results = []
    for library in (nn, torch.nn):
        model = Net(library)
        optimizer, scaler = torch.optim.SGD(model.parameters(), 0.05), torch.amp.GradScaler("cpu", init_scale=64.0)
        for _ in range(2):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
        results.append([p.detach() for p in model.parameters()])
    close(*results, 3e-2)


def test_transforms_of_weight_gradients(our_kernels: None) -> None:
    x, w, along = torch.randn(2, 4, 6, 5).double(), torch.randn(4, 1, 3, 3).double(), torch.randn(4, 1, 3, 3).double()

    def of(conv: Callable[..., Any]) -> list[Any]:
        def loss(w: Any) -> Any:
            return F.gelu(conv(x, w, padding=1, groups=4)).pow(2).sum()

        def result(w: Any) -> Any:
            return conv(x, w, padding=1, groups=4).mean((0, 2, 3))

        return [
            torch.func.jvp(torch.func.grad(loss), (w,), (along,))[1],
            torch.func.grad(lambda w: torch.func.grad(loss)(w).pow(3).sum())(w),
            torch.func.jacrev(result)(w),
        ]

    close(of(tw.conv2d), of(F.conv2d), 1e-9)


def test_batched_gradients(our_kernels: None) -> None:
    x, w = torch.randn(2, 4, 6, 5), torch.randn(4, 1, 3, 3, requires_grad=True)
    many = torch.randn(3, 2, 4, 6, 5)
    found, wanted = (
        torch.autograd.grad(conv(x, w, padding=1, groups=4), w, many, is_grads_batched=True)[0]
        for conv in (tw.conv2d, F.conv2d)
    )
    close(found, wanted)


def test_threads_train_at_once(our_kernels: None) -> None:
    x = torch.randn(4, 8, 5, 6)
    wanted = _trained(Net(torch.nn), x)
    models = [Net(nn) for _ in range(4)]
    found: list[list[Any]] = []
    threads = [threading.Thread(target=lambda m=model: found.append(_trained(m, x))) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        close(each, wanted)


def test_a_call_is_explained_with_its_gradients(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (0.5, 1.0))
    x, w = torch.randn(2, 4, 6, 5, requires_grad=True), torch.randn(4, 1, 3, 3, requires_grad=True)
    parts = tw.explain_call(tw.conv2d, x, w, padding=1, groups=4).split("\n\n")
    assert [part.split()[1] for part in parts] == ["conv", "weight_gradient", "data_gradient"]
    assert "result:  (4, 1, 3, 3) on cpu" in parts[1]
    with torch.no_grad():
        assert len(tw.explain_call(tw.conv2d, x, w, padding=1, groups=4).split("\n\n")) == 1
    assert len(tw.explain_call(tw.conv2d, x.detach(), w, padding=1, groups=4).split("\n\n")) == 2
    with torch.autocast("cpu", torch.bfloat16):
        parts = tw.explain_call(tw.conv2d, x, w, padding=1, groups=4).split("\n\n")
    assert all("bfloat16" in part for part in parts)
    assert ["not rounded" in part for part in parts] == [False, True, False]
    wide = torch.randn(4, 16, 3, 3, requires_grad=True)  # PyTorch computes the gradients of 16 filters per group
    assert len(tw.explain_call(tw.conv_transpose2d, x, wide, groups=4).split("\n\n")) == 1
    assert len(tw.explain_call(tw.conv_transpose2d, x, wide[:, :15], groups=4).split("\n\n")) == 3


@pytest.fixture
def timed(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have `accelerate` find our kernels twice as fast, except for data gradients; returns the timed operations."""
    from tilewright.nn import acceleration

    seen: list[str] = []

    def compared(problem: Any, *_: Any) -> Any:
        seen.append(problem.op)
        return seconds(2.0, 1.0) if problem.op == "data_gradient" else seconds(1.0, 2.0)

    monkeypatch.setattr(acceleration, "compared", compared)
    monkeypatch.setattr(acceleration, "compare", lambda works, *_: works[0]() and seconds(1.0, 2.0))
    return seen


def test_accelerate_measures_training_steps(timed: list[str]) -> None:
    x = torch.randn(4, 8, 5, 6)
    model, other = Net(torch.nn), Net(torch.nn)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    done = tw.accelerate(model, x, training=True)
    assert timed == ["conv", "weight_gradient", "conv", "weight_gradient", "data_gradient"]
    assert [row.directions for row in done.rows] == [("forward", "weight gradient")] * 2
    assert (type(model.first), type(model.line)) == (nn.Conv2d, nn.Conv1d)
    text = str(done)
    assert "replaced: forward, weight gradient" in text
    assert "a training step: 2000.000 ms before" in text
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    ways = {problem.op: plan.choice.side for (problem, *_), plan in plans._plans.items() if plan.choice.seconds}
    assert ways == {
        "conv": decision.Side.OURS,
        "weight_gradient": decision.Side.OURS,
        "data_gradient": decision.Side.THEIRS,
    }
    close(_trained(model, x), _trained(other, x))


def test_accelerate_does_not_measure_gradients_that_nobody_needs(timed: list[str]) -> None:
    model = Net(torch.nn)
    model.first.requires_grad_(False)
    model.line.weight.requires_grad_(False)
    tw.accelerate(model, torch.randn(4, 8, 5, 6), training=True)
    assert timed == ["conv", "conv"]
    with pytest.raises(tw.error.UserError, match="no parameter of the model requires a gradient"):
        tw.accelerate(model.requires_grad_(False), torch.randn(4, 8, 5, 6), training=True)


def test_accelerate_takes_random_layers_in_training(timed: list[str]) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(6, 6, 3, groups=6), torch.nn.Dropout(0.5)).train()
    tw.accelerate(model, torch.randn(2, 6, 7, 7), training=True)
    assert type(model[0]) is nn.Conv2d


def test_problems_of_gradients_are_those_that_calls_run(our_kernels: None) -> None:
    from tilewright.functional.pytorch.operators.layer import gradients_of_ours

    for layer, shape, weight, options in LAYERS.values():
        plans.forget()
        x, w = (torch.randn(size, requires_grad=True) for size in (shape, weight))
        layer(x, w, **options).sum().backward()
        made = [problem for problem, *_ in plans._plans]
        forward, *gradients = made
        assert set(gradients_of_ours(forward, of_weight=True, of_x=True)) == set(gradients)
