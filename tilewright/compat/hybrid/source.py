"""The text of a script: its syntax tree, the names around it, and the line of each part."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ...core.errors import UserError


class Source:
    """A Python function as text. `error` returns an error that names one of its lines."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not isinstance(function, FunctionType):
            raise UserError(
                f"{function!r} is not a Python function",
                primitive="hybrid.script",
                fix="put @te.hybrid.script above a def",
            )
        self.function = function
        self.file = inspect.getsourcefile(function) or function.__code__.co_filename
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise _unseen(function) from None
        try:
            module = ast.parse(textwrap.dedent("".join(lines)))
        except SyntaxError:
            module = ast.Module([], [])
        found = module.body[0] if len(module.body) == 1 else None
        if getattr(found, "name", "<lambda>") != function.__code__.co_name:  # Python found another text of that place
            raise _unseen(function)
        if not isinstance(found, ast.FunctionDef):
            raise UserError(
                f"{function.__name__!r} is not written as a def of its own",
                primitive="hybrid.script",
                fix="put @te.hybrid.script above a def; a lambda cannot hold statements",
            )
        self.tree: ast.FunctionDef = found
        self.first = first

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def where(self, node: ast.AST) -> str:
        """`file:line` of a part of the text."""
        return f"{self.file}:{self.first + getattr(node, 'lineno', 1) - 1}"

    def error(self, node: ast.AST, message: str, fix: str) -> UserError:
        """An error about a part of the text."""
        return LineError(f"{self.name}: {message}", fix, self.where(node))

    def outside(self, name: str) -> tuple[bool, Any]:
        """Whether a name is defined outside the function, in a closure, its module or Python itself; and its value."""
        free = self.function.__code__.co_freevars
        if name in free and self.function.__closure__ is not None:
            try:
                return True, self.function.__closure__[free.index(name)].cell_contents
            except ValueError:  # defined later
                return False, None
        scopes = (self.function.__globals__, vars(builtins))
        found = next((scope for scope in scopes if name in scope), None)
        return (False, None) if found is None else (True, found[name])


def _unseen(function: FunctionType) -> UserError:
    return UserError(
        f"the text of {function.__name__!r} cannot be found, and a script is read as text",
        primitive="hybrid.script",
        fix="define the function in a file, not with exec or in an interactive shell",
    )


class LineError(UserError):
    """A mistake in a script; it names the line at fault."""

    def __init__(self, message: str, fix: str, where: str) -> None:
        super().__init__(message, fix=fix, primitive="hybrid.script", where=where)

    def __reduce__(self) -> tuple[object, ...]:
        return LineError, (self.message, self.fix, self.where)
