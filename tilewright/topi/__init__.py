"""Floor 12: the operator library, under the names of the legacy TOPI."""

from . import nn as nn
from . import testing as testing
