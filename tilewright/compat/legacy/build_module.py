"""`tvm.build_module` of 2017 to 2019: options of `lower` and `build` by `with tvm.build_config(...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import UserError
from ...core.other_paths import PACKAGE
from ...core.refusals import old_name
from ...driver import build as build
from ...driver import lower as lower
from ...loops.nodes import Function
from ...passes.context import PassContext

BuildConfig = PassContext

_UNROLLING = {
    "auto_unroll_max_step": "auto_max_step",
    "auto_unroll_max_depth": "auto_max_depth",
    "auto_unroll_max_extent": "auto_max_extent",
    "unroll_explicit": "explicit_unroll",
}
_KEYS = {
    "detect_global_barrier": "tir.detect_global_barrier",
    "partition_const_loop": "tir.LoopPartition",
    "restricted_func": "tir.noalias",
    "double_buffer_split_loop": "tir.InjectDoubleBuffer",
    "dump_pass_ir": "tilewright.explain",
    "instrument_bound_checkers": "tir.instrument_bound_checkers",
    "disable_vectorize": "tir.disable_vectorize",
    "disable_assert": "tir.disable_assert",
}
"""Options, and the keys of a `PassContext` that mean the same."""
_BUFFERS = ("offset_factor", "data_alignment", "disable_select_rewriting")
"""Options without effect: a buffer is declared with its own offset and alignment, and reads are guarded either way."""


def build_config(**options: Any) -> PassContext:
    """Return options of `lower` and `build` for a `with` statement, under their names of 2017 to 2019.

    Parameters
    ----------
    **options
        `auto_unroll_max_step`, `unroll_explicit`, `add_lower_pass` ((phase, function of a statement) pairs),
        `dump_pass_ir` (prints each pass that changes something), `instrument_bound_checkers`, `disable_vectorize`,
        `restricted_func`, `detect_global_barrier`. `offset_factor` and `data_alignment` are accepted: buffers have
        their own. `partition_const_loop` and `double_buffer_split_loop` have no effect, and draw a warning.

    Raises
    ------
    UserError
        For any other option, and for values that `PassContext` refuses.
    """
    config: dict[str, Any] = {}
    for name, value in options.items():
        if name in _UNROLLING:
            config.setdefault("tir.UnrollLoop", {})[_UNROLLING[name]] = value
        elif name == "add_lower_pass":
            config["tir.add_lower_pass"] = [_on_functions(pair) for pair in value or ()]
        elif name in _KEYS:
            config[_KEYS[name]] = value
        elif name not in _BUFFERS:
            known = ", ".join((*_UNROLLING, "add_lower_pass", *_KEYS, *_BUFFERS))
            raise UserError(f"there is no option {name!r}", primitive="build_config", fix=f"use {known}")
    return PassContext(config=config)


def current_build_config() -> PassContext:
    """Return the options of the innermost `with` statement around the caller, or the default ones."""
    return PassContext.current()


def _on_functions(pair: Any) -> Any:
    """Return (phase, pass of a function) for (phase, pass of a statement); other values are left to `PassContext`."""
    if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and callable(pair[1])):
        return pair
    step: Callable[[Any], Any] = pair[1]

    def run(function: Function) -> Function:
        return function.with_body(step(function.body))

    run.__name__ = getattr(step, "__name__", "pass")
    return pair[0], run


def __getattr__(name: str) -> Any:
    return old_name(f"{PACKAGE}.build_module", name, globals())
