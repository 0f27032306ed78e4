"""The error families, under the legacy API's module name."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.errors import InternalError, TVMError, UserError
from .core.refusals import missing_from_module as _missing

__all__ = ["InternalError", "TVMError", "UserError"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
