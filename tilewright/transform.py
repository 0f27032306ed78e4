"""Options of compilation under the legacy API's names: `with transform.PassContext(config={...}):`."""

from .passes.context import PassContext

__all__ = ["PassContext"]
