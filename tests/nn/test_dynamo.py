"""`torch.compile(model, backend="tilewright")`, beside the model itself.

The rest of each graph runs by eager operators, which compiles no C++; a slow test has Inductor.
"""

from __future__ import annotations

import gc
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest

import tilewright as tw
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.planning import decision, plans, rivals
from tilewright.functional.programs.store import StoredKernel

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tests.functional.made_up import seconds  # noqa: E402  # needs PyTorch
from tests.nn.compiling import Backend, nothing_remembered  # noqa: E402  # needs PyTorch
from tilewright.functional.pytorch.native import tf32_settings  # noqa: E402  # needs PyTorch

nn = torch.nn
dynamo = import_module("tilewright.nn.dynamo")  # needs PyTorch
fusion = import_module("tilewright.nn.fusion")
graph_choice = import_module("tilewright.nn.graph_choice")


@pytest.fixture(autouse=True)
def _ours(our_kernels: None) -> Iterator[None]:
    with nothing_remembered():
        yield


def _with_statistics(model: Any) -> Any:
    """The model in evaluation mode, with statistics and parameters of norms that are not those of a new one."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias)
    return model.eval()


def _agrees(found: Any, expected: Any, bound: float = 1e-5) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    error = (found.double() - expected.double()).norm() / expected.double().norm()
    assert float(error) <= bound


def _compiled(model: Any, backend: Any) -> Any:
    return torch.compile(model, backend=backend)


class Block(nn.Module):
    """Depthwise and pointwise convolutions with norms, in-place activations, a gate and a residual."""

    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.first, self.second = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.gate = nn.Conv2d(channels, channels, 1)
        self.narrow = nn.Conv2d(channels, channels, 1, bias=False)
        self.act, self.last = nn.SiLU(inplace=True), nn.ReLU6(inplace=True)

    def forward(self, x: Any) -> Any:
        y = self.act(self.first(self.depthwise(x)))
        y = y * self.gate(y.mean((2, 3), keepdim=True)).sigmoid()
        y = self.second(self.narrow(y))
        y += x
        return self.last(y)


BLOCK = [
    "convolution + batch norm + silu",
    "convolution + sigmoid",
    "convolution + batch norm + addition + relu6",
]


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_a_block_becomes_three_calls(last: bool) -> None:
    from torch._dynamo.backends.debugging import aot_eager

    model, backend, x = _with_statistics(Block()), Backend(aot_eager, channels_last=last), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        found = _compiled(model, backend)(x)
        _agrees(found, model(x))
    assert backend.parts == BLOCK
    assert found.is_contiguous()  # as the model's own result
    assert backend.options == [{"layout_optimization": False}]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_types(dtype: Any) -> None:
    model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7, dtype=dtype)
    with torch.no_grad():
        expected = model.double()(x.double())
        found = _compiled(model.to(dtype), Backend())(x.to(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last)
    _agrees(found.double(), expected, {torch.float16: 3e-3, torch.bfloat16: 3e-2, torch.float64: 1e-12}[dtype])


class OneDimensional(nn.Sequential):
    """Convolutions of sequences, one of them causal by padding on one side, and transposed ones."""

    def __init__(self) -> None:
        super().__init__(
            nn.ConstantPad1d((2, 0), 0.0),
            nn.Conv1d(6, 6, 3, groups=6), nn.BatchNorm1d(6), nn.GELU(approximate="tanh"),
            nn.Conv1d(6, 4, 3, groups=2), nn.ReLU(),
            nn.ConvTranspose1d(4, 6, 4, stride=2, padding=1, groups=2), nn.BatchNorm1d(6), nn.Hardswish(),
        )  # fmt: skip


def test_sequences() -> None:
    model, backend, x = _with_statistics(OneDimensional()), Backend(), torch.randn(2, 6, 20)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.parts == [
        "padding + convolution + batch norm + gelu_tanh",
        "convolution + relu",
        "convolution + batch norm + hardswish",
    ]


def test_images_with_transposed_and_grouped_layers_and_scales() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(8, 8, 2, stride=2, groups=2)
            self.norm = nn.BatchNorm2d(8, affine=False)
            self.grouped = nn.Conv2d(8, 12, 3, stride=2, groups=4, bias=False)
            self.scale = nn.Parameter(torch.randn(12, 1, 1))
            self.shift = nn.Parameter(torch.randn(1, 12, 1, 1))

        def forward(self, x: Any) -> Any:
            y = self.norm(self.up(x))
            y = torch.nn.functional.pad(y * torch.sigmoid(y), (0, 1, 1, 0))
            return self.grouped(y) * self.scale + self.shift

    model, backend, x = _with_statistics(Model()), Backend(), torch.randn(1, 8, 5, 5)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.parts == ["convolution + batch norm + silu", "padding + convolution + scale + shift"]


@pytest.mark.parametrize(
    ("layer", "name"),
    [(nn.ELU(), "elu"), (nn.LeakyReLU(), "leaky_relu"), (nn.Softplus(), "softplus"), (nn.Hardtanh(), "hardtanh")],
    ids=str,
)
def test_activations_with_default_parameters(layer: Any, name: str) -> None:
    model, backend, x = nn.Sequential(nn.Conv1d(4, 4, 3, groups=4), layer).eval(), Backend(), torch.randn(2, 4, 9)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.parts == [f"convolution + {name}"]


def test_activations_with_other_parameters_are_pytorchs() -> None:
    layers = [nn.Conv1d(4, 4, 3, groups=4), nn.ELU(0.5), nn.Conv1d(4, 4, 3, groups=4), nn.LeakyReLU(0.2)]
    model, backend, x = nn.Sequential(*layers).eval(), Backend(), torch.randn(2, 4, 9)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.parts == ["convolution", "convolution"]


def test_pooled_images_with_the_channels_last() -> None:
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3, groups=8), nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.Flatten(1)
    ).eval()
    backend, x = Backend(channels_last=True), torch.randn(2, 8, 6, 7).to(memory_format=torch.channels_last)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.reports[0].channels_last


@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format], ids=["last", "first"])
@pytest.mark.parametrize(("groups", "norm"), [(1, True), (2, True), (2, False)], ids=str)
@pytest.mark.parametrize("last", [True, False, None], ids=["to last", "to first", "as given"])
def test_weights_lie_as_decisions_assume(last: bool | None, norm: bool, groups: int, order: Any) -> None:
    """The problem of a decision has the memory order of the weights: a call on another one copies them each time."""
    layers = [nn.Conv2d(16, 16, 3, groups=groups), nn.BatchNorm2d(16) if norm else nn.ReLU()]
    model = _with_statistics(nn.Sequential(*layers)).to(memory_format=order)
    seen: list[Any] = []

    def kept(gm: Any, inputs: Any) -> Any:
        (call,) = (node for node in gm.graph.nodes if node.target is fusion.OURS_IN_GRAPH)
        places = [node for node in gm.graph.nodes if node.op == "placeholder"]
        seen.append(inputs[places.index(call.args[1])])
        return gm.forward

    backend, x = Backend(kept, channels_last=last), torch.randn(2, 16, 6, 7).to(memory_format=order)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    last_in_problem = backend.reports[0].rows[0].problem.weights == "OHWI"
    assert seen[0].is_contiguous(memory_format=torch.channels_last if last_in_problem else torch.contiguous_format)


# Weights that change


def _load(model: Any, other: Any) -> None:
    model.load_state_dict(other.state_dict())


def _average(model: Any, other: Any) -> None:
    with torch.no_grad():
        for mine, its in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
            mine.lerp_(its, 0.5) if mine.is_floating_point() else None


def _exchange(model: Any, other: Any) -> None:
    model.depthwise.weight, model.first = other.depthwise.weight, other.first


def _point_elsewhere(model: Any, other: Any) -> None:
    model.depthwise.weight.data = other.depthwise.weight.data


def _step(model: Any, other: Any) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.AdamW(model.parameters(), lr=0.1, fused=True).step()  # gives parameters no new version


def _in_inference_mode(model: Any, other: Any) -> None:
    with torch.inference_mode():
        model.depthwise.weight.mul_(2)


def _train(model: Any, other: Any) -> None:
    model.train()(torch.randn(4, 8, 6, 7) + 2)  # kernels of batch norms give statistics no new version
    model.eval()


def _behind_the_back(model: Any, other: Any) -> None:
    model.depthwise.weight.data.mul_(2)  # gives the parameter no new version
    model.train().eval()


CHANGES = [_load, _average, _exchange, _point_elsewhere, _step, _in_inference_mode, _train, _behind_the_back]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_folded_again(change: Callable[[Any, Any], None]) -> None:
    model, backend, x = _with_statistics(Block()), Backend(), torch.randn(2, 8, 6, 7)
    torch.manual_seed(1)
    other = _with_statistics(Block())
    nn.init.normal_(other.depthwise.weight)
    nn.init.uniform_(other.first.running_var, 3, 5)
    with torch.no_grad():
        run = _compiled(model, backend)
        before = run(x).clone()
        change(model, other)
        for _ in range(2):
            _agrees(run(x), model(x))
        assert not torch.allclose(before, model(x))


def test_memory_that_is_used_again_is_no_old_weight() -> None:
    model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        run = _compiled(model, Backend())
        for value in range(1, 6):
            model.first.weight.data = torch.full((8,), float(value))  # PyTorch frees the memory of the last one
            _agrees(run(x), model(x))


def test_weights_are_left_with_the_model() -> None:
    model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
    kept: list[Any] = []
    with pytest.MonkeyPatch.context() as patched, torch.no_grad():
        made = dynamo.FoldedParameters
        patched.setattr(dynamo, "FoldedParameters", lambda prologue: kept.append(made(prologue)) or kept[0])
        _compiled(model, Backend())(x)
    memory = weakref.ref(model.first.weight.untyped_storage())
    torch._dynamo.reset()
    del model
    gc.collect()
    assert kept
    assert memory() is None


def test_weights_are_folded_once_into_the_same_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    kept = dynamo.FoldedParameters.of
    monkeypatch.setattr(dynamo.FoldedParameters, "of", lambda self, given: seen.append(kept(self, given)) or seen[-1])
    model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        run = _compiled(model, Backend())
        run(x)
        run(x)
        model.first.weight.mul_(2)
        run(x)
    addresses = [[a.data_ptr() for a in each] for each in seen]
    assert addresses[0] == addresses[1] == addresses[2]  # a CUDA graph that was recorded sees the change
    own = {a.data_ptr() for a in model.state_dict().values()}
    assert own.isdisjoint(addresses[0])


def test_a_recorded_graph_keeps_folded_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    folding = import_module("tilewright.nn.folding")
    recorded: dict[int, list[Any]] = {}
    monkeypatch.setattr(folding, "_recorded", recorded)
    model, seen, x = _with_statistics(Block()), [], torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        run = _compiled(model, Backend(lambda gm, inputs: lambda *given: seen.append(given) or gm(*given)))
        run(x)
        assert not recorded
        monkeypatch.setattr(folding, "_is_recorded", lambda: True)
        run(x)
    (kept,) = recorded.values()
    assert kept
    assert all(any(a is b for b in seen[-1]) for a in kept)


def test_weights_that_change_after_a_run_in_inference_mode() -> None:
    folded, weight = dynamo.FoldedParameters(torch.fx.symbolic_trace(lambda weight: (weight * 2,))), torch.ones(3)
    with torch.inference_mode():
        folded.of([weight])
    weight.mul_(2)
    assert folded.of([weight])[0].tolist() == [4, 4, 4]


def test_parameters_of_inference_mode_have_no_version() -> None:
    with torch.inference_mode():
        model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
        run = _compiled(model, Backend())
        run(x)
        model.first.weight.mul_(2)
        _agrees(run(x), model(x))


class WithComputedBias(nn.Module):
    """The bias of its convolution depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.linear = nn.Parameter(torch.randn(8, 8, 3, 3)), nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        """The weight is static, the bias is not."""
        return torch.relu(nn.functional.conv2d(x, self.weight, self.linear(x.mean((0, 2, 3)))))


