"""Floor 4: schedules as immutable values, the primitives that transform them, and the handle users touch."""

from typing import TYPE_CHECKING

from ..core.absent import absent_from_module as _absent

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        raise _absent(__name__, name, globals())
