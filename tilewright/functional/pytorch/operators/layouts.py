"""Views of tensors in other layouts, for calls that PyTorch's own operators compute."""

from __future__ import annotations

from typing import Any

# The exporter of TorchScript writes wrong permutations for `movedim` with negative numbers.


def channels_first(a: Any, rank: int) -> Any:
    """Return a view with the channels before the spatial dimensions."""
    dims = range(a.dim())
    return a.permute([*dims[: -rank - 1], dims[-1], *dims[-rank - 1 : -1]])


def channels_behind(a: Any, rank: int) -> Any:
    """Return a view with the channels after the spatial dimensions."""
    dims = range(a.dim())
    return a.permute([*dims[: -rank - 1], *dims[-rank:], dims[-rank - 1]])
