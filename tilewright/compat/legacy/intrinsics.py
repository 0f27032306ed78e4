"""Rules of intrinsics as scripts of 2017 to 2019 register them, and the names of types at the top level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import UserError
from ...expr.intrinsics import TABLE
from ...expr.op_registry import CallEffectKind, is_declared, register_intrin_lowering, register_op_attr

float32, int32, int8, handle = "float32", "int32", "int8", "handle"

_SHIPPED_LEVEL = 10
"""The level of the rules that releases of the legacy API had registered, which `override` was for."""
_levels: dict[tuple[str, str], int] = {}


def register_intrin_rule(
    target: str, intrin: str, f: Callable[[Any], Any] | None = None, override: bool = False
) -> Any:
    """Register how a target computes an intrinsic, and declare the intrinsic if it is new.

    Parameters
    ----------
    target
        "cuda", "opencl" or "llvm"; "default" for targets without their own rule.
    intrin
        The intrinsic's name, such as "exp".
    f
        The rule: a function of the call. Without one, the call returns a decorator.
    override
        Whether the rule replaces an earlier one.

    Raises
    ------
    UserError
        If another rule is registered and `override` is not given.
    """
    if f is None:
        return lambda made: register_intrin_rule(target, intrin, made, override) and made
    if not isinstance(intrin, str) or not intrin:
        raise UserError(
            f"{intrin!r} is not the name of an intrinsic", primitive="register_intrin_rule", fix='give one: "exp"'
        )
    name = f"tir.{intrin.removeprefix('tir.')}"
    level = _levels.get((target, name), _SHIPPED_LEVEL)
    if (target, name) in _levels and not override:
        raise UserError(
            f"{intrin!r} has a rule for {target}", primitive="register_intrin_rule", fix="give override=True"
        )
    if intrin not in TABLE and not is_declared(intrin):
        register_op_attr(name, "TCallEffectKind", CallEffectKind.Pure)
    _levels[target, name] = level + 1
    return register_intrin_lowering(name, target, f=f, level=level + 1)
