"""Errors for missing parts, in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...core.errors import UserAttributeError, UserError
from ...core.other_paths import PACKAGE, path_in_scripts
from ..messages.names import advice, instead_of, nearly

LEGACY = "tvm"
OPERATORS = "topi"
GRAPHS = "nnvm"
"""The package of graphs that was distributed with the legacy package."""

_FACES = ("te", "tir", "topi", "autotvm", "nd", "target", "testing")


class _Missing(UserError):
    """Reports a missing part, and its replacement."""

    def __init__(self, part: str, where: str | None = None) -> None:
        super().__init__(sentence(part), fix=instead(part), where=where)
        self.part = part

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.part, self.where)


class MissingModule(_Missing, ImportError):
    """A part of the legacy API that Tilewright lacks was imported."""


class MissingAttribute(_Missing, AttributeError):
    """A part of the legacy API that Tilewright lacks was used."""


def sentence(name: str) -> str:
    """The error for a script that asks for the part of that name: "tvm.relay", "tvm.te.hybrid"."""
    return (
        f"{name} is not part of Tilewright: it covers tensor expressions and their schedules, for CUDA, OpenCL and "
        f"the CPU ({', '.join(_FACES)}, lower, build)"
    )


def instead(name: str) -> str:
    """The replacement of the part of that name."""
    holder, _, part = name.rpartition(".")
    found = instead_of(holder.partition(".")[2] or PACKAGE, part)
    return advice(found) if found else "see docs/legacy.md"


def misspelt(name: str, known: Iterable[str]) -> UserAttributeError | None:
    """The error for a name at the top level that resembles an existing name; None for other names."""
    return None if instead_of(PACKAGE, name) else nearly(PACKAGE, name, known)


def legacy_name(name: str) -> str:
    """A module's name as an old script spells it: "tilewright.te" is "tvm.te"."""
    head, dot, rest = path_in_scripts(name).partition(".")
    return f"{LEGACY}{dot}{rest}" if head == PACKAGE else name


def explain(error: BaseException) -> str | None:
    """The text of an error that needs no look at Tilewright's insides; None for every other."""
    if isinstance(error, UserError):
        return f"{type(error).__name__}: {error}"
    absent = _absent(error)
    return f"{type(error).__name__}: {_Missing(absent, where='')}" if absent else None


def _absent(error: BaseException) -> str | None:
    """The part that a script requested and our modules lack, as the script spells it."""
    if isinstance(error, ModuleNotFoundError):  # import tvm.te.hybrid
        return legacy_name(error.name) if error.name and _is_ours(error.name) else None
    # Only the message has the holder of the name: `name_from` exists since Python 3.12.
    if isinstance(error, ImportError):  # `from tvm.te import hybrid`
        found = re.match(r"cannot import name '(?P<name>\w+)' from '(?P<holder>[\w.]+)'", str(error))
    elif isinstance(error, AttributeError):  # te.hybrid
        found = re.match(r"module '(?P<holder>[\w.]+)' has no attribute '(?P<name>\w+)'", str(error))
    else:
        return None
    return f"{legacy_name(found['holder'])}.{found['name']}" if found and _is_ours(found["holder"]) else None


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in (PACKAGE, LEGACY)
