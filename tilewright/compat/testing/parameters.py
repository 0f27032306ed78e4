"""Marks of the legacy API's tests, for pytest: parameters, targets, and requirements.

`plugin.py` is the pytest plugin behind them: `pytest_plugins = ["tvm.testing.plugin"]` in a conftest.py.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import count
from typing import Any, NoReturn

from ...core.errors import UserError
from ...core.target import Target
from ...runtime.device import enabled

Test = Callable[..., Any]
EXCLUDED, FAILING = "tilewright_excluded_targets", "tilewright_failing_targets"
"""Marks of targets that a test excludes, and of targets with known failures."""
_groups = count()


def _pytest(who: str) -> Any:
    """The module; raises UserError if it is not installed."""
    if find_spec("pytest") is None:
        raise UserError("pytest is not installed", primitive=who, fix="pip install pytest")
    import pytest

    return pytest


def parameter(*values: Any, ids: Any = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """Make a fixture of each of the values in turn: `size = tvm.testing.parameter(8, 16)`.

    Parameters
    ----------
    *values
        The values of tests' arguments of the variable's name; each test runs once for each.
    ids
        Names of the values, a list or a function.
    by_dict : mapping, optional
        The values by their names, in place of both.
    """
    if by_dict is not None:
        if not isinstance(by_dict, Mapping):
            raise UserError(f"by_dict={by_dict!r} is not a mapping", primitive="parameter", fix='by_dict={"small": 8}')
        ids, values = list(by_dict), tuple(by_dict.values())
    if not (ids is None or callable(ids) or isinstance(ids, (list, tuple))):
        raise UserError(f"ids={ids!r} is not a list of names", primitive="parameter", fix='ids=["small", "large"]')
    if not values:
        raise UserError("no values are given", primitive="parameter", fix="size = tvm.testing.parameter(8, 16)")

    def chosen(request: Any) -> Any:
        return request.param

    return _pytest("parameter").fixture(chosen, params=values, ids=ids)


def parameters(*value_sets: Sequence[Any], ids: Any = None) -> list[Any]:
    """Make fixtures that vary together: `m, n = tvm.testing.parameters((8, 16), (16, 4))`.

    Needs the plugin `tvm.testing.plugin`.

    Parameters
    ----------
    *value_sets : sequences
        One value for each fixture; each test runs once for each set.
    ids
        Names of the sets.
    """
    if not all(isinstance(values, (list, tuple)) for values in value_sets):
        raise UserError(
            "a set of values is not a sequence", primitive="parameters", fix="tvm.testing.parameters((8, 16), (16, 4))"
        )
    lengths = {len(values) for values in value_sets}
    if len(lengths) != 1:
        raise UserError(
            f"the sets have {', '.join(map(str, sorted(lengths))) or 'no'} values",
            primitive="parameters",
            fix="give as many values in each set as there are variables",
        )
    group, made = next(_groups), []
    for values in zip(*value_sets, strict=True):

        def chosen(request: Any) -> Any:
            return request.param

        vars(chosen).update(group=group, values=values, ids=ids)
        made.append(_pytest("parameters").fixture(chosen))
    return made


def fixture(func: Test | None = None, *, cache_return_value: bool = False) -> Any:
    """Make a fixture; with `cache_return_value`, the fixture has one value for the whole session."""
    if func is None:
        return functools.partial(fixture, cache_return_value=cache_return_value)
    if not inspect.isfunction(func):
        raise UserError(f"{func!r} is not a function", primitive="fixture", fix="decorate a function with it")
    scope = "session" if cache_return_value else "function"
    return _pytest("fixture").fixture(func, scope=scope)


def parametrize_targets(*targets: Any) -> Any:
    """Run a test for targets, by default for all enabled targets. The test takes `target`, and `dev` of the plugin."""
    if len(targets) == 1 and callable(targets[0]) and not isinstance(targets[0], (str, Target)):
        return targets[0]
    if not targets:  # the plugin runs the test for all enabled targets
        return lambda test: test
    return _pytest("parametrize_targets").mark.parametrize("target", [str(Target.parse(t)) for t in targets])


def exclude_targets(*targets: str) -> Any:
    """Do not run a test for targets of these kinds."""
    names = _texts("exclude_targets", targets)
    return getattr(_pytest("exclude_targets").mark, EXCLUDED)(*names)


def known_failing_targets(*targets: str) -> Any:
    """Expect a test to fail for targets of these kinds."""
    names = _texts("known_failing_targets", targets)
    return getattr(_pytest("known_failing_targets").mark, FAILING)(*names)


def _texts(who: str, targets: Sequence[Any]) -> Sequence[str]:
    """The targets, if all are names."""
    for target in targets:
        if not isinstance(target, str):
            raise UserError(f"{target!r} is not the name of a target", primitive=who, fix=f'{who}("llvm", "cuda")')
    return targets


def uses_gpu(func: Test) -> Test:
    """Mark a test that uses a GPU if a GPU is present; the test runs everywhere."""
    return func


class Requirement:
    """A decorator of tests that run only if something is present: `@tvm.testing.requires_cuda`."""

    def __init__(self, what: str, is_there: Callable[[], bool]) -> None:
        self.what = what
        self._is_there = is_there

    def __call__(self, func: Test | None = None) -> Any:
        """Return the test, skipped if the requirement is not met; without a test, a decorator."""
        if func is None:
            return self
        if not (inspect.isfunction(func) or (isinstance(func, type) and func.__module__ != "builtins")):
            raise UserError(f"{func!r} is not a test", primitive="requires", fix="decorate a test function, or a class")
        if self._is_there():
            return func
        if find_spec("pytest") is None:
            return functools.wraps(func)(lambda *_, **__: print(f"Skip {func.__name__}: {self.what} is not there"))
        return _pytest("requires").mark.skip(reason=f"{self.what} is not there")(func)

    def marks(self) -> list[Any]:
        """Return the marks of a parameter of such a test."""
        return [] if self._is_there() else [_pytest("requires").mark.skip(reason=f"{self.what} is not there")]


def requires_package(*packages: str) -> Requirement:
    """Run a test only if these Python packages are installed."""
    for name in packages:
        if not isinstance(name, str):
            raise UserError(
                f"{name!r} is not the name of a package", primitive="requires_package", fix='requires_package("torch")'
            )
    return Requirement(", ".join(packages), lambda: all(map(_is_installed, packages)))


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # the package is not there, or the name is no name at all
        return False


requires_llvm = Requirement("llvm", lambda: enabled("llvm"))
requires_cuda = Requirement("a CUDA device", lambda: enabled("cuda"))
requires_opencl = Requirement("an OpenCL device", lambda: enabled("opencl"))
requires_gpu = Requirement("a GPU", lambda: enabled("cuda") or enabled("opencl"))


def main() -> NoReturn:
    """Run the tests of the file that calls this, with pytest and the arguments of the command line."""
    caller = sys._getframe(1).f_globals.get("__file__", "")
    sys.exit(_pytest("main").main([caller, *sys.argv[1:]]))


def of_kind(target: str, kinds: Sequence[str]) -> bool:
    """Whether a target is of one of the kinds, which may name options too."""
    return any(target == kind or target.split(" ")[0] == kind for kind in kinds)


def named(marks: Iterator[Any]) -> list[str]:
    """The targets that marks name."""
    return [name for mark in marks for name in mark.args]
