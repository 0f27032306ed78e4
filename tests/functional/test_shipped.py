"""Records that ship: which layers have one, and when that of a near layer is taken."""

from __future__ import annotations

import pytest

from benchmarks.network_layers import layers
from benchmarks.networks import without_record
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import compiler, shipped
from tilewright.topi.templates import ALL, default_strategy
from tilewright.tune.records.log import load_from_file

CUDA = Target("cuda -arch=sm_90")
SUITED = Problem(CONV, (1, 96, 55, 55), 96, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 24, "float32", "NCHW")
DIVIDED_BADLY = Problem(CONV, (64, 83, 28, 28), 83, (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 83, "float16", "NHWC")
"""A layer nearby has blocks of 64 channels, of which the second one would have 19."""


def test_every_layer_of_the_networks_has_a_record() -> None:
    assert without_record(layers()) == []


def test_records_say_the_place_of_their_configurations_in_the_spaces_of_today() -> None:
    named = {template.name: template for template in ALL}
    for inp, _ in (pair for path in shipped.RECORDS.glob("*.log") for pair in load_from_file(path, [])):
        template = named[inp.task.name]
        space = template.strategy(CUDA).space(template.workload(inp.task.args))
        assert space.find(inp.config) == inp.config.index, f"{inp.task} {inp.config}"


def test_a_layer_of_a_record_takes_it() -> None:
    problem = Problem(CONV, (128, 576, 14, 14), 576, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 576, "float16", "NCHW")
    found = compiler.default_selection(problem, CUDA)
    assert (found.template.name, found.config["images"].val) == ("topi/depthwise.planes", 4)
    assert found.why.startswith("a record of this layer")


@pytest.mark.parametrize("name", ["topi/conv2d.wgmma", "topi/conv2d.mma", "topi/depthwise.direct"])
def test_a_dense_layer_without_a_record_takes_that_of_the_other_16_bit_type(name: str) -> None:
    """A layer with a record of its own takes that one, and a depthwise layer none of the other type."""
    template = next(each for each in ALL if each.name == name)
    logs = (path for path in shipped.RECORDS.glob("*.log") if not path.stem.endswith("epilogues"))
    inputs = [inp for path in logs for inp, _ in load_from_file(path, []) if inp.task.name == name]
    known = {str(template.workload(inp.task.args)): inp for inp in inputs}
    served = set()
    for inp in [inp for inp in inputs if "float16" in inp.task.args][::4]:
        of = template.workload(["bfloat16" if arg == "float16" else arg for arg in inp.task.args])
        found = shipped.record_of(template, of, CUDA)
        own = known.get(str(of))
        served.add((own is not None, found is not None))
        if found is not None:
            assert found.config.to_json_dict()["entity"] == (own or inp).config.to_json_dict()["entity"]
            assert ("in float16" in found.why) == (own is None)
    assert (False, "depthwise" not in name) in served
    assert (True, False) not in served
    assert (False, "depthwise" in name) not in served


def test_records_of_every_template_serve_near_layers() -> None:
    for template in ALL:
        records = (pair[0] for path in shipped.RECORDS.glob("*.log") for pair in load_from_file(path, []))
        args = next((inp.task.args for inp in records if inp.task.name == template.name), None)
        if args is None:
            continue
        near = template.workload([[*args[0][:-1], args[0][-1] + 1], *args[1:]])
        found = shipped.configuration(template, near, CUDA)
        assert found is None or template.strategy(CUDA).space(near).is_index_valid(found.config.index)


def test_a_record_of_a_near_layer_is_taken_where_it_suits() -> None:
    able, of = compiler.strategies_of(SUITED, CUDA)
    near = shipped.configuration(able[-1], of, CUDA)
    assert near is not None
    assert near.away > 0
    found = compiler.default_selection(SUITED, CUDA)
    assert found.why == near.why
    assert found.config.index == near.config.index


def test_tiles_of_a_near_layer_that_divide_this_one_badly_are_not_taken() -> None:
    able, of = compiler.strategies_of(DIVIDED_BADLY, CUDA)
    near = [found for template in able if (found := shipped.configuration(template, of, CUDA)) is not None]
    assert near
    assert compiler.recorded_selection(able, of, CUDA) is None
    found = compiler.default_selection(DIVIDED_BADLY, CUDA)
    template = default_strategy(able, of, CUDA)
    assert (found.template, found.config.index) == (template, template.default_config(of, CUDA).index)


@pytest.mark.parametrize("arch", ["sm_70", "sm_86", "sm_120"])
def test_a_record_of_another_architecture_counts_as_near_at_most(arch: str) -> None:
    """The model of the architecture agrees, or its own choice is the default; nothing was measured there."""
    target = Target(f"cuda -arch={arch}")
    for problem in (SUITED, *list(layers())[::60]):
        found = compiler.default_selection(problem, target)
        strategy = found.template.strategy(target)
        assert not found.measured
        assert strategy.needs.run_on(target)
        if "record" in found.why and "no tuned" not in found.why and strategy.own_model is not None:
            usual = strategy.default_config(found.workload)
            cycles = [strategy.expected(found.workload, each).cycles for each in (found.config, usual)]
            assert cycles[0] <= compiler.SUITS * cycles[1]
