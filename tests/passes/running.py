"""Running passes on functions made by hand, for a target that has what most of them are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.core.options import DEFAULT_OPTIONS, Options
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.nodes import Function
from tilewright.passes.pass_list import Pass
from tilewright.passes.runner import PassRecord, finishing, run
from tilewright.transform import PassContext


def run_pass(step: Pass, function: Function, target: str = "cuda", options: Options = DEFAULT_OPTIONS) -> Function:
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


def compiled(s: Any, args: Sequence[Any], target: str = "cuda", without: Iterable[str] = ()) -> Function:
    """The function of a schedule as it is compiled for a target, verified after each of the later passes."""
    with PassContext(disabled_pass=list(without)):
        (function,) = lower_for(Target(target), s, args).functions
    return finish(function, target, check=True, without=without)
