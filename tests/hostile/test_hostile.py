"""Hostile calls, modules and logs end in a value, an error of the user, or the user's own exception.

`make fuzz-api` runs more of them.
"""

from __future__ import annotations

import pytest

from tests.hostile.calls import LEFT_OUT, exported, surface
from tests.hostile.children import NoStartError, run
from tests.hostile.commands import lines

MODULES = 15
LOGS = 60


@pytest.mark.parametrize(
    ("kind", "count"), [("calls", len(surface())), ("commands", 2 * len(lines())), ("modules", MODULES), ("logs", LOGS)]
)
def test_hostile(kind: str, count: int) -> None:
    faults = [fault for fault in run(kind, seed=1, first=0, count=count) if fault is not None]
    assert not faults, "\n".join(map(str, faults))


def test_a_child_that_does_not_start_is_not_started_for_each_case() -> None:
    with pytest.raises(NoStartError, match="KeyError: 'nonsense'"):
        list(run("nonsense", seed=1, first=0, count=1000))


def test_the_surface_is_all_that_users_call() -> None:
    names = {name for name, _ in surface()}
    assert {"te.compute", "build", "stage.split", "schedule.cache_write", "nd.array", "topi.nn.conv2d"} <= names
    assert {
        "tuner.tune",
        "builder.for_range",
        "intrin.mma",
        "te.ComputeOp",
        "nd.Device",
        "te.decl_tensor_intrin",
    } <= names
    assert len(names) > 400


def test_what_no_case_calls_is_listed_with_a_reason() -> None:
    """Every public callable is called, or left out on purpose."""
    called = {name for name, _ in surface()}
    assert set(exported()) - called == set(LEFT_OUT) & set(exported())
    assert len(set(exported()) & called) > 600
    modules = {"tir.ir_builder", "accelerate", "nn"}
    assert set(LEFT_OUT) - modules <= set(exported())
