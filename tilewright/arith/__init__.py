"""Floor 2: what is known of integers, and what follows: facts, bounds, the simplifier, the prover, regions."""

from typing import TYPE_CHECKING

from ..core.refusals import missing_from_module as _missing
from .analyzer import Analyzer as Analyzer

if not TYPE_CHECKING:  # the legacy API has a module of this name

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
