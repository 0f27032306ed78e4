"""Calls with a budget of tuning: what they find is right, kept, and not searched for again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.decided import decided
from tests.functional import direct
from tests.tune.fakes import FakeMeasurer
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.functional.planning import compiler, plans, tuning
from tilewright.functional.planning.compiler import Selection
from tilewright.functional.planning.prepared_calls import PreparedCalls
from tilewright.runtime.thread_pool import num_threads, set_num_threads
from tilewright.topi.templates import Depthwise, named
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.run import Run

DEPTHWISE = named("topi/depthwise")


@pytest.fixture(autouse=True)
def _ours(tmp_path: Path) -> Iterator[None]:
    with decided("ours", tmp_path / "kernels", keeps_measured=True):
        yield


def test_a_budget_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)  # whatever else the machine does, the first batch is measured
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 9, 9), "float32"), rng.standard_normal((4, 1, 3, 3), "float32")
    wanted = direct.conv(x, w, None, 1, ((1, 1), (1, 1)), 1, 4)
    found = tw.depthwise_conv2d(x, w, padding=1, tune=0.5)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert "measured, the best of" in str(tw.explain_call(tw.depthwise_conv2d, x, w, padding=1, tune=0.5))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the layer is known already")

    monkeypatch.setattr(tuning, "tuned", never)
    np.testing.assert_allclose(tw.depthwise_conv2d(x, w, padding=1, tune=0.5), wanted, rtol=1e-4, atol=1e-4)


def test_a_budget_where_gradients_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    budgets, search = [], tuning.tuned

    def counted(*given: Any) -> Any:
        budgets.append(given[-1])
        return search(*given)

    monkeypatch.setattr(tuning, "tuned", counted)
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)
    x, w = torch.randn(1, 5, 11, 9), torch.randn(5, 1, 3, 3, requires_grad=True)
    for _ in range(2):
        found = tw.conv2d(x, w, padding=1, groups=5, tune=0.5)
        torch.testing.assert_close(found, torch.nn.functional.conv2d(x, w, padding=1, groups=5), atol=1e-4, rtol=1e-4)
    assert found.requires_grad
    assert budgets == [0.5], "the first call tunes, and the second one knows the layer"
    with pytest.raises(UserError, match="tune is 'slow', which is not a budget"):
        tw.conv2d(x, w, padding=1, groups=5, tune="slow")


@pytest.mark.parametrize(
    ("tune", "seconds"), [(None, 0), ("quick", 5), (30, 30), (0.5, 0.5), ("30s", 30), ("2m", 120), ("1.5", 1.5)]
)
def test_budgets_are_seconds_or_text(tune: Any, seconds: float) -> None:
    assert plans.seconds_of_tune(tune) == seconds


@pytest.mark.parametrize("tune", ["slow", "0s", "-1s", 0, -1, True, float("nan"), (5,)])
def test_other_budgets_are_refused(tune: Any) -> None:
    with pytest.raises(UserError, match="which is not a budget"):
        plans.seconds_of_tune(tune)


def arrays_of(library: str) -> Callable[[np.ndarray], Any]:
    """What makes an array of a library; "gradients" are of PyTorch, and record what is done to them."""
    if library == "numpy":
        return lambda a: a
    if library == "tilewright":
        return lambda a: tw.nd.array(a)
    pytest.importorskip("torch", reason="PyTorch is not installed")
    torch = import_module("torch")
    return lambda a: torch.from_numpy(a).requires_grad_(library == "gradients")


@pytest.fixture
def _heeds_ctrl_c() -> Iterator[None]:
    """Shells start what runs in the background so that Ctrl-C does not reach it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have Ctrl-C pressed after so many measured configurations of a search."""
    seen: list[object] = []
    hear = Run.hear

    def interrupted(self: Any, index: int, outcome: Any) -> Any:
        trial = hear(self, index, outcome)
        seen.append(trial)
        if len(seen) == after:
            signal.raise_signal(signal.SIGINT)
        return trial

    monkeypatch.setattr(Run, "hear", interrupted)


@pytest.mark.usefixtures("_heeds_ctrl_c")
@pytest.mark.parametrize("library", ["numpy", "gradients"])
def test_ctrl_c_reaches_the_caller_and_the_best_so_far_is_kept(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, name = arrays_of(library), "conv2d"
    batch = {"numpy": 1, "gradients": 2}[library]
    rng = np.random.default_rng(0)
    x, w = made(rng.standard_normal((batch, 6, 13, 10), "float32")), made(rng.standard_normal((6, 1, 3, 3), "float32"))
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)
    searches, search = [], tuning.tuned

    def counted(*given: Any) -> Any:
        searches.append(given)
        return search(*given)

    def explained() -> str:
        return tw.explain_call(name, x, w, padding=1, groups=6)

    monkeypatch.setattr(tuning, "tuned", counted)
    usual = tw.conv2d(x, w, padding=1, groups=6)
    with monkeypatch.context() as patch:
        interrupt(patch, after=3)
        with pytest.raises(KeyboardInterrupt):
            tw.conv2d(x, w, padding=1, groups=6, tune=600)
    assert len(searches) == 1
    said = explained()
    assert "Ctrl-C ended the search" in said
    plans.forget()
    kept = explained()
    assert kept.partition("origin:")[0] == said.partition("origin:")[0]
    assert "off the disk" in kept

    found = tw.conv2d(x, w, padding=1, groups=6, tune=0.5)
    assert len(searches) == 2, "a search that was ended goes on with the next call that has a budget"
    assert searches[1][-2].tuned >= 3
    assert "Ctrl-C" not in explained()
    np.testing.assert_allclose(*(getattr(a, "detach", lambda a=a: a)() for a in (found, usual)), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("_heeds_ctrl_c")
def test_ctrl_c_before_anything_is_measured_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = np.ones((1, 6, 14, 10), "float32"), np.ones((6, 1, 3, 3), "float32")
    before = tw.explain_call("conv2d", x, w, groups=6)

    def pressed(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(LayerSearch, "go", pressed)
        with pytest.raises(KeyboardInterrupt):
            tw.conv2d(x, w, groups=6, tune=0.5)
    assert tw.explain_call("conv2d", x, w, groups=6) == before
    plans.forget()
    assert tw.explain_call("conv2d", x, w, groups=6).splitlines()[:-1] == before.splitlines()[:-1]


@pytest.mark.usefixtures("_heeds_ctrl_c")
def test_ctrl_c_after_the_search_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    made = arrays_of("torch")
    x, w = made(np.ones((1, 6, 15, 10), "float32")), made(np.ones((6, 1, 3, 3), "float32"))
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)

    def pressed(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(tuning, "compared", pressed)
    with pytest.raises(KeyboardInterrupt):
        tw.conv2d(x, w, groups=6, tune=0.5)
    said = tw.explain_call("conv2d", x, w, groups=6)
    assert "measured, the best of" in said
    assert "Ctrl-C ended the search" in said


@pytest.mark.parametrize("library", ["numpy", "tilewright", "torch", "gradients", "compiled"])
def test_calls_without_a_budget_use_what_a_later_search_found(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds a kernel that can be told from the usual one: it computes relu, too."""
    made = arrays_of("torch" if library == "compiled" else library)
    rows = 20 + len(library)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((1, 6, rows, 10), "float32"), rng.standard_normal((6, 1, 3, 3), "float32")
    x, w = made(a), made(b)

    def found(problem: Any, on: Any, target: Any, *_: Any) -> Any:
        usual = compiler.default_selection(problem, target)
        relu = compiler.epilogue_of(problem._replace(activation="relu"), None)
        return compiler.decision_of(usual)._replace(tuned=1), compiler.compiled(usual, target, relu)

    def call() -> Any:
        return tw.conv2d(x, w, groups=6)

    if library == "compiled":
        call = import_module("torch").compile(call, backend="aot_eager")
    monkeypatch.setattr(tuning, "tuned", found)
    wanted = direct.conv(a, b, groups=6)
    for _ in range(3):
        close(call(), wanted)
    assert float(wanted.min()) < 0
    close(tw.conv2d(x, w, groups=6, tune=0.5), wanted.clip(0))
    for _ in range(3):
        close(call(), wanted.clip(0))


