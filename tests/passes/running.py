"""Running passes on functions made by hand, for a target that has what most of them are for."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.core.options import USUAL, Options
from tilewright.core.target import Target
from tilewright.loops.nodes import Function
from tilewright.passes.pipeline import Pass
from tilewright.passes.runner import PassRecord, finishing, run


def run_pass(step: Pass, function: Function, target: str = "cuda", options: Options = USUAL) -> Function:
    """The function after one pass."""
    return step(function, Target(target), options)


def finish(
    function: Function,
    target: str = "cuda",
    records: list[PassRecord] | None = None,
    check: bool = False,
    without: Iterable[str] = (),
) -> Function:
    """A lowered function as it is compiled, without some of the optional passes; verified after each where `check`."""
    options = Options(disabled=frozenset(without))
    made = Target(target)
    return run(finishing(made, options), function, made, options, records, check)
