"""Modules below `compat` have the import paths that they always had, and are one object under both."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

import pytest

import tilewright
from tilewright import compat

ROOT = Path(__file__).parents[2]


ELSEWHERE = {"hybrid": "te.hybrid", "stmt_functor": "tir.stmt_functor"}
INNER = {
    "tilewright.compat." + name
    for name in ("arith", "generic_function", "topi", "topi.by_template", "topi.schedule_names", "topi.workloads")
}
INNER |= {"tilewright.compat.messages" + name for name in ("", ".arrays", ".expressions", ".names", ".tensors")}
"""Modules without a path of their own: others have their names."""


def test_each_module_is_one_object_under_both_paths() -> None:
    for found in walk_packages(compat.__path__, "tilewright.compat."):
        package, _, part, *rest = found.name.split(".")
        if found.name in INNER:
            continue
        path = ".".join([package, ELSEWHERE.get(part, part), *rest])
        assert find_spec(path) is not None, path
        assert import_module(path) is import_module(found.name) is sys.modules[path]
    assert tilewright.testing.checks is import_module("tilewright.testing.checks")
    assert not isinstance(tilewright.testing.parameters, ModuleType), "the function stays"


def test_modules_that_are_not_there_are_not_found() -> None:
    assert find_spec("tilewright.testing.nothing") is None
    with pytest.raises(ModuleNotFoundError, match=r"tilewright\.testing\.nothing"):
        import_module("tilewright.testing.nothing")


def test_pickles_name_classes_by_either_path() -> None:
    found = pickle.loads(b"ctilewright.contrib.utils\nTempDirectory\n.")
    assert found is tilewright.contrib.utils.TempDirectory
    assert pickle.loads(pickle.dumps(found)) is found


def test_a_module_runs_by_its_path(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tilewright.contrib.sort"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
