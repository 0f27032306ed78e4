"""Floor 1: the scalar expression grammar, typed operators, traversal, printing, exact evaluation."""

from . import operators as operators  # gives the nodes their Python operators
from . import printer as printer  # gives the nodes their text