def test_a_bias_that_depends_on_the_input_is_computed_in_each_run() -> None:
    model, x = WithComputedBias().eval().to(memory_format=torch.channels_last), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        run = _compiled(model, Backend(channels_last=False))  # weights are copied into another order
        for _ in range(2):
            _agrees(run(x), model(x))
            x.numpy()[:] *= 2  # the memory of an input may change without a new version


class Flattened(nn.Module):
    """A view of a convolution's result, which relies on the order in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.line = nn.Conv2d(8, 8, 3, groups=8), nn.Conv1d(4, 8, 1)

    def forward(self, x: Any) -> Any:
        """PyTorch's result lies as the weight does, which `view` needs."""
        y = self.conv(x).permute(0, 2, 3, 1)
        return y.view(-1, 8), self.line(y.reshape(2, -1, 4).transpose(1, 2)).view(2, -1)


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=str)
def test_views_of_results_in_pytorchs_order(order: Any) -> None:
    model, x = Flattened().eval(), torch.randn(2, 8, 6, 7).to(memory_format=order)
    model.to(memory_format=torch.channels_last)
    with torch.no_grad():
        run = _compiled(model, Backend(channels_last=False))
        for mine, wanted in zip(run(x), model(x), strict=True):
            _agrees(mine, wanted)


