"""Bytecode of the package and of tests, made once before a run's processes start.

After a clone or an update, each process of pytest-xdist would compile all files: eight seconds of a processor each.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

FEW = 50
"""The processes of a run compile so few files themselves."""


def compile_before(config: pytest.Config) -> None:
    """Compile stale files in forks, one per processor, if this process is about to start others."""
    if sys.dont_write_bytecode or not getattr(config.option, "numprocesses", None):
        return
    stale = [path for top in ("tilewright", "tests") for path in ROOT.glob(f"{top}/**/*.py") if _is_stale(path)]
    if len(stale) <= FEW:
        return
    count = min(int(config.option.numprocesses), os.cpu_count() or 1)
    stale.sort(key=lambda path: path.stat().st_size)
    children = [_forked(config, stale[i::count]) for i in range(count)]
    for child in children:
        os.waitpid(child, 0)


def _is_rewritten(path: Path) -> bool:
    """Whether pytest rewrites the assertions of a file; it keeps the bytecode under a name of its own."""
    return path.name.startswith("test_") or path.name == "conftest.py"


def _bytecode(path: Path) -> Path:
    usual = Path(importlib.util.cache_from_source(str(path)))
    return (
        usual.with_name(usual.name[: -len(".pyc")] + f"-pytest-{pytest.__version__}.pyc")
        if _is_rewritten(path)
        else usual
    )


def _is_stale(path: Path) -> bool:
    try:
        return _bytecode(path).stat().st_mtime < path.stat().st_mtime
    except OSError:
        return True


def _forked(config: pytest.Config, paths: list[Path]) -> int:
    """Compile files in a child; what it cannot compile is left to the tests, which report it."""
    if child := os.fork():
        return child
    try:
        for path in paths:
            if _is_rewritten(path):
                _rewrite(config, path)
            else:
                compileall.compile_file(path, quiet=2)
    finally:
        os._exit(0)


def _rewrite(config: pytest.Config, path: Path) -> None:
    """As pytest's import hook, without running the module. These names are pytest's own; tests run without them."""
    from _pytest.assertion import rewrite

    state = config.stash[rewrite.assertstate_key]
    stat, code = rewrite._rewrite_test(path, config)
    made = _bytecode(path)
    made.parent.mkdir(parents=True, exist_ok=True)
    rewrite._write_pyc(state, code, stat, made)
