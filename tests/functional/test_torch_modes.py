"""Calls on PyTorch's tensors of unusual kinds, and under its transforms, after calls of the usual kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tests.functional.made_up import seconds
from tests.functional.testing_tools import import_testing_tools
from tilewright.core.errors import UserError
from tilewright.functional.planning.prepared_calls import drop_all

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
nn = import_module("tilewright.nn")  # needs PyTorch

X, W, B = torch.randn(2, 6, 9, 10), torch.randn(6, 1, 3, 3), torch.randn(6)
WINDOW = {"padding": 1, "groups": 6}


@pytest.fixture(autouse=True)
def _called_before() -> None:
    for _ in range(3):
        tw.conv2d(X, W, B, **WINDOW)


def test_shapes_without_memory() -> None:
    found = tw.conv2d(X.to("meta"), W.to("meta"), B.to("meta"), **WINDOW)
    assert (found.shape, found.device.type) == (X.shape, "meta")
    assert nn.Conv2d(6, 6, 3, padding=1, groups=6, device="meta")(X.to("meta")).shape == X.shape
    with pytest.raises(UserError, match="weight is on meta"):
        tw.conv2d(X, W.to("meta"), **WINDOW)


@pytest.mark.parametrize("kind", ["to_sparse", "to_mkldnn"])
def test_memory_that_is_not_strided_is_named(kind: str) -> None:
    x = getattr(X, kind)()
    with pytest.raises(UserError, match=f"x has the layout {x.layout}") as caught:
        tw.conv2d(x, W, B, **WINDOW)
    assert caught.value.fix == "convert it: x.to_dense()"


@pytest.mark.parametrize("what", ["x", "weight"])
def test_tensors_of_several_processes_are_named(what: str) -> None:
    distributed = pytest.importorskip("torch.distributed")
    fake = import_testing_tools("distributed.fake_pg")
    from torch.distributed.tensor import DTensor, Replicate, init_device_mesh

    distributed.init_process_group("fake", rank=0, world_size=1, store=fake.FakeStore())
    try:
        given = {"x": X, "weight": W}
        given[what] = DTensor.from_local(given[what], init_device_mesh("cpu", (1,)), [Replicate()])
        with pytest.raises(UserError, match=f"{what} is a DTensor") as caught:
            tw.conv2d(**given, **WINDOW)
        assert caught.value.fix.endswith(f"{what}.to_local()")
    finally:
        distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore")
def test_a_traced_module_computes() -> None:
    model = torch.nn.Sequential(
        nn.Conv2d(6, 6, 3, groups=6), nn.MaxPool2d(2), nn.ConvTranspose2d(6, 6, 4, stride=2, groups=6)
    )
    model.requires_grad_(False)
    for _ in range(3):
        model(X)
    traced, other = torch.jit.trace(model, X), torch.randn_like(X)
    torch.testing.assert_close(traced(other), model(other))


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_transforms_of_functions(activation: str | None) -> None:
    after = F.gelu if activation else torch.nn.Identity()

    def ours(x: Any, w: Any, b: Any) -> Any:
        return tw.conv2d(x, w, b, **WINDOW, activation=activation)

    def theirs(x: Any, w: Any, b: Any) -> Any:
        return after(F.conv2d(x, w, b, **WINDOW))

    given, moved = (X, W, B), (X * 2, W + 1, B - 1)
    everything = (0, 1, 2)
    found = torch.func.grad(lambda *a: ours(*a).square().sum(), everything)(*given)
    wanted = torch.func.grad(lambda *a: theirs(*a).square().sum(), everything)(*given)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(
        torch.func.jvp(ours, given, moved), torch.func.jvp(theirs, given, moved), rtol=1e-4, atol=1e-4
    )


def test_forward_gradients() -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        made = tw.conv2d(forward_ad.make_dual(X, X * 2), W, B, **WINDOW)
        torch.testing.assert_close(forward_ad.unpack_dual(made).tangent, F.conv2d(X * 2, W, **WINDOW))


@pytest.mark.parametrize("activation", [torch.nn.ReLU(), F.relu, torch.relu], ids="module function builtin".split())
def test_an_activation_of_tensors_is_named(activation: Any) -> None:
    with pytest.raises(UserError, match="which computes on arrays") as caught:
        tw.conv2d(X, W, B, **WINDOW, activation=activation)
    assert 'activation="relu"' in caught.value.fix


@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_autocast_casts_what_pytorch_casts(given: Any) -> None:
    x, w = X.to(given), W.to(given)
    with torch.autocast("cpu", torch.bfloat16):
        assert tw.conv2d(x, w, **WINDOW).dtype == F.conv2d(x, w, **WINDOW).dtype


@pytest.mark.parametrize("kind", ["conv", "pool"])
def test_functionalized_calls_compute(kind: str) -> None:
    """Functional tensors have shapes as others have, and no memory: their addresses ended the process."""

    def call(x: Any) -> Any:
        return tw.conv2d(x, W, B, **WINDOW) if kind == "conv" else tw.max_pool2d(x, 2)

    for _ in range(3):
        call(X)
    for _ in range(2):
        torch.testing.assert_close(torch.func.functionalize(call)(X), call(X))


def test_zeros_without_memory() -> None:
    zeros = torch._efficientzerotensor(X.shape)
    for _ in range(2):
        assert not tw.conv2d(zeros, W, **WINDOW).any()


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_make_fx_records_calls(pre_dispatch: bool) -> None:
    """What was called before is recorded too, and not the memory that its result happened to get."""
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: tw.conv2d(x, W, B, **WINDOW), pre_dispatch=pre_dispatch)(X)
    assert "torch.ops.tilewright.convolution" in graph.code
    torch.testing.assert_close(graph(2 * X), tw.conv2d(2 * X, W, B, **WINDOW))


def test_real_tensors_under_a_mode_of_fake_ones() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        found = tw.conv2d(X, W, B, **WINDOW)
    assert (type(found).__name__, found.shape) == ("FakeTensor", X.shape)


class Subclass(torch.Tensor):  # type: ignore[misc]  # PyTorch is not followed
    """A tensor that is not PyTorch's own."""