class WithViews(nn.Module):
    """Its second result is a view of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, groups=8)

    def forward(self, x: Any) -> Any:
        """A change of one is a change of both."""
        y = self.conv(x)
        return y, y.flatten(1)


def test_results_that_share_memory() -> None:
    model, x = WithViews().eval(), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        first, second = _compiled(model, Backend(channels_last=True))(x)
        first.zero_()
    assert not second.any()


class Scaled(nn.Module):
    """A convolution that returns its scaled weight and bias, and a view of the weight, too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.scale = (nn.Parameter(torch.randn(8, size, size, size)) for size in (3, 1))
        self.bias = nn.Parameter(torch.randn(8))

    def forward(self, x: Any) -> Any:
        weight, bias = self.weight * self.scale, self.bias * 2
        return nn.functional.conv2d(x, weight, bias, padding=1), weight, bias, weight.flatten(1)


@pytest.mark.parametrize("last", [False, True])
def test_callers_may_write_into_all_results(last: bool) -> None:
    """Folded weights that the graph keeps are no results."""
    model, x = Scaled().eval(), torch.randn(2, 3, 6, 7)
    with torch.no_grad():
        run, expected = _compiled(model, Backend(channels_last=last)), model(x)
        for result in run(x):
            result.mul_(2)
        for found, right in zip(run(x), expected, strict=True):
            _agrees(found, right)


