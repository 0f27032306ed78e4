"""Models that `accelerate` runs as a graph with fused convolutions."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.functional.made_up import seconds

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.nn import acceleration  # noqa: E402  # needs PyTorch

nn = torch.nn


class Block(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """Convolutions with batch norms, activations, and an addition."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), nn.BatchNorm2d(6)
        self.second, self.other = nn.Conv2d(6, 6, 3, padding=1, groups=3), nn.BatchNorm2d(6)

    def forward(self, x: Any) -> Any:
        """A dictionary, as some models return."""
        y = torch.relu(self.norm(self.first(x)))
        return {"features": nn.functional.silu(self.other(self.second(y)) + x)}


@pytest.fixture(autouse=True)
def _ours_is_faster(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceleration, "compared", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "compare", lambda *_: seconds(1.0, 2.0))
    monkeypatch.setattr(acceleration, "_keep", lambda *_: None)


def sample() -> tuple[Any, Any]:
    """A model with statistics of its own, and its input."""
    torch.manual_seed(0)
    model, x = Block(), torch.randn(2, 6, 8, 9)
    for _ in range(3):
        model(torch.randn(4, 6, 8, 9) * 2 + 1)
    return model.eval(), x


def runs_graph(model: Any, x: Any) -> bool:
    """Whether no module runs within a call."""
    ran: list[Any] = []
    forward = nn.BatchNorm2d.forward
    nn.BatchNorm2d.forward = lambda self, x: ran.append(1) or forward(self, x)
    try:
        model(x)
    finally:
        nn.BatchNorm2d.forward = forward
    return not ran


def test_a_model_runs_a_graph_for_inputs_like_its_sample() -> None:
    model, x = sample()
    with torch.no_grad():
        wanted, other = model(x)["features"], model(x[:1])["features"]
        done = tw.accelerate(model, x)
        assert "in evaluation mode, 2 of 2 convolutions are one call of ours with the layers after them" in str(done)
        assert isinstance(model, Block)
        assert runs_graph(model, x)
        torch.testing.assert_close(model(x)["features"], wanted, rtol=1e-4, atol=1e-5)
        assert not runs_graph(model, x[:1])
        torch.testing.assert_close(model(x[:1])["features"], other, rtol=1e-4, atol=1e-5)
        assert not runs_graph(model.train(), x)
        assert runs_graph(model.eval(), x)
    assert not runs_graph(model, x)  # a gradient is recorded
    done.undo()
    assert type(model) is Block
    with torch.no_grad():
        assert not runs_graph(model, x)


def test_weights_that_change_are_folded_again() -> None:
    model, x = sample()
    other, _ = sample()
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(1.5).add_(0.1)
        other.norm.running_mean.add_(0.3)
        tw.accelerate(model, x)
        model.load_state_dict(other.state_dict())
        torch.testing.assert_close(model(x)["features"], other(x)["features"], rtol=1e-4, atol=1e-5)
        for mine, p in zip(model.parameters(), other.parameters(), strict=True):  # a moving average of weights
            mine.lerp_(p * 2, 0.5)
            p.lerp_(p * 2, 0.5)
        assert runs_graph(model, x)
        torch.testing.assert_close(model(x)["features"], other(x)["features"], rtol=1e-4, atol=1e-5)
        model.norm.weight = nn.Parameter(model.norm.weight * 3)
        other.norm.weight.mul_(3)
        torch.testing.assert_close(model(x)["features"], other(x)["features"], rtol=1e-4, atol=1e-5)


def test_changes_of_the_modules_are_seen() -> None:
    model, x = sample()
    heard: list[int] = []
    with torch.no_grad():
        tw.accelerate(model, x)
        handle = model.second.register_forward_hook(lambda *_: heard.append(1))
        model(x)
        assert heard
        handle.remove()
        assert runs_graph(model, x)
        model.other = nn.Identity()
        wanted = nn.functional.silu(model.second(torch.relu(model.norm(model.first(x)))) + x)
        torch.testing.assert_close(model(x)["features"], wanted, rtol=1e-4, atol=1e-5)


