"""Arguments that only poolings have."""

from __future__ import annotations

from typing import Any


def reach_beyond(size: int, before: int, after: int, covered: int, stride: int) -> int:
    """Return how far the last window of a pooling with `ceil_mode` reaches beyond the padded input.

    As in PyTorch, each window begins in the input or in the padding in front of it.
    """
    places = -(-(size + before + after - covered) // stride) + 1
    if (places - 1) * stride >= size + before:
        places -= 1
    return max(0, (places - 1) * stride + covered - size - before - after)


def is_left_out(stride: Any) -> bool:
    """Whether a pooling's stride is left out, so that it is the kernel size: None, or an empty sequence as in PyTorch's
    tests."""
    return stride is None or (isinstance(stride, (tuple, list)) and not stride)
