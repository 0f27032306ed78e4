"""Messages for users who come from Python, NumPy or the legacy API, with replacements.

Floors report the request (`core/refusals.py`); here are the words, one module per subject. A module is imported when
its subject is first refused, so that `import tilewright` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..core.refusals import NAME, Explain, hook_in

_MODULES = {NAME: "names", "expression": "expressions", "tensor": "tensors", "array": "arrays"}
"""The module that explains each subject."""


def hook_in_all() -> None:
    """Let the modules of this package make the errors of their subjects."""
    for subject, module in _MODULES.items():
        hook_in(subject, _on_first_use(module))


def _on_first_use(module: str) -> Explain:
    def explain(*about: Any) -> Exception:
        found: Exception = import_module(f"{__name__}.{module}").explain(*about)
        return found

    return explain
