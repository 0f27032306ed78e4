"""Alternative names of arguments of the public functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypedDict

from ...core.errors import UserError


class Named(TypedDict, total=False):
    """The alternative names: `input` is PyTorch's name of `x`."""

    input: Any


def named_input(function: Callable[..., Any], x: Any, named: Mapping[str, Any]) -> Any:
    """Return `x` of a call, which may be passed as `input`.

    Raises
    ------
    UserError
        If there is any other name, or both `x` and `input`.
    """
    for name in named:
        if name != "input":
            raise unknown(function, name)
    if x is not None:
        raise UserError(
            "x is given twice", primitive=function.__name__, fix="input is another name of x: leave one out"
        )
    return named["input"]


def unknown(function: Callable[..., Any], name: str) -> UserError:
    """Return the error of a call with an argument that the function does not have."""
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
    near = get_close_matches(name, known, 1)
    return UserError(
        f"there is no argument {name!r}",
        primitive=function.__name__,
        fix=f"did you mean {near[0]}?" if near else f"the arguments are {', '.join(known)}",
    )
