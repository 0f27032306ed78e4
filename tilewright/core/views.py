"""Views: methods of a lower floor's objects that only higher floors can implement, such as `s.explain()`.

Other functions of higher floors that lower ones call are views, too. The package's face, or that of a floor, hooks
them in; each is imported on its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .errors import InternalError

_views: dict[str, tuple[str, str]] = {}


def hook_in(name: str, module: str, function: str) -> None:
    """Let a function of a module make the view `name` from now on."""
    _views[name] = module, function


def view(name: str, *args: Any, **options: Any) -> Any:
    """Make a view."""
    if name not in _views:
        raise InternalError(f"nothing makes the view {name!r}: import tilewright, not one of its floors")
    module, function = _views[name]
    made: Callable[..., Any] = getattr(import_module(module), function)
    return made(*args, **options)
