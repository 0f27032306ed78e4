"""The layers that strategies are compared on, and what is compiled of each."""

from __future__ import annotations

from benchmarks.networks import TARGET
from benchmarks.strategies import KINDS, drawn, programs_of
from tilewright.functional.compiler import strategies_of
from tilewright.functional.problem import CONV, Problem
from tilewright.topi.templates import cheapest, named

CONV2D_ROWS = named("topi/conv2d.grouped_rows")
DEPTHWISE_PLANES = named("topi/depthwise.planes")


def test_each_kind_has_layers_of_its_strategy() -> None:
    for kind, strategy in zip(KINDS, (CONV2D_ROWS, DEPTHWISE_PLANES), strict=True):
        layers = list(drawn(kind, 12))
        assert len(set(layers)) > 9
        assert layers == list(drawn(kind, 12))
        assert sum(strategy in strategies_of(layer, TARGET)[0] for layer in layers) > 6


def test_the_first_program_is_the_choice_without_records() -> None:
    of = Problem(CONV, (1, 8, 7, 16), 8, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 2, "float16", "NCHW")
    able, workload = strategies_of(of, TARGET)
    programs = programs_of(of, 1)
    assert programs[0][0].template == cheapest(able, workload, TARGET).name
    assert {tried.template for tried, _ in programs} <= {template.name for template in able}
    assert len(programs) > 1
    assert any(expected for _, expected in programs)