class Slots:
    """An object without a dictionary."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 1.0


class Tail(nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """Factors in collections, objects and an array; the calls are counted."""

    def __init__(self, counts: bool = False) -> None:
        super().__init__()
        self.sizes, self.nested, self.array = [1.0], ({"a": [1.0]}, Slots()), np.ones(2)
        self.config = SimpleNamespace(inner=SimpleNamespace(factor=1.0), calls={"a": 0}, counts=counts)

    def reset(self) -> None:
        self.sizes[0] = self.nested[0]["a"][0] = self.nested[1].factor = self.config.inner.factor = self.array[0] = 1.0

    def forward(self, x: Any) -> Any:
        self.config.calls["a"] += self.config.counts
        own = self.nested[0]["a"][0] * self.nested[1].factor * self.config.inner.factor * float(self.array[0])
        return x * self.sizes[0] * own


CHANGES: dict[str, Any] = {
    "an epsilon": lambda model: setattr(model[1], "eps", 0.5),
    "a stride": lambda model: setattr(model[0], "stride", (2, 2)),
    "a bias": lambda model: setattr(model[0], "bias", nn.Parameter(torch.ones(6))),
    "another layer": lambda model: model.append(nn.Tanh()),
    "a layer fewer": lambda model: model.pop(2),
    "a method": lambda model: setattr(model[2], "forward", torch.sin),
    "a list": lambda model: setattr(model[3], "sizes", [2.0]),
    "a value in a list": lambda model: model[3].sizes.__setitem__(0, 2.0),
    "a value in a nested list": lambda model: model[3].nested[0]["a"].__setitem__(0, 2.0),
    "a slot": lambda model: setattr(model[3].nested[1], "factor", 2.0),
    "an object": lambda model: setattr(model[3].config.inner, "factor", 2.0),
    "an array": lambda model: model[3].array.__setitem__(0, 2.0),
    "a hook": lambda model: model[1].register_forward_pre_hook(lambda module, given: (given[0] * 2,)),
    "training": lambda model: (torch.manual_seed(1), model.train()(torch.randn(2, 6, 5, 5) + 2), model.eval()),
}


def test_changes_of_attributes_are_seen() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(6, 6, 3, bias=False, groups=6), nn.BatchNorm2d(6), nn.ReLU(), Tail()).eval()
    plain, x = copy.deepcopy(model), torch.randn(2, 6, 5, 5)
    with torch.no_grad():
        tw.accelerate(model, x)
        for change in CHANGES.values():
            assert runs_graph(model, x)
            other = copy.deepcopy(plain)
            own = [*model.modules()]
            live = [a for part in own for a in (vars(part), part._modules, part._parameters, part._forward_pre_hooks)]
            before = [dict(values) for values in live]
            change(model)
            change(other)
            torch.testing.assert_close(model(x), other(x), rtol=1e-4, atol=1e-5)
            for values, old in zip(live, before, strict=True):
                values.clear()
                values.update(old)
            own[-1].reset()


def test_models_that_write_to_objects_run_their_modules() -> None:
    model, x = nn.Sequential(nn.Conv2d(6, 6, 3), nn.ReLU(), Tail(counts=True)).eval(), torch.randn(2, 6, 5, 5)
    with torch.no_grad():
        tw.accelerate(model, x)
        before = model[2].config.calls["a"]
        model(x)
        model(x)
    assert model[2].config.calls["a"] == before + 2


def test_many_or_large_values_are_not_compared() -> None:
    for held in ([[] for _ in range(5000)], np.zeros(1 << 20)):
        model = nn.Sequential(nn.Conv2d(6, 6, 3), nn.ReLU()).eval()
        model[1].held = held
        with torch.no_grad():
            assert "its attributes cannot be compared" in str(tw.accelerate(model, torch.randn(2, 6, 5, 5)))


def test_weights_that_are_no_longer_shared() -> None:
    layers = [nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6)]
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 6, 8, 9)
    model[3].weight = model[0].weight
    with torch.no_grad():
        tw.accelerate(model, x)
        assert runs_graph(model, x)
        model[3].weight = nn.Parameter(model[0].weight * 2)
        wanted = nn.functional.conv2d(model[2](model[1](model[0](x))), model[3].weight, model[3].bias, groups=6)
        torch.testing.assert_close(model(x), wanted, rtol=1e-4, atol=1e-5)


def test_copies_run_their_own_modules() -> None:
    model, x = sample()
    with torch.no_grad():
        tw.accelerate(model, x)
        wanted = model(x)["features"]
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        for again in (copy.deepcopy(model), torch.load(file, weights_only=False)):
            assert type(again) is Block
            torch.testing.assert_close(again(x)["features"], wanted, rtol=1e-4, atol=1e-5)


class WithoutLock:
    """A module of which copies have no lock: locks have no copies."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}


class LockedLayer(WithoutLock, nn.Conv2d):  # type: ignore[misc]  # PyTorch is not followed
    """A convolution with a lock."""


class LockedModel(WithoutLock, Block):
    """A model with a lock, and with a layer of that kind."""

    def __init__(self) -> None:
        super().__init__()
        self.first = LockedLayer(6, 6, 3, padding=1, groups=6)
        self.lock = self.first.lock = threading.Lock()


def test_copies_have_the_state_that_a_class_chooses() -> None:
    model, x = LockedModel().eval(), torch.randn(2, 6, 8, 9)
    with torch.no_grad():
        tw.accelerate(model, x)
        assert runs_graph(model, x)
        for again in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(again(x)["features"], model(x)["features"], rtol=1e-4, atol=1e-5)
            assert not hasattr(again, "lock")


class Branching(Block):
    """A model that no graph describes."""

    def forward(self, x: Any) -> Any:
        """It depends on values."""
        return super().forward(x) if float(x.sum()) > 0 else super().forward(-x)


def test_the_report_says_why_a_model_has_no_graph(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.randn(2, 6, 8, 9)
    done = tw.accelerate(Branching().eval(), x)
    assert "def forward" not in capfd.readouterr().err
    assert "not fused, layers are replaced one by one: torch.export does not trace it: " in str(done)
    assert sum(row.replaced for row in done.rows) == 2


def test_a_model_under_autocast_has_no_graph() -> None:
    with torch.autocast("cpu"):
        done = tw.accelerate(*sample())
    assert done.fusion == "not fused, layers are replaced one by one: it runs under autocast"


def test_a_graph_that_is_not_faster_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = sample()
    timed = iter([seconds(1.0, 2.0), seconds(2.0, 1.0)])
    monkeypatch.setattr(acceleration, "compare", lambda *_: next(timed))
    done = tw.accelerate(model, x)
    assert "0.50 times as fast (0.50–0.50); not kept, slower" in str(done)
    assert type(model) is Block
