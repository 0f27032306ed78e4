"""Floor 12: the operator library, under the names of the legacy TOPI."""

from typing import TYPE_CHECKING

from ..core.refusals import missing as _missing
from . import nn as nn
from . import testing as testing
from . import utils as utils

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing("topi", name, globals())