def test_models_may_share_weights_and_the_code() -> None:
    shared = nn.Conv2d(8, 8, 3, padding=1, groups=8)
    model = _with_statistics(nn.Sequential(shared, nn.BatchNorm2d(8), nn.ReLU(), shared, nn.BatchNorm2d(8)))
    other, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        _agrees(_compiled(model, Backend())(x), model(x))
        blocks = [other, _with_statistics(Block())]
        nn.init.normal_(blocks[1].narrow.weight)
        runs = [_compiled(each, Backend()) for each in blocks]
        for _ in range(2):
            for run, each in zip(runs, blocks, strict=True):
                _agrees(run(x), each(x))


def test_folded_weights_of_one_model_stay_when_another_one_runs() -> None:
    """Models of one class run the same graph: another thread, or a CUDA graph, may still read the first one's."""
    folded = dynamo.FoldedParameters(torch.fx.symbolic_trace(lambda weight: (weight * 2,)))
    weights = [torch.full((3,), float(i)) for i in range(4)]
    made = [folded.of([weight]) for weight in weights]
    assert [each[0].tolist() for each in made] == [[2.0 * i] * 3 for i in range(4)]
    assert all(folded.of([weight]) is each for weight, each in zip(weights, made, strict=True))
    weights[1].add_(10)
    assert folded.of(weights[1:2])[0].data_ptr() == made[1][0].data_ptr()  # recorded graphs see the change
    assert [each[0][0].item() for each in made] == [0, 22, 4, 6]
    for _ in range(100):
        weights.append(torch.zeros(3))
        folded.of(weights[-1:])
    assert len(folded._sets) <= 16  # many sets take no memory
    weights.clear()
    assert not folded._sets


