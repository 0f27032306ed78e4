"""A decision stores the workload of its kernel: a 1×1 kernel has one for each order of its weights."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import (
    BACKWARD,
    CONV,
    GRADIENTS,
    POOLS,
    TRANSPOSED,
    WEIGHT_GRADIENT,
    Problem,
)
from tilewright.functional.planning import kernel_choice, rivals
from tilewright.functional.planning.compiler import (
    Selection,
    decision_of,
    default_selection,
    selection_of,
    strategies_of,
    weight_orders,
)
from tilewright.functional.planning.decision import Decision, Side
from tilewright.runtime.device import cpu

CUDA = Target("cuda -arch=sm_90")
POINTWISE = Problem(CONV, (8, 64, 14, 14), 128, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, "float16", "NHWC")


def _same_index() -> list[Selection]:
    """One configuration of each order of weights, of the same template and with the same index."""
    spaces: dict[str, list[tuple[Any, Any, Any]]] = {}
    for problem in weight_orders(POINTWISE, CUDA):
        strategies, workload = strategies_of(problem, CUDA)
        for template in strategies:
            spaces.setdefault(template.name, []).append((template, workload, template.strategy(CUDA).space(workload)))
    for found in spaces.values():
        if len(found) == 2:
            smaller = min(space.range_length for _, _, space in found)
            index = next(i for i in range(smaller) if all(space.is_index_valid(i) for _, _, space in found))
            return [Selection(template, workload, space.get(index), "") for template, workload, space in found]
    raise AssertionError("no template computes both orders")


def test_an_index_of_two_spaces_comes_back_as_its_own_workload() -> None:
    selections = _same_index()
    assert len({each.workload for each in selections}) == 2
    assert len({(each.template.name, each.config.index) for each in selections}) == 1
    for selection in selections:
        found = selection_of(POINTWISE, CUDA, decision_of(selection))
        assert found is not None
        assert (found.template, found.workload) == (selection.template, selection.workload)
        assert dict(found.config) == dict(selection.config)


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "llvm"])
@pytest.mark.parametrize("changed", [{}, {"kernel": (3, 3), "padding": (1, 1, 1, 1)}, {"layout": "NCHW"}])
def test_the_default_comes_back_from_its_decision(target: str, changed: dict[str, Any]) -> None:
    problem, on = POINTWISE._replace(**changed), Target(target)
    chosen = default_selection(problem, on)
    found = selection_of(problem, on, decision_of(chosen))
    assert found is not None
    assert (found.template, found.workload, found.config.index) == (
        chosen.template,
        chosen.workload,
        chosen.config.index,
    )


def test_a_decision_of_an_older_version_loads() -> None:
    chosen = default_selection(POINTWISE, CUDA)
    stored = decision_of(chosen)._asdict()
    del stored["weights"]
    assert Decision.read(stored).weights == ""
    for side, before in ((Side.OURS, "tilewright"), (Side.THEIRS, "framework")):
        assert Decision.read({**stored, "side": str(side)}).side is side
        assert (
            Decision.read({"how": before, **{key: each for key, each in stored.items() if key != "side"}}).side is side
        )
    selection_of(POINTWISE, CUDA, Decision(**stored))
    assert selection_of(POINTWISE, CUDA, Decision(**{**stored, "template": "topi/none"})) is None
    assert selection_of(POINTWISE, CUDA, Decision(**{**stored, "config_index": None})) is None


@pytest.mark.parametrize("undecided", [False, True])
def test_problems_that_no_strategy_computes_run_the_kernel_of_the_other_library(
    undecided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every operator on a CPU, with every result beside its own. Estimates may leave open whose kernel is faster."""
    monkeypatch.setattr(rivals, "is_undecided", lambda *_: undecided)
    monkeypatch.setattr(rivals, "reason_for_rival", lambda *_: "")
    theirs = set()
    operators = (CONV, TRANSPOSED, *GRADIENTS, BACKWARD, *POOLS)
    for op, bias, wide, layout, dtype in product(
        operators, *[(False, True)] * 2, ("NCHW", "NHWC"), ("float16", "float32")
    ):
        problem = POINTWISE._replace(
            op=op, filters=64, kernel=(3, 3), groups=64, bias=bias, wide=wide, layout=layout, dtype=dtype
        )
        if strategies_of(problem, Target("llvm"))[0]:
            assert default_selection(problem, Target("llvm")).config.index is not None
            continue
        choice, executable = kernel_choice.choose(problem, cpu(), "another library", None, 0.0)
        assert (choice.side, choice.why, executable) == (Side.THEIRS, "no strategy of ours computes it on llvm", None)
        for budget in (0.0, 1.0):
            with pytest.raises(UserError, match=r"no kernel of ours computes .* on llvm"):
                kernel_choice.choose(problem, cpu(), "", None, budget)
        theirs.add((op, bias))
    assert theirs == {(WEIGHT_GRADIENT, True), (BACKWARD, False), (BACKWARD, True)}
