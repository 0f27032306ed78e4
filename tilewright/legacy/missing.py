"""What Tilewright does not have, said in one line."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder

from ..core.errors import UserError
from ..messages.names import instead_of

PACKAGE = "tilewright"
LEGACY = "tvm"
OPERATORS = "topi"

_FACES = ("te", "tir", "topi", "autotvm", "nd", "target", "testing")


class _Missing(UserError):
    """Says that a part is missing; where it was asked for is the traceback's to say."""

    def __init__(self, part: str) -> None:
        super().__init__(sentence(part), where="")
        self.part = part

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.part,)


class MissingModule(_Missing, ImportError):
    """A part of the legacy API that Tilewright lacks was imported."""


class MissingAttribute(_Missing, AttributeError):
    """A part of the legacy API that Tilewright lacks was used."""


def sentence(name: str) -> str:
    """What to say when a script asks for the part of that name: "tvm.relay", "tvm.te.hybrid"."""
    folder = sys.modules[PACKAGE].__path__
    faces = [face for face in _FACES if PathFinder.find_spec(f"{PACKAGE}.{face}", folder)]
    return (
        f"{name} is not part of Tilewright: it covers tensor expressions and their schedules, for CUDA, OpenCL and "
        f"the CPU ({', '.join(faces)}, lower, build); " + (instead(name) or "see docs/legacy.md")
    )


def instead(name: str) -> str:
    """What to use in place of the part of that name; "" where nothing is known."""
    holder, _, part = name.rpartition(".")
    found = instead_of(holder.partition(".")[2] or PACKAGE, part)
    return f"instead, {found}" if found else ""


def legacy_name(name: str) -> str:
    """A module's name as an old script spells it: "tilewright.te" is "tvm.te"."""
    head, dot, rest = name.partition(".")
    return f"{LEGACY}{dot}{rest}" if head == PACKAGE else name


def explain(error: BaseException) -> str | None:
    """The text of an error that needs no look at Tilewright's insides; None for every other."""
    if isinstance(error, UserError):
        return f"{type(error).__name__}: {error}"
    absent = _absent(error)
    return f"{type(error).__name__}: {sentence(absent)}" if absent else None


def _absent(error: BaseException) -> str | None:
    """The part that a script asked one of our modules for in vain, as the script spells it."""
    if isinstance(error, ModuleNotFoundError):  # import tvm.te.hybrid
        return legacy_name(error.name) if error.name and _is_ours(error.name) else None
    # The holder of the name stands in the message alone (`name_from` is there from Python 3.12 on).
    if isinstance(error, ImportError):  # from tvm.te import hybrid
        found = re.match(r"cannot import name '(?P<name>\w+)' from '(?P<holder>[\w.]+)'", str(error))
    elif isinstance(error, AttributeError):  # te.hybrid
        found = re.match(r"module '(?P<holder>[\w.]+)' has no attribute '(?P<name>\w+)'", str(error))
    else:
        return None
    return f"{legacy_name(found['holder'])}.{found['name']}" if found and _is_ours(found["holder"]) else None


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in (PACKAGE, LEGACY)
