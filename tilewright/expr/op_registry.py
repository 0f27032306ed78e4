"""Intrinsics that users declare, and rules by which a target spells intrinsics: `register_intrin_lowering`.

    register_op_attr("tir.mylog", "TCallEffectKind", tir.CallEffectKind.Pure)
    register_intrin_lowering("tir.mylog", target="cuda", f=lambda op: tir.call_pure_extern(op.dtype, "logf", *op.args))

A rule takes a call and returns an expression of its type, or the call itself, which then stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import UserError
from .effects import EFFECTS
from .nodes import Call, Expr

PREFIX = "tir."
RULE = "FLowerIntrinsic"
Rule = Callable[[Call], Any]


class CallEffectKind:
    """The side effects of a call, with the numbers of the legacy API."""

    ExprAnnotation, Pure, ReadState, UpdateState, SpecialCallArg, EmbedInfo, ControlJump = range(7)
    Opaque = UpdateState


@dataclass
class _Op:
    attrs: dict[str, tuple[int, Any]] = field(default_factory=dict)


_OPS: dict[str, _Op] = {}


def _name(op_name: Any, primitive: str) -> str:
    if not isinstance(op_name, str) or not op_name.startswith(PREFIX) or len(op_name) == len(PREFIX):
        raise UserError(
            f"{op_name!r} is not the name of an intrinsic",
            primitive=primitive,
            fix='names begin with "tir.": "tir.exp"',
        )
    return op_name.removeprefix(PREFIX)


def register_op_attr(op_name: Any, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Declare an intrinsic, or something about it.

    Parameters
    ----------
    op_name
        Its name, such as "tir.mylog"; `tir.call_intrin(dtype, "tir.mylog", x)` calls it from then on.
    attr_key, value
        "TCallEffectKind" says whether it has effects (`tir.CallEffectKind.Pure`: none), "<target>.FLowerIntrinsic" is
        a rule; others are kept. Without a value, the call returns a decorator.
    level
        If several values are registered, the highest level wins.

    Raises
    ------
    UserError
        For a name that is not one of an intrinsic, and for two values of one level.
    """
    name = _name(op_name, "register_op_attr")
    if not isinstance(attr_key, str):
        raise UserError(
            f"the attribute of {op_name} is called {attr_key!r}",
            primitive="register_op_attr",
            fix='give its name: "TCallEffectKind"',
        )
    if attr_key == "TCallEffectKind" and value is not None and not isinstance(value, int):
        raise UserError(
            f"TCallEffectKind of {op_name} is {value!r}, which is not an effect",
            primitive="register_op_attr",
            fix="give tir.CallEffectKind.Pure, or Opaque",
        )
    if value is None:
        return lambda made: register_op_attr(op_name, attr_key, made, level) and made
    known = _OPS.setdefault(name, _Op()).attrs
    before = known.get(attr_key)
    if before is not None and before[0] == level and before[1] is not value and before[1] != value:
        raise UserError(
            f"{op_name} has {attr_key} at level {level} already",
            primitive="register_op_attr",
            fix=f"register it at a higher level: level={level + 1}",
        )
    if before is None or before[0] <= level:
        known[attr_key] = (level, value)
        if attr_key == "TCallEffectKind":
            (EFFECTS.add if int(value) >= CallEffectKind.UpdateState else EFFECTS.discard)(name)
    return value


def register_intrin_lowering(op_name: Any, target: str, *, f: Rule | None = None, level: int = 10) -> Any:
    """Register how a target computes an intrinsic.

    Parameters
    ----------
    op_name
        The intrinsic, known ("tir.exp") or declared by `register_op_attr`.
    target
        "cuda", "opencl" or "llvm"; "default" for targets without their own rule.
    f
        The rule; without one, the call returns a decorator.
    level
        If several rules are registered for one target, the highest level wins.

    Raises
    ------
    UserError
        For a rule that is not a function.
    """
    name = _name(op_name, "register_intrin_lowering")
    if f is not None and not callable(f):
        raise UserError(
            f"the rule of {op_name} for {target} is {f!r}, which is not a function",
            primitive="register_intrin_lowering",
            fix="give a function of the call: lambda op: tir.call_pure_extern(op.dtype, 'logf', op.args[0])",
        )
    return register_op_attr(f"{PREFIX}{name}", f"{target}.{RULE}", f, level)


def is_declared(name: str) -> bool:
    """Whether an intrinsic of that name (without "tir.") is one that a user has declared."""
    return name in _OPS and "TCallEffectKind" in _OPS[name].attrs


def has_rules() -> bool:
    """Whether anything was registered at all."""
    return bool(_OPS)


def lowered(call: Expr, target: str) -> Expr:
    """The expression that a target computes: the result of the rule for a call that has one, else itself.

    Raises UserError for a declared intrinsic without a rule, and for a rule that returns no expression of the type.
    """
    if not isinstance(call, Call) or call.name not in _OPS:
        return call
    attrs = _OPS[call.name].attrs
    found = attrs.get(f"{target}.{RULE}") or attrs.get(f"default.{RULE}")
    if found is None:
        if "TCallEffectKind" not in attrs:
            return call
        raise UserError(
            f"the intrinsic {PREFIX}{call.name} has no rule for {target}",
            primitive="register_intrin_lowering",
            fix=f'register one: register_intrin_lowering("{PREFIX}{call.name}", target="{target}", f=rule)',
        )
    made = found[1](call)
    if made is None or made is call:
        return call
    if not isinstance(made, Expr) or made.dtype != call.dtype:
        raise UserError(
            f"the rule of {PREFIX}{call.name} for {target} returns {made!r} for `{call}`, of type {call.dtype}",
            primitive="register_intrin_lowering",
            fix="return an expression of the call's type, or the call itself",
        )
    return made
