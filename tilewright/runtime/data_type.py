"""The types of elements under the legacy API's name."""

from ..core.dtype import DType as DataType

__all__ = ["DataType"]
