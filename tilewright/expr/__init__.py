"""The scalar expression grammar, typed operators, traversal, printing, exact evaluation."""

from typing import TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from . import operators as operators  # gives the nodes their Python operators
from . import printer as printer  # gives the nodes their text

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
