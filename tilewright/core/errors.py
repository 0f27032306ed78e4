"""The two error families, and the line of a mistake in the caller's own code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

from .text import printable

_HOUSE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames between the caller and us that belong to neither: generated code, `with` on a generator, imports.
_BETWEEN = ("<", contextlib.__file__, importlib.__file__)
_AS_USERS: set[str] = set()


def name_lines_of(*files: str) -> None:
    """Let errors name lines of these files of the package: they have schedules in the users' style."""
    _AS_USERS.update(files)


def _others() -> tuple[str, ...]:
    """Return the path prefixes of files that are not the caller's; PyTorch calls us if a caller uses a module of
    ours."""
    pytorch = getattr(sys.modules.get("torch"), "__file__", None)
    return (_HOUSE, *_BETWEEN, *((os.path.dirname(pytorch) + os.sep,) if pytorch else ()))


def caller_location() -> str:
    """`file:line` of the innermost frame that is the caller's, or of `name_lines_of`; not ours, nor PyTorch's."""
    frame, others = sys._getframe(1), _others()
    while frame is not None:
        name = frame.f_code.co_filename
        if name in _AS_USERS or not name.startswith(others):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]  # typeshed: f_back is Optional, the loop ends on None
    return ""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, as from the innermost line outside this package."""
    depth, frame, others = 2, sys._getframe(1), _others()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(others):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(printable(message), category, stacklevel=depth)


_remarks: ContextVar[list[str] | None] = ContextVar("remarks", default=None)


@contextlib.contextmanager
def keeping_remarks() -> Iterator[list[str]]:
    """Collect remarks on schedules, in a list, for a caller that did not write these schedules."""
    kept: list[str] = []
    token = _remarks.set(kept)
    try:
        yield kept
    finally:
        _remarks.reset(token)


def remark(message: str) -> None:
    """Warn the caller of how a schedule is built, or store the remark if remarks are being collected."""
    kept = _remarks.get()
    if kept is None:
        warn_caller(message, UserWarning)
    else:
        kept.append(message)


class TVMError(RuntimeError):
    """Base of every error, under the name that scripts of the legacy API catch."""


class Suspect(NamedTuple):
    """The schedule step that an error comes from: its primitive, and the objects it was applied to.

    `stages` are the names of stages that it was called on, or that it made. `axis` is the name of an axis and `tag` a
    hardware index among its arguments. Empty fields match anything.
    """

    primitives: tuple[str, ...]
    stages: tuple[str, ...] = ()
    axis: str = ""
    tag: str = ""


class UserError(TVMError):
    """A mistake in the caller's program: states the mistake, the values and the fix.

    `primitive` names the operation (`split`), `fix` the way out; `where` is the caller's line, found by itself. An
    error found after scheduling has `suspects`, which mark steps of the schedule. `naming` adds these `steps`.
    """

    def __init__(
        self,
        message: str,
        *,
        fix: str = "",
        primitive: str = "",
        where: str | None = None,
        suspects: tuple[Suspect, ...] = (),
        steps: tuple[str, ...] = (),
    ) -> None:
        message, fix, primitive = printable(str(message)), printable(str(fix)), printable(str(primitive))
        self.message = message
        self.fix = fix
        self.primitive = primitive
        self.where = caller_location() if where is None else where
        self.suspects = suspects
        self.steps = steps
        super().__init__(self._text())

    def _text(self) -> str:
        message, fix, primitive = self.message, self.fix, self.primitive
        lines = [f"{primitive}: {message}" if primitive else message]
        lines += [f"  step: {step}" for step in self.steps]
        if fix:
            lines.append(f"  fix: {fix}")
        if self.where:
            lines.append(f"  at:  {self.where}")
        return "\n".join(lines)

    def naming(self, steps: Iterable[str]) -> None:
        """Name the schedule steps that the error comes from."""
        self.steps = tuple(printable(step) for step in steps)
        self.args = (self._text(),)

    def __reduce__(self) -> tuple[object, ...]:
        return _remake, (type(self), self.message, self.fix, self.primitive, self.where, self.steps)


class UserTypeError(UserError, TypeError):
    """A mistake for which Python's own protocols (`int(x)`, `x ** 2`, `for y in x`) raise a `TypeError`."""


class UserValueError(UserError, ValueError):
    """A mistake for which the legacy API raises a `ValueError`, which scripts catch."""


class UserAttributeError(UserError, AttributeError):
    """A missing attribute; `hasattr` returns False for it."""


class AbsentDeviceError(UserError):
    """An error for a device that this machine lacks. A script that ends by it prints one line, and no traceback."""

    def __init__(self, message: str, **more: Any) -> None:
        super().__init__(message, **more)
        if sys.excepthook is sys.__excepthook__:  # no other hook is installed
            sys.excepthook = _one_line

    @property
    def line(self) -> str:
        """The error in one line."""
        return "; ".join(part for part in (f"{self.where}: {self.message}".removeprefix(": "), self.fix) if part)


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report the exception that ends the process: of an absent device, no line of the script is to blame."""
    if isinstance(error, AbsentDeviceError):
        print(error.line, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def _remake(
    cls: type[UserError], message: str, fix: str, primitive: str, where: str, steps: tuple[str, ...]
) -> UserError:
    return cls(message, fix=fix, primitive=primitive, where=where, steps=steps)


class InternalError(TVMError):
    """A broken promise between our own floors: a bug of ours, never of the caller's program."""