class Mixer(nn.Module):
    """A block of ConvNeXt: linear layers on images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.LayerNorm(8)
        self.wide, self.act, self.narrow = nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8, bias=False)
        self.scale = nn.Parameter(torch.randn(8))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Any) -> Any:
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.drop(self.narrow(self.drop(self.act(self.wide(y))))).permute(0, 3, 1, 2)
        return x + y * self.scale.reshape(1, -1, 1, 1)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "PyTorch's"])
def test_linear_layers_of_images(ours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "_on_gpu", lambda graph: True)
    theirs, decide = SimpleNamespace(choice=SimpleNamespace(side=decision.Side.THEIRS, why="a test")), plans.plan_for
    if not ours:
        pick = lambda problem, *given, **named: theirs if problem.groups == 1 else decide(problem, *given, **named)
        monkeypatch.setattr(fusion, "plan_for", pick)
    model, backend, x = Mixer().eval(), Backend(channels_last=True), torch.randn(3, 8, 6, 7)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        run = _compiled(model, backend)
        for each in (x, x[:2]):
            _agrees(run(each), model(each))
    after = ["convolution + gelu", "convolution + scale + addition"] if ours else []
    assert backend.parts[:3] == ["convolution", *after]
    assert len(backend.parts) == len(after) + 1


# Graphs that are not that simple


@pytest.mark.parametrize("small_first", [False, True], ids=["large first", "small first"])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_branches_of_one_input_become_one_convolution(groups: int, small_first: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = nn.Conv2d(8, 8, (3, 5), padding=(2, 4), dilation=2, groups=groups, bias=False)
            self.small = nn.Conv2d(8, 8, (1, 3), padding=(0, 2), dilation=2, groups=groups)
            self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(3))

        def forward(self, x: Any) -> Any:
            branches = [self.norms[0](self.large(x)), self.norms[1](self.small(x))]
            if small_first:
                branches.reverse()
            return self.norms[2](branches[0] + branches[1] + x).relu()

    model, backend, x = _with_statistics(Model()), Backend(), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    parts = [row.parts for report in backend.reports for row in report.rows if "branch" in row.parts]
    assert parts == [("convolution", "batch norm", "branch", "input", "batch norm", "relu")]


def test_branches_that_do_not_fit_stay_apart() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = nn.Conv2d(8, 8, 3, padding=1, dilation=1)
            self.other = nn.Conv2d(8, 8, 2, padding=1, dilation=2)
            self.grouped = nn.Conv2d(8, 8, 1, groups=2)

        def forward(self, x: Any) -> Any:
            return self.large(x) + self.other(x) + self.grouped(x), self.large(x) + self.large(x.exp())

    model, backend, x = _with_statistics(Model()), Backend(), torch.randn(2, 8, 6, 7)
    with torch.no_grad():
        for found, expected in zip(_compiled(model, backend)(x), model(x), strict=True):
            _agrees(found, expected)
    assert not any("branch" in part for part in backend.parts)


def test_results_with_several_readers_are_kept() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.BatchNorm2d(4)
            self.other = nn.Conv2d(4, 4, 1)

        def forward(self, x: Any) -> Any:
            y = self.conv(x)
            z = self.norm(y).relu()
            sums = self.other(z)
            return z + y, sums + sums, (sums + z).relu_()

    model, backend, x = _with_statistics(Model()), Backend(), torch.randn(2, 4, 6, 7)
    with torch.no_grad():
        for found, expected in zip(_compiled(model, backend)(x), model(x), strict=True):
            _agrees(found, expected)
    assert backend.parts == ["convolution", "convolution"]


def test_two_branches_that_meet() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1, groups=4) for _ in range(3))
            self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))

        def forward(self, x: Any) -> Any:
            a, b = self.norms[0](self.convs[0](x)), self.norms[1](self.convs[1](x.exp()))
            a += b
            return self.norms[2](self.convs[2](torch.relu_(a)))

    model, backend, x = _with_statistics(Model()), Backend(), torch.randn(2, 4, 6, 7)
    with torch.no_grad():
        _agrees(_compiled(model, backend)(x), model(x))
    assert backend.parts[0] == "convolution + batch norm + addition + relu"
    assert backend.parts[1] == "convolution + batch norm"


def test_graphs_with_effects_replace_convolutions_alone() -> None:
    """Norms in training mode write to their statistics; so may a model to its input, or return it."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(4, 4, 3, padding="same", groups=4), nn.BatchNorm2d(4)

        def forward(self, x: Any) -> Any:
            y = self.norm(self.conv(x))
            x.mul_(2)
            y += self.conv(x)
            return y.relu_(), x

    model, other = Model(), Model()
    other.load_state_dict(model.state_dict())
    backend, x = Backend(), torch.randn(2, 4, 6, 7)
    given = x.clone(), x.clone()
    with torch.no_grad():
        for found, expected in zip(_compiled(model, backend)(given[0]), other(given[1]), strict=True):
            _agrees(found, expected)
    _agrees(*given)
    _agrees(model.norm.running_mean, other.norm.running_mean)
    assert backend.parts == ["convolution", "convolution"]
    assert str(backend.reports[0]).endswith("one by one: it writes to its inputs, or returns one of them")


