"""Refusals: errors that a floor raises if Python, NumPy or an old script asks for something absent.

A floor reports the request and its object. The message and the replacement are in `compat/messages/`, which the
package's face hooks in. Without it, a refusal only names the request.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, NamedTuple, NoReturn, TypeVar

from .errors import UserAttributeError, UserError
from .other_paths import MOVED, path_in_scripts

T = TypeVar("T", bound=type)
ErrorFor = Callable[..., Exception]
"""Makes the error to raise from the request and its object."""

NAME = "name"
"""The subject of an absent name; other subjects are kinds of objects: "expression", "tensor", "array"."""
_modules_of_subjects: dict[str, str] = {}


def hook_in(subject: str, module: str) -> None:
    """Let the function `error_for` of a module make the errors about `subject`; it is imported when first needed."""
    _modules_of_subjects[subject] = module


def _maker_of(subject: str) -> ErrorFor | None:
    module = _modules_of_subjects.get(subject)
    found: ErrorFor | None = import_module(module).error_for if module else None
    return found


def refusal(subject: str, asked: str, *about: Any) -> Exception:
    """Make the error for a request `asked` of a `subject`: a protocol of Python's ("pow"), the object, its operands."""
    error_for = _maker_of(subject)
    return error_for(asked, *about) if error_for else TypeError(f"this {subject} does not support {asked}")


def refuses(subject: str, protocols: str) -> Callable[[T], T]:
    """Make a class refuse protocols of Python's, named without their underscores: `@refuses("tensor", "len iter")`."""

    def add_to(cls: T) -> T:
        for protocol in protocols.split():
            setattr(cls, f"__{protocol}__", _refusing(subject, protocol))
        return cls

    return add_to


def _refusing(subject: str, protocol: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *operands: Any, **options: Any) -> NoReturn:
        raise refusal(subject, protocol, self, *operands)

    return refuse


def missing(holder: str, name: str, known: Iterable[str], owner: object = None) -> Exception:
    """Make the error for `holder.name`, which has only the names `known`; `owner` is the object asked.

    It is an `AttributeError` too, so that `hasattr` and `getattr` with a default work.
    """
    error_for = None if name.startswith("__") else _maker_of(NAME)
    plain = AttributeError(f"{holder} has no attribute {name!r}", name=name, obj=owner)
    return error_for(holder, name, known) or plain if error_for else plain


def missing_from_module(module: str, name: str, known: Iterable[str]) -> Exception:
    """The same as `missing`, for a module of the package by its full name."""
    found = missing(module.partition(".")[2] or module, name, known)
    if isinstance(found, UserAttributeError):
        return found
    return AttributeError(f"module {module!r} has no attribute {name!r}")


class _OldNames(NamedTuple):
    """The function that finds objects by the names which they had in releases of the legacy API."""

    module: str
    function: str


_old_names: list[_OldNames] = []


def hook_in_old_names(module: str, function: str) -> None:
    """Let `module.function(holder, name)` find the value of `holder.name`; it is imported when first needed."""
    _old_names[:] = [_OldNames(module, function)]


def old_name(module: str, name: str, known: Iterable[str]) -> Any:
    """Return the object that had the name `module.name` in the legacy API, or the module that scripts import by it.

    Raises
    ------
    Exception
        If there is none: the error of `missing_from_module`.
    """
    folder = vars(sys.modules.get(module, sys)).get("__path__", ())
    if PathFinder.find_spec(f"{module}.{name}", folder):  # `from . import part` asks before it imports the part
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    module = path_in_scripts(module)
    if (path := f"{module}.{name}") in MOVED:
        return import_module(path)
    for hook in _old_names if not name.startswith("__") else ():
        found = getattr(import_module(hook.module), hook.function)(module, name)
        if found is not None:
            return found
    raise missing_from_module(module, name, known)


def not_made(what: str, fix: str) -> UserError:
    """Make the error for a class that is public to be asked for by `isinstance`, called with unsuitable arguments."""
    return UserError(f"{what} is not made of these arguments", primitive=what, fix=fix)
