"""The decisions of `accelerate`, on made-up timings, and their report."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.functional.made_up import seconds
from tilewright.core.errors import UserError
from tilewright.functional.planning.timed_comparison import Comparison, Verdict

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.functional.pytorch import native as torch_native  # noqa: E402  # needs PyTorch
from tilewright.functional.pytorch import timing as torch_timing  # noqa: E402
from tilewright.nn import acceleration, replacements  # noqa: E402  # needs PyTorch

X = torch.randn(2, 6, 9, 10)


def depthwise(*kernels: int) -> Any:
    """A model with a depthwise layer for each size of kernel."""
    layers = [torch.nn.Conv2d(6, 6, size, padding=size // 2, groups=6) for size in kernels]
    return torch.nn.Sequential(*layers).eval()


@pytest.fixture
def made_up(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the comparisons of layers, by the width of their kernels, and of the model."""

    def use(layers: dict[int, Comparison], model: Comparison, eager: Comparison | None = None) -> None:
        monkeypatch.setattr(acceleration, "compared", lambda problem, *_: layers[problem.kernel[1]])
        monkeypatch.setattr(acceleration, "compare", lambda *given: eager if given[3] else model)
        monkeypatch.setattr(acceleration, "_keep", lambda *_: None)

    return use


class Loaded:
    """In the place of `Turns`, on a loaded machine: the works are seconds, and each run may take longer."""

    seed = 0

    def __init__(self, works: list[float], *_: Any) -> None:
        self.works = works
        self.times: list[list[float]] = [[] for _ in works]
        Loaded.seed += 1
        self.random = random.Random(Loaded.seed)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            for work, into in zip(self.works, self.times, strict=True):
                into.append(work * (1 + self.random.expovariate(5)) * self.random.choice([1, 1, 1, 2]))


@pytest.mark.parametrize("truth", [0.7, 0.97, 1.0, 1.03, 1.6])
def test_comparisons_on_a_loaded_machine_do_not_contradict_each_other(
    truth: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_timing, "Turns", Loaded)
    compare: Any = torch_timing.compare
    found = [compare([1.0, truth], False, margin=1.02) for _ in range(100)]
    verdicts = [each.verdict(1.02) for each in found]
    wrong = {Verdict.FASTER} if truth < 1 else {Verdict.SLOWER} if truth > 1 else {Verdict.FASTER, Verdict.SLOWER}
    assert sum(each in wrong for each in verdicts) <= 2
    assert {len(each.ours) for each in found} <= {32, 64, 128, 256, 512}
    if truth in (0.7, 1.6):
        assert verdicts.count(Verdict.CLOSE) <= 5


