"""The public API as text: each name with its signature, and each option of the command line.

    python -m tests.api.names [--update]

lists what differs from `names.txt`; `--update` writes the file anew. A commit that updates it says why a name went or
a signature changed. Annotations are left out: they may become more precise.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

HELD = Path(__file__).with_name("names.txt")
PACKAGE = "tilewright"
MODULES = """
te te.schedule te.tensor te.operation te.hybrid tir tir.analysis tir.stmt_functor tir.transform ir ir.container
topi topi.nn topi.image topi.testing topi.generic topi.cuda topi.x86 topi.utils topi.tag topi.nn.utils topi.nn.conv2d
topi.nn.depthwise_conv2d topi.nn.pooling topi.math topi.tensor topi.broadcast topi.reduction topi.transform
nd target error intrin transform arith runtime legacy
testing testing.autotvm testing.plugin testing.parameters testing.checks
contrib contrib.cblas contrib.cc contrib.clang contrib.nvcc contrib.pickle_memoize contrib.sort contrib.tedd
contrib.utils
autotvm autotvm.callback autotvm.database autotvm.env autotvm.feature autotvm.model autotvm.record autotvm.templates
autotvm.tophub autotvm.utils autotvm.measure autotvm.measure.measure autotvm.measure.measure_methods autotvm.task
autotvm.task.dispatcher autotvm.task.space autotvm.task.task autotvm.task.topi_integration autotvm.tuner
autotvm.tuner.ga_tuner autotvm.tuner.index_based_tuner autotvm.tuner.tuner autotvm.tuner.xgboost_cost_model
autotvm.tuner.xgboost_tuner auto_scheduler
nn
"""
"""Modules that scripts import by these paths; without a path, the package itself."""
HIDDEN = {"annotations", "TYPE_CHECKING"}
NEED_TORCH = {"nn", "accelerate"}
"""Names of the package that need PyTorch; `nn` has its own lines, which stay as they are without PyTorch."""


def lines() -> list[str]:
    """Return the lines of the file: a line for each name, below a line for its module or its command."""
    known: dict[int, str] = {}
    found = []
    for path in ["", *MODULES.split()]:
        module = f"{PACKAGE}.{path}".rstrip(".")
        if path == "nn" and find_spec("torch") is None:
            found += _held_below(module)
            continue
        found.append(f"[{module}]")
        for name, value in members(module):
            found += _described(name, value, f"{module}.{name}", known)
    return [*found, *_options()]


def _held_below(module: str) -> list[str]:
    """Return the lines that the file has for a module which cannot be imported here."""
    text = HELD.read_text(encoding="utf-8")
    return text[text.index(f"[{module}]") :].partition("\n[")[0].splitlines()


def members(path: str) -> Iterator[tuple[str, Any]]:
    """Return the public names of a module and their values: all of a package, those that are a module's own."""
    module = import_module(path)
    listed = getattr(module, "__all__", None)
    for name in sorted(listed or dir(module)):
        if name.startswith("_") or name in HIDDEN or (path == PACKAGE and name in NEED_TORCH):
            continue
        value = getattr(module, name)
        own = hasattr(module, "__path__") or _home(value) in (None, module.__name__)
        if listed or (own and not isinstance(value, ModuleType) and not _foreign(value)):
            yield name, value


def _home(value: Any) -> str | None:
    """Return the module that a class or a function was defined in, None for other values."""
    return getattr(value, "__module__", None) if inspect.isclass(value) or inspect.isroutine(value) else None


def _foreign(value: Any) -> bool:
    """Whether a value is of another package's class, or defined there."""
    home = getattr(value, "__module__", None)
    return home is not None and home.partition(".")[0] != PACKAGE


def _described(name: str, value: Any, path: str, known: dict[int, str]) -> Iterator[str]:
    """Return the lines of a name: of a class, its public attributes too; of an object with another name, that name."""
    if isinstance(value, ModuleType):
        yield f"{name} module"
    elif not (inspect.isclass(value) or callable(value)):
        yield f"{name} {type(value).__name__}"
    elif id(value) in known:
        yield f"{name} = {known[id(value)]}"
    elif not inspect.isclass(value):
        known[id(value)] = path
        yield f"{name}{_signature(value)}"
    else:
        known[id(value)] = path
        yield name if issubclass(value, Enum) else f"{name}{_signature(value)}"  # theirs depends on Python's version
        public = sorted(attributes(value))
        methods = [each for each in public if is_method(inspect.getattr_static(value, each))]
        if len(methods) < len(public):
            yield "".join(f"  .{each}" for each in public if each not in methods)
        for each in methods:
            yield f"  .{each}{_signature(getattr(value, each))}"


def is_method(held: Any) -> bool:
    return isinstance(held, (staticmethod, classmethod)) or inspect.isfunction(held)


def attributes(cls: type) -> set[str]:
    """Return the public attributes that classes of this package give to a class."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == PACKAGE]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


def _signature(value: Any) -> str:
    """Return the parameters and their defaults."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(?)"
    plain = [p.replace(annotation=p.empty, default=shown_default(p.default)) for p in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


class _Shown:
    """A default, shown without the address of an object."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def shown_default(value: Any) -> Any:
    if value is inspect.Parameter.empty:
        return value
    text = getattr(value, "__name__", None) or repr(value)
    return _Shown(re.sub(r"<([\w.]+) object at 0x\w+>", r"<\1>", text))


def _options() -> Iterator[str]:
    """Return the commands, and their options with defaults."""
    import typer

    from tilewright.cli.app import app

    commands: list[tuple[str, Any]] = [(PACKAGE, typer.main.get_command(app))]
    while commands:
        name, command = commands.pop(0)
        yield f"[$ {name}]"
        for option in command.params:
            words = "/".join([*option.opts, *option.secondary_opts])
            repeats = " ..." if option.multiple or option.nargs != 1 else ""
            default = "" if option.default is None or callable(option.default) else f" = {option.default!r}"
            yield f"{words}{repeats}{default}"
        commands += [(f"{name} {part}", below) for part, below in sorted(getattr(command, "commands", {}).items())]


def differences(now: Iterable[str]) -> list[str]:
    """Return the lines that went (-) and that came (+), with a few around them."""
    held = HELD.read_text(encoding="utf-8").splitlines()
    return list(unified_diff(held, list(now), "names.txt", "now", n=2, lineterm=""))


def main() -> int:
    """Compare with the file, or write it anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="write the file anew")
    if parser.parse_args().update:
        HELD.write_text("\n".join(lines()) + "\n", encoding="utf-8")
        return 0
    found = differences(lines())
    print("\n".join(found) or "no difference")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
