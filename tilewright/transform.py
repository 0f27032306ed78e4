"""Options of compilation under the legacy API's names: `with transform.PassContext(config={...}):`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.absent import absent_from_module as _absent
from .passes.context import PassContext

__all__ = ["PassContext"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _absent(__name__, name, __all__)
