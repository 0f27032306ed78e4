"""Convolutions and pooling in one call, on arrays of any library."""

from .operators import (
    avg_pool2d,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    depthwise_conv2d,
    max_pool2d,
)
from .programs import host_objects as host_objects  # has the launcher compiled once for all processes

__all__ = [
    "avg_pool2d",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "depthwise_conv2d",
    "max_pool2d",
]
