"""Rules of Cast."""

from __future__ import annotations

from ...core.dtype import DType
from ...expr.nodes import Cast
from .pattern import match, numbers, rule, wild

(x,) = wild("x")
to, via = numbers("to via")


def keeps(source: DType, target: DType) -> bool:
    """Whether every value of the type `source` is a value of the type `target`."""
    if source == target or source.is_bool:
        return True
    if target.is_bool or source.lanes != target.lanes or "handle" in (source.kind, target.kind):
        return False
    if source.is_int:
        if target.is_int:
            return target.min_value <= source.min_value and source.max_value <= target.max_value
        return source.bits - (source.kind == "int") <= _DIGITS[target.scalar]
    return target.is_float and (source == target or (source.bits < target.bits))


_DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}

RULES = [
    rule(
        match(Cast, to, match(Cast, via, x)),
        lambda to, x: Cast(to, x),
        when=lambda via, x: keeps(x.dtype, via),
        domain="typed",
    ),
]