def test_graphs_that_pytorch_does_not_trace_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise RuntimeError("no trace of this")

    monkeypatch.setattr("torch._functorch.aot_autograd.aot_export_joint_simple", refuse)
    model, backend, x = nn.Conv1d(4, 4, 3, groups=4).requires_grad_(False), Backend(), torch.randn(2, 4, 9)
    with pytest.warns(UserWarning, match="conv1d is not rewritten as a whole, because .* no trace of this"):
        found = _compiled(model, backend)(x)
    _agrees(found, model(x))
    assert "no trace of this" in str(backend.reports[0])


@pytest.mark.filterwarnings("ignore")
def test_layers_that_only_replacement_one_by_one_reaches() -> None:
    """A graph with a branch, and a layer whose padding changes with the batch."""
    layer, backend = nn.Conv1d(4, 4, 3, groups=4).requires_grad_(False), Backend()
    x = torch.randn(2, 4, 9)

    def branching(x: Any) -> Any:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (layer(x),))

    run: Any = torch.compile(branching, backend=backend)
    _agrees(run(x), branching(x))
    assert "one by one: it has branches or loops, which are graphs themselves" in str(backend.reports[0])

    def padded(x: Any, weight: Any) -> Any:
        return nn.functional.conv1d(x, weight, padding=x.shape[0], groups=4)

    weight, backend = torch.randn(4, 1, 3, requires_grad=True), Backend()
    torch._dynamo.mark_dynamic(x, 0)
    run = torch.compile(padded, backend=backend)
    _agrees(run(x, weight), padded(x, weight))
    assert "its options change from call to call" in str(backend.reports[0])


def test_faults_of_rewriting_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "chain_of", lambda *given: 1 / 0)
    with pytest.raises(Exception, match="ZeroDivisionError"), torch.no_grad():
        _compiled(nn.Conv1d(4, 4, 3, groups=4), Backend())(torch.randn(2, 4, 9))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_gradients(training: bool) -> None:
    model, backend = _with_statistics(Block()).train(training), Backend()
    other = Block().train(training)
    other.load_state_dict(model.state_dict())
    inputs = [torch.randn(2, 8, 6, 7)]
    inputs.append(inputs[0].clone())
    for run, x in zip((_compiled(model, backend), other), inputs, strict=True):
        x.requires_grad_()
        run(x).square().sum().backward()
    _agrees(inputs[0].grad, inputs[1].grad)
    for mine, its in zip(model.parameters(), other.parameters(), strict=True):
        _agrees(mine.grad, its.grad, 1e-4)
    for mine, its in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, its)
    assert backend.parts == ["convolution"] * 3


