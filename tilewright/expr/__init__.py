"""Floor 1: the scalar expression grammar, typed operators, traversal, printing, exact evaluation."""

from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from . import operators as operators  # gives the nodes their Python operators
from . import printer as printer  # gives the nodes their text

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
