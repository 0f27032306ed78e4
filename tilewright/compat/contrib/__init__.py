"""Parts of the legacy API's `contrib` that scripts ask for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...core.refusals import old_name as _old_name

_MODULES = {**{name: name for name in ("cblas", "cc", "clang", "nvcc", "sort", "tedd", "utils")}, "util": "utils"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{_MODULES[name]}")
    return _old_name(__name__, name, _MODULES)