def test_autocast() -> None:
    model, x = _with_statistics(Block()), torch.randn(2, 8, 6, 7)
    other = Block().eval()
    other.load_state_dict(model.state_dict())
    backend = Backend()
    with torch.autocast("cpu", torch.bfloat16):
        with torch.no_grad():
            _agrees(_compiled(model, backend)(x), other(x), 3e-2)
        _compiled(model, backend)(x).float().sum().backward()
        other(x).float().sum().backward()
    assert backend.parts[0] == BLOCK[0]
    _agrees(model.depthwise.weight.grad, other.depthwise.weight.grad, 5e-2)


def test_one_graph_serves_all_batches() -> None:
    model, backend = _with_statistics(Block()), Backend()
    run, x = _compiled(model, backend), torch.randn(4, 8, 6, 7)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        for batch in (4, 2, 3):
            _agrees(run(x[:batch] if batch < 4 else x), model(x[:batch]))
    assert len(backend.reports) == 1


def test_empty_batches_and_sizes_that_change() -> None:
    model, backend = _with_statistics(Block()), Backend()
    with torch.no_grad():
        assert _compiled(model, backend)(torch.randn(0, 8, 6, 7)).shape == (0, 8, 6, 7)
        x = torch.randn(2, 8, 6, 9)
        torch._dynamo.mark_dynamic(x, 3)
        _agrees(_compiled(model, backend)(x), model(x))
    assert "the sample has no images" in backend.reports[0].rows[0].why
    assert "only the batch may" in str(backend.reports[1].rows[0])
    assert [row.replaced for row in backend.reports[1].rows] == [False, True, False]  # the gate has one size


def test_kernels_for_gpus_are_compiled_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=60)

    def made(problem: Any, on: Any, *given: Any) -> Any:
        both.wait()
        return plans.CallPlan(problem, on, decision.Decision(decision.Side.OURS), None, "compiled")

    monkeypatch.setattr(plans, "_from_disk", lambda *given: None)
    monkeypatch.setattr(plans, "_made", made)
    monkeypatch.setattr(fusion.os, "cpu_count", lambda: 2)
    problems = [
        Problem("conv", (n, 8, 9, 9), 8, (3, 3), (1, 1), (1,) * 4, (1, 1), 8, "float32", "NCHW") for n in (1, 2)
    ]
    fusion.compile_ahead([(problem, tw.cuda(0)) for problem in (*problems, *problems)])
    assert [plans.plan_for(problem, tw.cuda(0), fusion.torch_tensors.RIVAL).problem for problem in problems] == problems


def test_settings_that_forbid_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion.FusedGraph, "uses_tf32", True)
    model, backend, x = _with_statistics(Block()), Backend(), torch.randn(2, 8, 6, 7)
    ran: list[int] = []
    backend.after = lambda gm, inputs: lambda *given: ran.append(1) or gm(*given)
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run = _compiled(model, backend)
        for allowed, runs in ((True, 1), (False, 1), (True, 2)):
            monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", allowed)
            _agrees(run(x), model(x))
            assert len(ran) == runs
        torch.compiler.reset()
        monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
        _agrees(run(x), model(x))
    assert len(ran) == 3
    messages = [str(one.message) for one in told if one.category is UserWarning and "TF32" in str(one.message)]
    assert len(messages) == 1
    assert "torch.compiler.reset()" in messages[0]


def test_both_names_of_the_settings_of_tf32() -> None:
    owners = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)
    before = [owner.fp32_precision for owner in owners]
    assert tf32_settings() == (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)
    try:
        for given in (("tf32", "ieee"), ("ieee", "tf32")):
            for owner, value in zip(owners, given, strict=True):
                owner.fp32_precision = value
            assert tf32_settings() == tuple(value == "tf32" for value in given)
    finally:
        for owner, value in zip(owners, before, strict=True):
            owner.fp32_precision = value
    assert tf32_settings() == (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32)