def test_five_runs_on_a_loaded_machine_decide_the_same(
    made_up: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers 3 to 9 take so many times as long by PyTorch."""
    truth = {3: 0.7, 5: 1.0, 7: 1.6}
    made_up({}, seconds(1.0, 1.1))
    monkeypatch.setattr(torch_timing, "Turns", Loaded)
    Loaded.seed = 0
    compare: Any = torch_timing.compare
    monkeypatch.setattr(
        acceleration, "compared", lambda problem, *_: compare([1.0, truth[problem.kernel[1]]], False, margin=1.02)
    )
    runs = [tw.accelerate(depthwise(*truth), X).rows for _ in range(5)]
    for rows in zip(*runs, strict=True):
        assert len({row.replaced for row in rows if not row.why.startswith("too close to call")}) <= 1
    assert not any(rows[0].replaced for rows in runs)
    assert any(rows[2].replaced for rows in runs)


def test_a_decision_within_the_spread_keeps_pytorchs(made_up: Callable[..., None]) -> None:
    wide = Comparison((1.0,) * 7, (*(1.3,) * 6, 0.8))
    made_up({3: wide, 5: seconds(1.0, 1.5), 7: seconds(1.5, 1.0)}, seconds(1.0, 1.2))
    done = tw.accelerate(depthwise(3, 5, 7), X)
    assert [row.replaced for row in done.rows] == [False, True, False]
    assert done.rows[0].why == 'too close to call; tune="quick" searches for a faster kernel'
    assert done.rows[2].why == 'PyTorch\'s is faster; tune="quick" searches for a faster kernel'
    assert done.rows[0].kept("PyTorch's is faster", "quick").why.endswith("; a larger tune= searches for longer")
    text = str(done)
    assert "0.80–1.30" in text
    assert "1 of 3 layers replaced; the model: 1200.000 ms before, 1000.000 ms after, 1.20 times as fast" in text


def test_a_model_within_the_spread_stays_as_it_was(made_up: Callable[..., None]) -> None:
    made_up({3: seconds(1e-3, 1.5e-3)}, Comparison((1.0,) * 7, (*(1.3,) * 6, 0.8)))
    model = depthwise(3)
    done = tw.accelerate(model, X)
    assert type(model[0]) is torch.nn.Conv2d
    assert done.rows[0].why == "faster, but the model is too close to call"
    assert "0 of 1 layers replaced" in str(done)


@pytest.mark.parametrize(
    ("row", "model", "said"),
    [
        (seconds(0.5, 1.0), seconds(1.2, 1.3), "by its layers, the model should be 1.62 times as fast"),
        (seconds(1.0, 3.0), seconds(1.0, 1.5), "its layers take longer than the model"),
        (seconds(0.5, 0.6), seconds(1.0, 1.1), ""),
        (seconds(1.0, 0.9), seconds(1.0, 1.0), ""),
    ],
)
def test_rows_that_contradict_the_model_mean_a_busy_machine(
    row: Comparison, model: Comparison, said: str, made_up: Callable[..., None]
) -> None:
    made_up({3: row}, model)
    text = str(tw.accelerate(depthwise(3), X))
    assert ("the machine is busy; run accelerate again" in text) == bool(said)
    assert said in text


def on_gpu(monkeypatch: pytest.MonkeyPatch, model: Callable[[int, bool], Comparison]) -> None:
    """Have the model measured as on a GPU; `model` gets the number of replaced layers, and whether the host counts."""

    def compare(works: Any, on_gpu: bool, sides: Any, eager: bool, margin: float) -> Comparison:
        return model(counted[-1]._active(), eager)

    counted: list[Any] = []

    class Counting(replacements.Acceleration):
        """It knows how many layers are ours at the moment."""

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            counted.append(self)

        def _active(self) -> int:
            return sum(isinstance(part, tw.nn.Conv2d) for part in self.model.modules())

    prove = acceleration._prove
    monkeypatch.setattr(acceleration, "Acceleration", Counting)
    monkeypatch.setattr(acceleration, "compare", compare)
    monkeypatch.setattr(
        acceleration, "_prove", lambda done, run, outcome, _, graph: prove(done, run, outcome, True, graph)
    )


def test_the_layers_that_gain_most_stay_if_others_only_cost_the_host(
    made_up: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each layer of ours saves time in a graph; without one, more than two of them make the model slower."""
    made_up({1 + 2 * at: seconds(1.0, 1.1 + 0.1 * at) for at in range(5)}, seconds(1.0, 1.0))
    on_gpu(
        monkeypatch,
        lambda ours, eager: seconds(1.1, 1.0) if eager and ours > 2 else seconds(1.0, 1.0 if eager else 1 + ours / 10),
    )
    model = depthwise(1, 3, 5, 7, 9)
    done = tw.accelerate(model, X)
    assert [row.replaced for row in done.rows] == [False, False, False, True, True]
    assert "cuda_graph=True leaves that time out" in done.rows[0].why
    assert "2 of 5 layers replaced" in str(done)
    assert done.run == seconds(1.0, 1.2)
    done.undo()
    assert all(type(layer) is torch.nn.Conv2d for layer in model)
    assert all(row.replaced for row in tw.accelerate(model, X, cuda_graph=True).rows)


def test_a_model_that_any_replacement_slows_down_stays(
    made_up: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up({3: seconds(1.0, 1.1), 5: seconds(1.0, 1.2)}, seconds(1.0, 1.0))
    on_gpu(monkeypatch, lambda ours, eager: seconds(1.1, 1.0) if eager else seconds(1.0, 1.3))
    model = depthwise(3, 5)
    done = tw.accelerate(model, X)
    assert not any(row.replaced for row in done.rows)
    assert all(type(layer) is torch.nn.Conv2d for layer in model)


def test_the_report_names_tf32(made_up: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls run PyTorch's kernels without it, so that a layer that PyTorch wins with it decides nothing about them."""
    kept: list[Any] = []
    made_up({3: seconds(2.0, 1.0), 5: seconds(1.0, 2.0)}, seconds(1.0, 1.1))
    monkeypatch.setattr(acceleration, "_keep", lambda plan, *_: kept.append(plan.problem.kernel))
    monkeypatch.setattr(replacements.Acceleration, "tf32", property(lambda _: True, lambda *_: None), raising=False)
    text = str(tw.accelerate(depthwise(3, 5), X))
    assert "PyTorch's float32 convolutions used TF32, as its settings allow" in text
    assert kept == [(5, 5)]


def test_settings_of_tf32_by_both_of_their_names() -> None:
    with torch_native._UNFROZEN():  # PyTorch's own testing tools forbid to set them
        _set_both_names()


def _set_both_names() -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32
    try:
        for value in (True, False):
            cudnn.allow_tf32 = value
            assert torch_native.allows_tf32() == value
            with torch_native.exact_convolutions():
                assert not torch_native.allows_tf32()
            assert cudnn.allow_tf32 == value
        if hasattr(cudnn, "conv"):
            cudnn.conv.fp32_precision = "tf32"  # and not that of recurrent layers: the older name is an error now
            assert torch_native.allows_tf32()
            with torch_native.exact_convolutions():
                assert cudnn.conv.fp32_precision == "ieee"
            assert cudnn.conv.fp32_precision == "tf32"
    finally:
        cudnn.allow_tf32 = before


class Named(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not followed
    """A model that takes its input by name, or as a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Conv2d(6, 6, 3, groups=6)

    def forward(self, pixel_values: Any = None, scale: float = 1.0) -> Any:
        """A dictionary as Hugging Face's models return it."""
        assert pixel_values is not None
        x = pixel_values["x"] if isinstance(pixel_values, dict) else pixel_values
        return {"logits": self.layer(x) * scale}


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((), {"pixel_values": X}),
        (({"pixel_values": X, "scale": 2.0},), {}),
        (({"x": X},), {}),
        ((X,), {"scale": 2.0}),
        (((X, 2.0),), {}),
        (([X],), {}),
    ],
    ids="named dictionary argument both tuple list".split(),
)
def test_samples_by_name(given: Any, named: Any, made_up: Callable[..., None]) -> None:
    made_up({3: seconds(1.0, 2.0)}, seconds(1.0, 2.0))
    done = tw.accelerate(Named().eval(), *given, **named)
    assert [row.replaced for row in done.rows] == [True]


def test_a_sample_is_needed() -> None:
    with pytest.raises(UserError, match=r"no sample is given.*\n.*accelerate\(model, pixel_values=x\)"):
        tw.accelerate(depthwise(3))
