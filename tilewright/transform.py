"""Options of compilation, and passes of whole programs, under the legacy API's names."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.refusals import old_name as _old_name
from .passes.context import PassContext
from .passes.named_passes import NamedPass as Pass
from .passes.named_passes import PassInfo, Sequential, module_pass

__all__ = ["Pass", "PassContext", "PassInfo", "Sequential", "module_pass"]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