def autocast() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


def test_arguments_that_are_no_tensors_are_named() -> None:
    from torch.autograd import forward_ad

    says = "x is a tensor, but weight is a NumPy array"
    with pytest.raises(UserError, match=says):
        tw.conv2d(X.as_subclass(Subclass), W.numpy(), **WINDOW)
    with forward_ad.dual_level(), pytest.raises(UserError, match=says):
        tw.conv2d(forward_ad.make_dual(X, X), W.numpy(), **WINDOW)


@pytest.mark.parametrize("needs", [False, True])
def test_a_truth_value_is_not_a_number(needs: bool) -> None:
    drop_all()  # a call that differs only in 1 for True, which are equal, would be remembered
    with pytest.raises(UserError, match="stride is True"):
        tw.conv2d(X.clone().requires_grad_(needs), W, stride=True, groups=6)


def test_out_has_the_shape_of_the_result_under_autocast() -> None:
    with autocast(), torch.no_grad():
        out = torch.empty(X.shape)
        assert tw.conv2d(X, W, **WINDOW, out=out) is out
        torch.testing.assert_close(out, F.conv2d(X, W, **WINDOW).float(), rtol=2e-2, atol=2e-2)
        with pytest.raises(
            UserError, match=r"out has the shape \(3, 2, 6, 9, 10\), but.*\n.* the shape \(2, 6, 9, 10\)"
        ):
            tw.conv2d(X, W, **WINDOW, out=torch.empty(3, *X.shape))


@pytest.mark.parametrize(
    ("out", "says"),
    [(torch.empty(3, *X.shape), "out has the shape"), (torch.empty(X.shape).double(), "out has the type float64")],
    ids=["shape", "type"],
)
@pytest.mark.filterwarnings("ignore")
def test_out_has_the_shape_and_the_type_of_the_result_in_a_compiled_function(out: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        torch.compile(lambda x: tw.conv2d(x, W, **WINDOW, out=out), backend="eager")(X)


def test_a_function_of_an_expression_compiles_in_one_graph() -> None:
    from tilewright import te

    slope = 0.3

    def call(x: Any) -> Any:
        return tw.conv2d(x, W, **WINDOW, activation=lambda v: te.max(v, slope * v))

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), F.leaky_relu(F.conv2d(X, W, **WINDOW), slope), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["Conv2d", "ConvTranspose2d"])
def test_a_module_as_the_activation_of_a_module_is_named(kind: str) -> None:
    """It was left out without a word."""
    module = getattr(nn, kind)(6, 6, 3, groups=6, activation=torch.nn.ReLU())
    with pytest.raises(UserError, match=r"activation is ReLU\(\), which computes on arrays"):
        module(X)


