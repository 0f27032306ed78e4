"""PyTorch's own testing tools, whose import would change settings of the whole process."""

from __future__ import annotations

import importlib
from typing import Any


def import_testing_tools(name: str) -> Any:
    """Import a module of `torch.testing._internal`; ImportError if it, or a package that it needs, is missing.

    The import forbids setting flags of `torch.backends`, as users do, in all later tests. This context allows it again.
    """
    import torch

    with torch.backends.__allow_nonbracketed_mutation():
        return importlib.import_module(f"torch.testing._internal.{name}")
