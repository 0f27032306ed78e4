"""The error families, under the legacy API's module name."""

from .core.errors import InternalError, TVMError, UserError

__all__ = ["InternalError", "TVMError", "UserError"]
