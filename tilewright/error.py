"""The error families, under the legacy API's module name."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.absent import absent_from_module as _absent
from .core.errors import InternalError, TVMError, UserError

__all__ = ["InternalError", "TVMError", "UserError"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _absent(__name__, name, globals())
