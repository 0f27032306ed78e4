"""Import paths of modules that stand elsewhere: `tilewright.legacy` is the module `tilewright.compat.legacy`.

A module has one object under all of its names, so that classes and their pickles are the same under each. Two finders
see to it, and neither imports a module before it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
_DOORS = {
    "auto_scheduler": "auto_scheduler",
    **{
        f"arith.{part}": f"arith.{part}"
        for part in (
            "analyzer deduce int_set integer_inequalities integer_systems iter_divide lattice linear_equations "
            "narrowing pairs rearrange reductions region_bounds smith"
        ).split()
    },
    "autotvm": "autotvm",
    "contrib": "contrib",
    "hybrid": "hybrid",
    "legacy": "legacy",
    "te.hybrid": "hybrid",
    "testing": "testing",
    **{f"topi.{part}": f"topi.{part}" for part in ("cuda", "generic", "testing", "x86")},
    "tir.stmt_functor": "stmt_functor",
}
_RENAMED = {"schedule.value": "schedule.schedule"}
"""Modules by their names in version 0.2.0, for pickles of that version."""
_OF_SCRIPTS = {f"{PACKAGE}.{path}": f"{PACKAGE}.compat.{name}" for path, name in _DOORS.items()}
_PATHS = {home: path for path, home in _OF_SCRIPTS.items()}
MOVED = _OF_SCRIPTS | {f"{PACKAGE}.{path}": f"{PACKAGE}.{name}" for path, name in _RENAMED.items()}
"""The paths of modules by the paths that scripts and pickles use; submodules follow their packages."""


def path_in_scripts(module: str) -> str:
    """Return the path by which scripts import a module of this package: "tilewright.legacy" of its module in compat."""
    found = (home for home in _PATHS if f"{module}.".startswith(f"{home}."))
    home = next(found, None)
    return _PATHS[home] + module.removeprefix(home) if home else module


class KeepingModule(ModuleType):
    """A module that keeps a function, such as `topi.nn.softmax`, when a submodule of the same name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        kept = vars(self).get(name)
        if not isinstance(value, ModuleType) or kept is None or isinstance(kept, ModuleType):
            super().__setattr__(name, value)


class OtherPath:
    """Loads a module by substituting another module.

    It has the methods of a loader but no base class: `importlib.abc` imports thirty modules, for 20 ms.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the import system create a module, which the target module then replaces."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the other module in place: the import system takes the one that stands in `sys.modules`.

        It then makes that an attribute of the module above, which may have a function of this name.
        """
        sys.modules[module.__name__] = self.other()
        parent = sys.modules.get(module.__name__.rpartition(".")[0])
        if type(parent) is ModuleType:
            parent.__class__ = KeepingModule

    def other(self) -> ModuleType:
        """Return the other module."""
        return import_module(self.name)

    def get_code(self, fullname: str) -> CodeType:
        """Return code for `python -m` that runs the target module by its own path, because of relative imports."""
        text = f"__import__('runpy').run_module({self.name!r}, run_name='__main__', alter_sys=True)"
        return compile(text, f"<{fullname}>", "exec")


def spec(fullname: str, loader: Any, is_package: bool | None = None) -> ModuleSpec:
    """Return the spec of a module; the loader need not have the base class that type checkers ask for."""
    return ModuleSpec(fullname, loader, is_package=is_package)


class _MovedPackages:
    """A finder before Python's own, which would load a file a second time under the other name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module below a package of `MOVED`."""
        if not fullname.startswith(PACKAGE):
            return None
        parts = fullname.split(".")
        for moved in (".".join(parts[:2]), ".".join(parts[:3])):
            if moved in MOVED:
                name = MOVED[moved] + fullname.removeprefix(moved)
                parent = import_module(name.rpartition(".")[0])
                found = PathFinder.find_spec(name, parent.__path__)
                return found and spec(fullname, OtherPath(name), found.submodule_search_locations is not None)
        return None


class _FoldedModules:
    """The last finder, without cost while modules are found. It imports the tables at the first miss."""

    def __init__(self, module: str, function: str) -> None:
        self.module, self.function = module, function

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module that `function` knows by this name."""
        if not fullname.startswith(f"{PACKAGE}."):
            return None
        found: Any = getattr(import_module(self.module), self.function)(fullname)
        return found if isinstance(found, ModuleSpec) else None


def hook_in_other_paths(module: str, function: str) -> None:
    """Let imports find packages of `MOVED`, and by `module.function(name)` the modules that no other finder knows."""
    sys.meta_path.insert(0, _MovedPackages())
    sys.meta_path.append(_FoldedModules(module, function))
