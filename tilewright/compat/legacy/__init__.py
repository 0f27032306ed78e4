"""`import tvm` means Tilewright: `install()` makes it so for this process.

import tilewright.legacy
tilewright.legacy.install()
from tvm import te        # the very module tilewright.te
"""

from __future__ import annotations

from .finder import install as install
from .missing import MissingAttribute as MissingAttribute
from .missing import MissingModule as MissingModule
from .missing import explain as explain
