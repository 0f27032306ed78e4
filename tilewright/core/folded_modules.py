"""Modules of the legacy API whose names stand in another module here: `tilewright.driver.build_module` can be imported.

The finder comes after all others, so it costs nothing while modules are found. It imports the tables on the first miss.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _FoldedModules:
    def __init__(self, package: str, module: str, function: str) -> None:
        self.package, self.module, self.function = package, module, function

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module that `function` knows by this name."""
        if not fullname.startswith(f"{self.package}."):
            return None
        found: Any = getattr(import_module(self.module), self.function)(fullname)
        return found if isinstance(found, ModuleSpec) else None


def hook_in_folded_modules(package: str, module: str, function: str) -> None:
    """Let `module.function(name)` find the modules of `package` that no other finder knows."""
    sys.meta_path.append(_FoldedModules(package, module, function))
