"""The legacy module of the contexts that say which configuration a template gets."""

from typing import TYPE_CHECKING

from ....core.refusals import old_name as _old_name
from .contexts import ApplyConfig as ApplyConfig
from .contexts import DispatchContext as DispatchContext
from .contexts import FallbackContext as FallbackContext
from .contexts import clear_fallback_cache as clear_fallback_cache
from .history import ApplyHistoryBest as ApplyHistoryBest
from .space import FallbackConfigEntity as FallbackConfigEntity

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
