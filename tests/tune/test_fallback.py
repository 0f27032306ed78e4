"""Fallback configurations: what a template gets where no log knows its workload."""

from __future__ import annotations

import pytest

from tests.tune import fakes
from tests.tune.test_records import pair
from tilewright import autotvm
from tilewright.autotvm.task.space import (
    AnnotateEntity,
    FallbackConfigEntity,
    OtherOptionEntity,
    ReorderEntity,
    SplitEntity,
)
from tilewright.error import UserError
from tilewright.target import Target


def declared(**splits):
    """A fallback with a split of each extent into three."""
    cfg = FallbackConfigEntity()
    for name, extent in splits.items():
        cfg.define_split(name, extent, num_outputs=3)
    cfg.define_knob("unroll", [0, 16])
    return cfg


@pytest.mark.parametrize(
    ("extent", "bounds", "gives"),
    [
        (128, [-1, 8, 4], [4, 8, 4]),
        (49, [-1, 8, 4], [7, 7, 1]),
        (12, [-1, -1, 5], [1, 3, 4]),
        (7, [-1, 1, 1], [7, 1, 1]),
    ],
)
def test_splits_within_bounds(extent, bounds, gives):
    cfg = declared(tile=extent)
    assert cfg.is_fallback
    cfg.fallback_split("tile", bounds)
    assert cfg["tile"].size == gives


def test_first_choices_unless_set():
    cfg = declared(tile=64)
    assert cfg["tile"].size == [-1, 1, 1]
    assert cfg["unroll"].val == 0
    cfg["tile"] = SplitEntity([-1, 2, 4])
    assert cfg["tile"].size == [-1, 2, 4]
    with pytest.raises(UserError, match="cannot fall back"):
        cfg.fallback_split("tile", [-1, 4])
    with pytest.raises(UserError, match="cannot fall back"):
        cfg.fallback_split("unroll", [-1, 4])


KNOBS = {
    "split": (SplitEntity([-1, 8]), lambda cfg, name: cfg.define_split(name, 64, num_outputs=2)),
    "candidates": (
        SplitEntity([8, 8]),
        lambda cfg, name: cfg.define_split(name, 64, policy="candidate", candidate=[[64, 1], [8, 8]]),
    ),
    "reorder": (ReorderEntity([1, 0]), lambda cfg, name: cfg.define_reorder(name, [1, 2], policy="all")),
    "annotate": (
        AnnotateEntity(["vec", "none"]),
        lambda cfg, name: cfg.define_annotate(name, [cfg.axis(4), cfg.axis(2)], policy="try_vec"),
    ),
    "value": (OtherOptionEntity(16), lambda cfg, name: cfg.define_knob(name, [0, 16])),
}


@pytest.mark.parametrize("kind", KNOBS)
def test_a_choice_that_is_set_before_its_knob_is_kept(kind):
    """As in v0.19, whose operators set their fallbacks before they define the knobs in another function."""
    choice, define = KNOBS[kind]
    cfg, untouched = FallbackConfigEntity(), FallbackConfigEntity()
    define(untouched, "knob")
    assert untouched["knob"] != choice
    cfg["knob"] = choice
    assert cfg["knob"] == choice
    for _ in range(2):  # a template called twice defines its knobs twice, in one fallback
        define(cfg, "knob")
        assert cfg["knob"] == choice
    assert list(cfg.space_map) == ["knob"]
    wrong = FallbackConfigEntity()
    wrong["knob"] = OtherOptionEntity(0) if kind != "value" else SplitEntity([1, 1])
    with pytest.raises(UserError, match="for the knob 'knob', which needs") as caught:
        define(wrong, "knob")
    assert "cfg['knob']" in caught.value.fix


def test_a_template_sets_its_fallback_first():
    @autotvm.template("tests/sets")
    def sets(n):
        cfg = autotvm.get_config()
        if cfg.is_fallback:
            cfg["x"] = SplitEntity([-1, 8, 4])
        cfg.define_split("x", n, num_outputs=3)
        seen.append(cfg["x"].size)
        return fakes.add.__wrapped__(n)

    seen = []
    with Target("opencl"):
        sets(1024)
        sets(1024)
    assert seen == [[-1, 8, 4], [-1, 8, 4]]


def test_a_log_of_other_sizes_is_imitated():
    @autotvm.template("tests/blocks")
    def blocks(n):
        s, args = fakes.add.__wrapped__(n)
        return s, args

    big = autotvm.task.create("tests/blocks", (4096,), "opencl")
    index = big.config_space.find(
        autotvm.ConfigEntity.from_json_dict(
            {"index": 0, "code_hash": None, "entity": [["x", "sp", [-1, 64, 4]], ["unroll", "ot", 1]]}
        )
    )
    cfg = FallbackConfigEntity()
    cfg.define_split("x", 96, num_outputs=3)
    cfg.define_knob("unroll", [0, 1])
    cfg.fallback_with_reference_log([pair(0, task=big), pair(index, task=big)])
    assert cfg["x"].size[1] <= 64
    nothing = declared(tile=64)
    nothing.fallback_with_reference_log([])
    assert nothing["tile"].size == [-1, 1, 1]


def test_templates_run_under_a_fallback_and_may_ask_for_it():
    asked = []

    @autotvm.template("tests/asks")
    def asks(n):
        cfg = autotvm.get_config()
        asked.append(cfg.is_fallback)
        cfg.define_split("x", n, num_outputs=3)
        if cfg.is_fallback:
            cfg.fallback_split("x", [-1, 64, 2])
        asked.append(cfg["x"].size)
        return fakes.add.__wrapped__(n)

    with Target("opencl"):
        asks(1024)
    assert asked == [True, [8, 64, 2]]
    task = autotvm.task.create("tests/asks", (1024,), "opencl")
    asked.clear()
    task.instantiate(task.config_space.get(5))
    assert asked[0] is False
    assert asked[1] == task.config_space.get(5)["x"].size


def test_silence(caplog):
    autotvm.GLOBAL_SCOPE.silent = True
    try:
        with Target("opencl"), caplog.at_level("WARNING", "autotvm"):
            fakes.add(32)
    finally:
        autotvm.GLOBAL_SCOPE.silent = False
    assert not caplog.records