# Options


def test_options() -> None:
    reports: list[Any] = []
    options = {"report": reports.append, "tune": "quick", "epilogue_fusion": True}
    given: list[Any] = []
    layer = nn.Conv3d(2, 2, 3).requires_grad_(False)
    x = torch.randn(1, 2, 4, 4, 4)

    def compiled(gm: Any, inputs: Any, config_patches: Any) -> Any:
        given.append(config_patches)
        return gm.forward

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx.compile_fx", compiled)
        torch.compile(layer, backend=dynamo.dynamo_backend, options=options)(x)
    assert given == [{"epilogue_fusion": True}]
    assert "convolutions of 3 dimensions are PyTorch's" in str(reports[0])
    assert "0 of 1 convolutions are Tilewright's" in str(reports[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [({"tune": "fast"}, "tune is 'fast'"), ({"report": 3}, "report is 3")],
    ids=["tune", "report"],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        torch.compile(nn.ReLU(), backend=dynamo.dynamo_backend, options=options)(torch.ones(2))


def test_a_call_on_a_cpu_must_save_more_than_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = nn.Conv2d(4, 4, 3, groups=4).eval(), torch.randn(1, 4, 9, 9)
    rows: list[Any] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    for saved in ((1e-6, 2e-3), (1e-3, 2e-3), (1e-3, 4e-3)):
        monkeypatch.setattr(rivals, "saved_by", lambda *_, saved=saved: saved)
        torch._dynamo.reset()
        backend = Backend()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x))
        rows += backend.reports[0].rows
    assert [row.replaced for row in rows] == [False, True, False]
    assert rows[0].why == "ours saves 1 µs; in a graph it must save 600 µs"
    assert rows[2].why == "ours saves 1000 µs; in a graph it must save 1200 µs"


@pytest.mark.parametrize(
    ("ours", "told"), [(1.0, "ours runs"), (2.0, "too close to call, PyTorch's runs"), (3.0, "; PyTorch's runs")]
)
def test_the_faster_graph_runs_on_a_cpu(ours: float, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    model, x = nn.Conv2d(4, 4, 3, groups=4).eval(), torch.randn(3, 4, 9, 9)
    timed: list[int] = []
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(graph_choice, "_MOST_SECONDS", 1e9)  # a slow first run on a loaded machine must not decide
    monkeypatch.setattr(graph_choice, "compare", lambda *_, **__: timed.append(1) or seconds(ours, 2.0))
    compiled = []
    for _ in range(2):  # the second time by the decision on disk
        torch.compiler.reset()
        backend = Backend(lambda gm, inputs: compiled.append(gm) or gm.forward, timed=True)
        with torch.no_grad():
            _agrees(_compiled(model, backend)(x), model(x))
        assert told in str(backend.reports[0])
    assert len(timed) == 1
    rewritten = [any(node.target is fusion.OURS_IN_GRAPH for node in gm.graph.nodes) for gm in compiled]
    assert rewritten == [True, False, ours == 1.0]


def test_a_decision_is_read_from_the_entry_of_its_own_graph(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(graph_choice, "_MOST_SECONDS", 1e9)
    monkeypatch.setattr(graph_choice, "compare", lambda *_, **__: seconds(1.0, 2.0))

    def decided(text: str) -> str:
        made = SimpleNamespace(graph_module=SimpleNamespace(graph=text), note="")
        graph_choice.faster_graph(made, lambda: torch.neg, lambda: torch.neg, [torch.ones(1)])
        return made.note

    note, (file,) = decided("a graph"), tmp_path.iterdir()
    assert "ours runs" in note
    whole = file.read_bytes()
    file.write_bytes(StoredKernel({}, b"").packed("another"))
    assert decided("a graph") == note
    assert file.read_bytes() == whole
