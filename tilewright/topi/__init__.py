"""Floor 12: the operator library, under the names of the legacy TOPI."""

from typing import TYPE_CHECKING

from ..core.absent import absent as _absent
from . import nn as nn
from . import testing as testing
from . import utils as utils

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _absent("topi", name, globals())
