"""Conversion of public functions' arguments to the form of the operators registered with PyTorch, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import torch
from torch.compiler import assume_constant_result

from ....core.errors import UserError, warn_caller
from ....core.padding import PYTORCH_WORDS, padding_of
from ...arguments.activations import activation_name, custom
from ...arguments.call import OPERATORS, OperatorCall
from ...arguments.outputs import check_places
from ...arguments.problem import CONV
from ...planning.decision import Tune
from ..state import as_autocast, autocasts, untraced
from ..tensors import NAMES, check_types, signed


def numbers(value: Any, rank: int) -> list[int]:
    """Return an option as one number per dimension. Raise TypeError for anything else; `mistake` explains it to
    users."""
    each = list(value) if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(v, bool) for v in each):
        raise TypeError("not a number")
    found = [v if isinstance(v, (int, torch.SymInt)) else index(v) for v in each]
    return found * rank if len(found) == 1 else found


def padding(name: str, given: Any, covered: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Return a padding per side: before each dimension, then after each."""
    words = PYTORCH_WORDS if OPERATORS[name].op == CONV else ("valid",)
    return list(padding_of(name, given, covered, stride, words))


def activation_text(name: str, activation: Any, x: Any) -> str:
    """Return the representation of an activation in a graph."""
    if activation is None or isinstance(activation, str):
        return activation_name(name, activation) if activation else ""
    text: str = _remembered(name, activation, NAMES.get(x.dtype, ""))
    return text


@assume_constant_result  # type: ignore[untyped-decorator]  # PyTorch is not followed
def _remembered(name: str, activation: Any, dtype: str) -> str:
    return custom(name, activation, dtype)[1]


@assume_constant_result  # type: ignore[untyped-decorator]  # PyTorch is not followed
def warn_of_budget(name: str, tune: Tune) -> None:
    """Warn that a budget has no effect in a traced call: nothing runs that could be measured."""
    warn_caller(
        f"{name}: tune={tune!r} has no effect while PyTorch traces a call (torch.compile, torch.export, fake tensors): "
        "nothing runs that could be measured. Call it with tune= on tensors of these shapes before. Compiled "
        "programs then run the chosen kernel",
        UserWarning,
    )


def written(name: str, made: Any, out: Any) -> Any:
    """Copy a result into `out`, and return `out`. Unlike `copy_` alone, this neither broadcasts nor converts.

    Under autocast, `out` may have a type other than the result's.
    """
    with untraced():
        if made.shape != out.shape:
            raise UserError(
                f"out has the shape {tuple(out.shape)}, but the result {tuple(made.shape)}",
                primitive=name,
                fix=f"give out the shape {tuple(made.shape)}",
            )
    if made.dtype != out.dtype and not autocasts():
        raise UserError(
            f"out has the type {NAMES.get(out.dtype, str(out.dtype))}, and x has {NAMES[made.dtype]}",
            primitive=name,
            fix=f"convert out to {NAMES[made.dtype]}",
        )
    check_places(name, out.shape, out.stride(), "a tensor")
    return out.copy_(made)


def mistake(call: OperatorCall) -> UserError | None:
    """Return the error that an invalid call without gradients raises; None if the call is valid."""
    out = None if autocasts() else call.out  # under autocast, it may have another type: see `written`
    try:
        check_types(call)
        x, weight, bias, residual = as_autocast(call.arrays[:-1])
        with untraced():
            signed(OperatorCall(call.name, x, weight, bias, residual, out, call.options))
    except UserError as error:
        return error
    return None
