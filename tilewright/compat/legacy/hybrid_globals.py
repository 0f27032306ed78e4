"""The words of the hybrid language as the legacy package named them: `te.hybrid.runtime.HYBRID_GLOBALS`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hybrid.words import python_words

HYBRID_GLOBALS: dict[str, Any] = python_words(np.dtype)
"""The meaning of each word when a script runs as Python."""
