"""The layers that strategies are compared on, and what is compiled of each."""

from __future__ import annotations

from benchmarks.networks import TARGET
from benchmarks.strategies import KINDS, drawn, programs_of, without_each
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning.compiler import strategies_of
from tilewright.topi.templates import default_strategy, named

STRATEGIES = [
    named(f"topi/{name}")
    for name in ("conv2d.grouped_rows", "depthwise.planes", "depthwise.lines", "conv_transpose.phases", "conv2d.window")
]


def test_each_kind_has_layers_of_its_strategy() -> None:
    for kind, strategy in zip(KINDS, STRATEGIES, strict=True):
        layers = list(drawn(kind, 12))
        assert len(set(layers)) > 9
        assert layers == list(drawn(kind, 12))
        assert sum(strategy in strategies_of(layer, TARGET)[0] for layer in layers) > 4


def test_the_loss_without_a_strategy_is_that_of_the_next_best() -> None:
    def line(**times: float) -> dict[str, list[dict[str, object]]]:
        return {"tried": [{"template": name[0], "us": us} for name, us in times.items()]}

    assert without_each([line(a=2.0, b=3.0, a2=1.5), line(a=4.0, b=1.0), line(a=1.0)]) == {
        "a": [2.0, 1.0],
        "b": [1.0, 4.0],
    }


def test_the_first_program_is_the_choice_without_records() -> None:
    of = Problem(CONV, (1, 8, 7, 16), 8, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 2, "float16", "NCHW")
    able, workload = strategies_of(of, TARGET)
    programs = programs_of(of, 1)
    assert programs[0][0].template == default_strategy(able, workload, TARGET).name
    assert {tried.template for tried, _ in programs} <= {template.name for template in able}
    assert len(programs) > 1
    assert any(expected for _, expected in programs)
