"""Options of compilation under the legacy API's names: `with transform.PassContext(config={...}):`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.refusals import missing_from_module as _missing
from .passes.context import PassContext

__all__ = ["PassContext"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, __all__)
