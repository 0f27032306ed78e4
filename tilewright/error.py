"""The error families, under the legacy API's module name."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.errors import InternalError, TVMError, UserError
from .core.refusals import old_name as _old_name

__all__ = ["InternalError", "TVMError", "UserError"]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