def close(found: Any, wanted: np.ndarray) -> None:
    """Whether an array of any library has these values."""
    values = found.numpy() if hasattr(found, "asnumpy") else getattr(found, "detach", lambda: found)()
    np.testing.assert_allclose(values, wanted, rtol=1e-4, atol=1e-4)


def test_a_search_of_another_process_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = np.ones((1, 6, 12, 17), "float32"), np.ones((6, 1, 3, 3), "float32")
    tw.conv2d(x, w, groups=6)
    (plan,) = [plan for plan in plans._plans.values() if plan.problem.shape == x.shape]
    choice = plan.choice._replace(tuned=1, why="measured by another process")
    plans._keep(plan._replace(choice=choice, threads=num_threads()), "")
    monkeypatch.setattr(tuning, "tuned", None)
    tw.conv2d(x, w, groups=6, tune=0.5)
    assert "measured by another process" in tw.explain_call("conv2d", x, w, groups=6)


def test_what_was_prepared_before_a_change_is_not_kept() -> None:
    calls = PreparedCalls()
    before = calls.version
    calls.drop()
    calls.keep("old", print, before)
    calls.keep("new", print, calls.version)
    assert list(calls) == ["new"]


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_measured_decision_counts_for_its_number_of_threads(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = arrays_of(library)
    x, w = made(np.ones((1, 6, 12, 18), "float32")), made(np.ones((6, 1, 3, 3), "float32"))
    has, use = num_threads, set_num_threads
    if library == "torch":
        torch = import_module("torch")
        has, use = torch.get_num_threads, torch.set_num_threads

    def found(problem: Any, on: Any, target: Any, epilogue: Any, *_: Any) -> Any:
        usual = compiler.default_selection(problem, target)
        choice = compiler.decision_of(usual)._replace(tuned=1, why=f"measured with {has()} threads")
        return choice, compiler.compiled(usual, target, epilogue)

    def reason(threads: int, tune: float | None = None) -> str:
        """Why a process with so many threads chooses what it runs."""
        use(threads)
        plans.forget()
        lines = tw.explain_call("conv2d", x, w, groups=6, tune=tune).splitlines()
        return next(line for line in lines if line.startswith("because"))

    monkeypatch.setattr(tuning, "tuned", found)
    before = has()
    try:
        usual = reason(1)
        assert "measured" not in usual
        assert reason(2, tune=0.5) == "because: measured with 2 threads"
        assert [reason(number) for number in (1, 2, 3)] == [usual, "because: measured with 2 threads", usual]
        use(3)
        tw.conv2d(x, w, groups=6, tune=0.5)
        assert reason(3) == "because: measured with 3 threads"
    finally:
        use(before)
        plans.forget()


@pytest.mark.parametrize("how", ["compile", "pool", "export", "fake"])
def test_a_budget_has_no_effect_where_pytorch_traces(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = arrays_of("torch")
    torch = import_module("torch")
    x, w = made(np.ones((1, 6, 9, 11), "float32")), made(np.ones((6, 1, 3, 3), "float32"))
    monkeypatch.setattr(tuning, "tuned", None)

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return tw.conv2d(x, w, groups=6, tune=600) if how != "pool" else tw.max_pool2d(x, 2, tune=600)

    def result() -> tuple[int, ...]:
        if how == "export":
            return tuple(torch.export.export(Model(), (x,), strict=False).module()(x).shape)
        if how == "fake":
            with import_module("torch._subclasses").FakeTensorMode(allow_non_fake_inputs=True) as mode:
                return tuple(Model()(mode.from_tensor(x)).shape)
        return tuple(torch.compile(Model(), backend="aot_eager", fullgraph=True)(x).shape)

    name, shape = ("max_pool2d", (1, 6, 4, 5)) if how == "pool" else ("conv2d", (1, 6, 7, 9))
    with pytest.warns(UserWarning, match=f"{name}: tune=600 has no effect while PyTorch traces a call"):
        found = result()
    assert found == shape


def test_a_search_returns_what_it_began_with_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells kernels without an epilogue apart, and a configuration says what one with a bias does to it as well."""
    of, cuda = Depthwise.of((1, 256, 21, 21), dtype="bfloat16"), Target("cuda")
    template = next(each for each in DEPTHWISE.strategies if each.name == "topi/depthwise.planes")
    held = template.gpu.nearest(of, {"planes": 2, "rows": 7, "bias": "held"})
    index = template.gpu.nearest(of, {"planes": 2, "rows": 7}).index
    measurer = FakeMeasurer(lambda i: 1e-3 if i == index else 2e-3, "Fake 1", "cuda")
    monkeypatch.setattr(tuning, "local_session", lambda *_: nullcontext(measurer))
    monkeypatch.setattr(tuning, "UNLIMITED_TRIALS", 9)
    found = tuning._searched([[Selection(template, of, held, "")]], cuda, 600.0)
    assert held["bias"].val == "held"
    assert index in measurer.asked[:8], "the default is in the first batch"
    assert found.best is not None
    assert found.best.config is held
    assert "the best of 9 configurations" in found.best.why
