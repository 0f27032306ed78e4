"""Questions about programs, under the legacy API's names."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..loops.analysis import (
    calculate_workspace_bytes,
    expr_deep_equal,
    undefined_vars,
    verify_gpu_code,
    verify_memory,
    verify_ssa,
)

__all__ = [
    "calculate_workspace_bytes",
    "expr_deep_equal",
    "undefined_vars",
    "verify_gpu_code",
    "verify_memory",
    "verify_ssa",
]

__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
