"""`tvm._ffi` and `tvm._ffi.base`: the names that scripts took from there."""

from __future__ import annotations

import sys

from ...error import TVMError
from ...runtime.packed import get_global_func, list_global_func_names, register_func, remove_global_func

ffi = base = registry = sys.modules[__name__]

__all__ = [
    "TVMError",
    "base",
    "ffi",
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "registry",
    "remove_global_func",
]
