"""Finds modules of the legacy package: Tilewright's modules, as the same objects under both names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ...core.other_paths import PACKAGE, KeepingModule, OtherPath, path_in_scripts, spec
from .missing import GRAPHS, LEGACY, OPERATORS, MissingAttribute, MissingModule, legacy_name, misspelt
from .spellings import MODULES, module_of

_NAMES = {LEGACY: PACKAGE, OPERATORS: f"{PACKAGE}.{OPERATORS}"}
_DRIVER = "driver"


def install(override: bool = False) -> None:
    """Make `import tvm`, and all below it, mean Tilewright in this process.

    If a real `tvm` is installed, it takes precedence, unless `override` is given. Calling it again changes nothing but
    that.
    """
    others = [finder for finder in sys.meta_path if not isinstance(finder, (_Alias, _Absent))]
    # The first finder, because Python's own finder would load our files again, under the other name.
    sys.meta_path[:] = [_Alias(override), *others, _Absent()]
    package = sys.modules[PACKAGE]
    if type(package) in (ModuleType, KeepingModule):
        package.__class__ = _Package


class _Package(KeepingModule):
    """Tilewright as `tvm`: missing parts raise an error that says so (`tvm.relay`)."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if meant := misspelt(name, dir(self)):
            raise meant
        raise MissingAttribute(f"{LEGACY}.{name}")


class _Alias(MetaPathFinder):
    """`tvm` is `tilewright`, `tvm.te` is `tilewright.te`, and so on; the oldest scripts' `topi` is `tvm.topi`."""

    def __init__(self, override: bool) -> None:
        self.override = override

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        head, dot, rest = fullname.partition(".")
        if head not in _NAMES:
            return None
        ours = _NAMES[head]
        # Names below a real tvm, which was imported before or goes first, mean its own modules.
        theirs = sys.modules.get(head) is not sys.modules.get(ours) if dot else self._is_installed(head)
        return None if theirs else spec(fullname, _SameModule(f"{ours}{dot}{rest}"))

    def _is_installed(self, name: str) -> bool:
        others = (finder for finder in sys.meta_path if not isinstance(finder, (_Alias, _Absent)))
        return not self.override and any(finder.find_spec(name, None) is not None for finder in others)


class _SameModule(OtherPath):
    """Loads a module of the legacy package by substituting our module with its names."""

    def other(self) -> ModuleType:
        """Return the module that replaces the legacy module."""
        path = self.name.partition(".")[2]
        found = module_of(MODULES.get(path, path))
        if not hasattr(found, "__path__") and any(old.startswith(f"{path}.") for old in MODULES):
            found.__path__ = []  # the replacement of an old package has all of its modules
        if path == _DRIVER:
            vars(found).setdefault("build_module", found)
        return found


def folded_module(fullname: str) -> ModuleSpec | None:
    """Return the spec of a module of the legacy package with names that are in another module here, by its name
    here."""
    path = path_in_scripts(fullname)
    return spec(fullname, _SameModule(path)) if path.partition(".")[2] in MODULES else None


class _Absent(MetaPathFinder):
    """The last finder: a module of ours that no other finder has found is absent in Tilewright."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.startswith(f"{PACKAGE}."):
            if found := folded_module(fullname):  # `from topi.cuda import conv2d`
                return found
            raise MissingModule(legacy_name(fullname))
        if fullname.partition(".")[0] == GRAPHS:
            raise MissingModule(GRAPHS)
        return None
