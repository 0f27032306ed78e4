"""Records of the direct strategy from before a choice of a knob mean the same program wherever they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.topi.random_direct import CUDA, template_of
from tests.topi.test_direct import check, problem
from tilewright import autotvm, te
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import compiler
from tilewright.functional.planning.tuning import automatic
from tilewright.topi.templates import Conv2dLayer, Depthwise, Epilogue
from tilewright.topi.templates.layouts import in_layout
from tilewright.tune.records.format import decode
from tilewright.tune.space.config import Config

LAST = Depthwise.of((1, 8, 9, 10), 3, dtype="float16", layout="NHWC")
FIRST = Depthwise.of((1, 4, 9, 12), 3)
LAYERS = (
    LAST,
    FIRST,
    Depthwise.of((1, 4, 9, 12), 3, dtype="bfloat16"),
    Conv2dLayer.of((1, 8, 9, 10), 8, groups=2, layout="NHWC"),
)
TILE = {"tile_c": [4, 2], "tile_y": [2, 2], "tile_x": [2, 2], "chunk": 2, "window": "row"}


def line_of(of: Any, config: Config, index: int | None) -> str:
    """Return a line of a log that names a configuration, with an index of its time."""
    entity = [
        [name, "sp", [-1, *choice.size[1:]]] if hasattr(choice, "size") else [name, "ot", choice.data]
        for name, choice in config.items()
    ]
    made = {
        "input": ["cuda", template_of(of).name, of.args, {}],
        "config": {"index": index, "code_hash": None, "entity": entity},
        "result": [[1e-6], 0, 0.0, 0.0],
        "version": 0.2,
    }
    return json.dumps(made)


def index_before(of: Any, config: Config) -> int:
    """The index of a configuration when `order` and `whole_words` had one choice."""
    space = template_of(of).gpu.space(of)
    index, step = 0, 1
    for knob, place in zip(space.knobs, space.point(config.index), strict=True):
        if knob.name not in ("order", "whole_words"):
            index, step = index + place * step, step * len(knob.choices)
    return index


def test_a_record_that_names_all_knobs_is_found() -> None:
    template, wanted = template_of(LAST), {**TILE, "order": "stores", "resident": 3, "whole_words": 1}
    now = template.gpu.nearest(LAST, wanted)
    assert [now[name].val for name in ("order", "resident", "whole_words")] == ["stores", 3, 1]
    assert template.gpu.space(LAST).find(decode(line_of(LAST, now, now.index))[0].config) == now.index


def in_a_program(of: Any, log: Path, epilogue: Any, *reads: Any) -> tuple[Any, list[Any]]:
    """A program of one layer by the best configuration of a log."""
    x = te.placeholder(in_layout(of.layout, of.shape), of.dtype, "x")
    w = te.placeholder((of.filters, 1, *of.kernel), of.dtype, "w")
    layer = tw.autotvm.templates.depthwise
    with autotvm.apply_history_best(str(log)):
        y = layer.compute(x, w, epilogue=epilogue, target=CUDA, padding=1, layout=of.layout)
    s = te.create_schedule(y.op)
    layer.schedule(s, y)
    return s, [x, w, *reads, y]


@pytest.mark.parametrize(("window", "resident"), [("all", 1), ("sliding", 1), ("row", 2), ("row", 6), ("rolled", 1)])
def test_a_program_takes_the_configuration_of_an_older_log(window: str, resident: int, tmp_path: Path) -> None:
    """Not the one that has its index now, of which there may be none."""
    config = template_of(LAST).gpu.nearest(LAST, {**TILE, "window": window, "order": "terms", "resident": resident})
    assert (config["window"].val, config["resident"].val) == (window, resident)
    index = index_before(LAST, config)
    assert index != config.index
    log = tmp_path / "old.log"
    log.write_text(line_of(LAST, config, index) + "\n", encoding="utf-8")
    source = emulated(*in_a_program(LAST, log, None)).program.source
    assert f"__launch_bounds__(16, {resident}) " in source
    log.write_text(line_of(LAST, config, config.index) + "\n", encoding="utf-8")
    assert source == emulated(*in_a_program(LAST, log, None)).program.source


@emulates
@pytest.mark.parametrize("order", ["terms", "stores"])
def test_an_epilogue_of_a_program_reads_a_tensor_where_results_are(order: str, tmp_path: Path) -> None:
    """There are more sums than results, and no residual for them."""
    of = Depthwise.of((1, 4, 9, 10), 3)
    wanted = {"tile_c": [4, 1], "tile_y": [3, 2], "tile_x": [2, 4], "chunk": 2, "window": "row", "order": order}
    config = template_of(of).gpu.nearest(of, wanted)
    log = tmp_path / "now.log"
    log.write_text(line_of(of, config, config.index) + "\n", encoding="utf-8")
    residual = te.placeholder(of.out_shape, "float32", "residual")
    program = in_a_program(of, log, lambda v, *i: v + residual(*i), residual)
    (data, weights, added), right, allowed = problem(of, Epilogue(residual=True))
    with emulation():
        out = tw.nd.array(np.full(right.shape, np.nan, "float32"), tw.cuda())
        module = emulated(*program)
        module(*(tw.nd.array(each, tw.cuda()) for each in (data, weights.reshape(4, 1, 3, 3), added)), out)
        check(out.numpy(), right, allowed)
    assert "finished" not in module.program.source


def test_a_search_begins_with_a_shipped_record() -> None:
    layer = {"kernel": (31, 31), "stride": (1, 1), "padding": (15,) * 4, "dilation": (1, 1)}
    of = Problem(CONV, (32, 128, 56, 56), 128, *layer.values(), 128, "float16", "NHWC", bias=True, activation="relu")
    found = compiler.default_selection(of, CUDA)
    assert found.template.name == "topi/depthwise.direct"
    assert found.why.startswith("a record of this layer with an epilogue")
    task = found.template.task(found.workload, CUDA)
    strategy = automatic(task)
    begin = task.config_space.find(found.config)
    strategy.suggest([begin])
    (first,) = autotvm.tuner.Tuner(task, strategy).next_batch(1)
    assert first.index == begin
    assert {**found.config, "bias": None} == {**first, "bias": None}  # a search has no epilogue
