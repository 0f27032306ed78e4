"""The version of Tilewright, which saved modules and logs name."""

from __future__ import annotations

__version__ = "0.3.0"
