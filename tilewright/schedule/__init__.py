"""Floor 4: schedules as immutable values, the primitives that transform them, and the handle users touch."""

from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
