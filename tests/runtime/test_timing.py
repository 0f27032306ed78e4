"""How many runs a measurement takes until it lasts as long as asked."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tilewright.runtime import cuda_graphs
from tilewright.runtime.cuda_graphs import GraphTimer
from tilewright.runtime.timing import TimingOptions, measure


def tried(each: Callable[[int], float], **options: Any) -> tuple[list[int], tuple[float, ...]]:
    """The numbers of runs that are tried where the n-th attempt takes `each(n)` seconds a run, and the results."""
    numbers: list[int] = []

    def seconds_of(number: int) -> float:
        numbers.append(number)
        return number * each(len(numbers))

    driver = SimpleNamespace(timer=lambda index, run, before: seconds_of)
    device: Any = SimpleNamespace(driver=driver, index=0, sync=lambda: None)
    result = measure(lambda: None, device, TimingOptions(**options))
    return numbers, result.results


def test_the_second_attempt_is_long_enough() -> None:
    numbers, results = tried(lambda _: 1e-4, number=4, min_repeat_ms=100)
    assert numbers == [4, 1031]
    assert results == (pytest.approx(1e-4),)


def test_runs_that_get_faster_do_not_cost_another_attempt() -> None:
    numbers, results = tried(lambda attempt: 1e-4 if attempt == 1 else 0.98e-4, number=4, repeat=3, min_repeat_ms=100)
    assert numbers == [4, 1031, 1031, 1031]
    assert results == (pytest.approx(0.98e-4),) * 3


def test_a_near_miss_is_made_up_for_and_no_more() -> None:
    numbers, _ = tried(lambda attempt: 1e-4 if attempt == 1 else 0.9e-4, number=4, repeat=2, min_repeat_ms=100)
    assert numbers[:2] == [4, 1031]
    assert numbers[2] * 0.9e-4 == pytest.approx(0.103, rel=0.01)
    assert numbers[3:] == [numbers[2]]


def test_what_is_far_off_grows_at_least_by_the_legacy_factor() -> None:
    numbers, _ = tried(lambda attempt: 1.0 if attempt == 1 else 1e-3, number=10, min_repeat_ms=100_000)
    assert numbers[1] == 104
    numbers, _ = tried(lambda attempt: 0.0, number=10, min_repeat_ms=1, limit_zero_time_iterations=3)
    assert numbers == [10, 17, 28, 46]


def test_a_function_that_takes_no_time_ends() -> None:
    """One without a kernel, by the clock of its kernels: a hundred attempts that grow would never end."""
    numbers, results = tried(lambda _: 0.0, number=10, repeat=2, min_repeat_ms=1)
    assert results == (0.0, 0.0)
    assert 10_000 <= max(numbers) < 20_000
    assert len(numbers) < 20


def test_without_a_least_time_one_attempt_is_enough() -> None:
    assert tried(lambda _: 1e-6, number=7, repeat=2)[0] == [7, 7]


@pytest.mark.parametrize(
    ("graphs", "each", "lead"),
    [
        ((256, 1), float("inf"), 1),  # of the first measurement nothing is known
        ((256, 1), 1e-6, 256),  # neither is long enough, but the longer one is longer
        ((4, 10, 256), 1e-4, 10),
        ((4, 10, 256), 1e-3, 4),
    ],
)
def test_a_gpu_is_kept_busy_until_what_is_timed_is_there(graphs: tuple[int, ...], each: float, lead: int) -> None:
    timer = SimpleNamespace(graphs=dict.fromkeys(graphs), each=each)
    assert GraphTimer._lead(timer) == lead  # type: ignore[arg-type]  # what it reads of one


def test_nothing_is_collected_while_a_graph_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collected array frees memory, which ends the capture of its thread."""
    calls: list[str] = []
    collects: list[bool] = []

    def call(name: str, *_: object) -> Any:
        calls.append(name)
        return len(calls)

    monkeypatch.setattr(cuda_graphs, "call", call)
    monkeypatch.setattr(cuda_graphs, "bindings", MagicMock())
    gpu = MagicMock()
    timer = GraphTimer(gpu, lambda: collects.append(gc.isenabled()), None)
    timer._graph(3)
    assert collects == [False, False, False]
    assert gc.isenabled()
    assert calls.index("cuStreamBeginCapture") < calls.index("cuStreamEndCapture") < calls.index("cuGraphInstantiate")