def depthwise_model() -> Any:
    return torch.nn.Sequential(torch.nn.Conv2d(6, 6, 5, padding=2, groups=6)).eval()


def test_accelerate_keeps_layers_of_no_images() -> None:
    model = depthwise_model()
    done = tw.accelerate(model, X[:0])
    assert [(row.replaced, row.why) for row in done.rows] == [(False, "the sample has no images")]
    assert type(model[0]) is torch.nn.Conv2d


def test_accelerate_keeps_layers_that_no_kernel_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.functional.planning import kernel_choice

    def refuse(*_: Any) -> Any:
        raise UserError("the tile has 20 rows", fix="give fewer")

    monkeypatch.setattr(kernel_choice, "compiled", refuse)
    model = depthwise_model()
    (row,) = tw.accelerate(model, torch.randn(1, 6, 9, 13)).rows
    assert not row.replaced
    assert "does not compile: the tile has 20 rows" in row.why
    assert type(model[0]) is torch.nn.Conv2d


def test_accelerate_leaves_running_statistics_as_they_are() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, groups=8), torch.nn.BatchNorm2d(8)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tw.accelerate(model, torch.randn(2, 8, 9, 9)).undo()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


class Casting(torch.nn.Module):
    """One layer in float32, and two under autocast, the second of which receives what the first one returns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (torch.nn.Conv2d(6, 6, 3, padding=1, groups=6) for _ in range(3))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        with torch.autocast("cpu", torch.bfloat16):
            return self.third(self.second(x)).float()


def test_accelerate_measures_layers_in_the_type_of_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.nn import acceleration

    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    model = Casting().eval()
    wanted = model(X)
    done = tw.accelerate(model, X)
    assert [(row.problem.dtype, row.replaced) for row in done.rows] == [
        ("float32", True), ("bfloat16", True), ("bfloat16", True),
    ]  # fmt: skip
    torch.testing.assert_close(model(X), wanted, rtol=2e-2, atol=2e-2)


def test_accelerate_within_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.nn import acceleration

    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    with torch.autocast("cpu", torch.bfloat16):
        done = tw.accelerate(depthwise_model(), X)
    assert [row.problem.dtype for row in done.rows] == ["bfloat16"]


def test_autocast_does_not_change_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.functional.planning.plans import plan_for
    from tilewright.functional.pytorch import timing as torch_timing
    from tilewright.nn.layers import problem_of
    from tilewright.runtime.device import cpu

    problem, types = problem_of(depthwise_model()[0], X), []

    def timed(works: list[Any], *_: Any, **options: Any) -> list[float]:
        types.append(works[1]().dtype)
        return [1.0, 1.0]

    monkeypatch.setattr(torch_timing, "in_turns", timed)
    plan = plan_for(problem, cpu())
    with torch.autocast("cpu", torch.bfloat16):
        torch_timing.time_both(problem, cpu(), plan.executable)
    assert types == [torch.float32]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_of_pytorch_may_be_replaced_by_ours(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    x, w = X.to(dtype).requires_grad_(), torch.randn(6, 6, 3, 3, dtype=dtype, requires_grad=True)
    given = {
        "conv1d": lambda f: f(x[:, :, 0], w[:, :, 0], padding=1),
        "conv2d": lambda f: f(x, w, padding=1),
        "conv_transpose1d": lambda f: f(x[:, :, 0], w[:, :, 0], padding=1),
        "conv_transpose2d": lambda f: f(x, w, padding=1),
        "max_pool2d": lambda f: f(x, 2),
        "avg_pool2d": lambda f: f(x, 2),
    }

    def run(name: str) -> Any:
        y = given[name](getattr(F, name))
        return y, torch.autograd.grad(y.square().sum(), x)

    expected = {name: run(name) for name in given}
    for name in given:
        monkeypatch.setattr(F, name, getattr(tw, name))
    drop_all()
    for name, theirs in expected.items():
        torch.testing.assert_close(run(name), theirs, rtol=1e-3, atol=1e-3)
