"""Tensors and the operations that define them, reductions, and a NumPy reference."""

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
