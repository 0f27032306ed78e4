"""How the package is built: sizes of files, docstrings, imports, and where asserts may stand."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tilewright"
FILES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 450
HEAVY = ("llvmlite", "pyopencl", "cuda", "torch", "matplotlib", "typer", "rich", "xgboost")

every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """All syntax nodes of a file, the module first."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))


def where(path: Path, found: Iterator[ast.stmt | ast.ExceptHandler]) -> str:
    """`file:line` of each statement found, one a line; empty when there is none."""
    return "\n".join(f"{path.relative_to(ROOT)}:{node.lineno}" for node in found)


@every_file
def test_a_file_is_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MOST_LINES, f"{path.relative_to(ROOT)} has {lines} lines: find the idea that splits it"


@every_file
def test_a_module_says_what_it_is_for(path: Path) -> None:
    module = nodes(path)[0]
    assert isinstance(module, ast.Module)
    assert ast.get_docstring(module), f"{path.relative_to(ROOT)} has no docstring"


@every_file
def test_no_star_imports(path: Path) -> None:
    stars = (n for n in nodes(path) if isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names))
    assert not (found := where(path, stars)), f"import names, not *:\n{found}"


@every_file
def test_no_bare_except(path: Path) -> None:
    bare = (n for n in nodes(path) if isinstance(n, ast.ExceptHandler) and n.type is None)
    assert not (found := where(path, bare)), f"name the exceptions caught:\n{found}"


def meets_users(path: Path) -> bool:
    """Whether the file checks what users pass: the faces, tensors and schedules."""
    return path.parent == PACKAGE or path.relative_to(PACKAGE).parts[0] in ("schedule", "tensor")


@pytest.mark.parametrize("path", [*filter(meets_users, FILES)], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_assert_where_users_are_met(path: Path) -> None:
    asserts = (n for n in nodes(path) if isinstance(n, ast.Assert))
    assert not (found := where(path, asserts)), f"raise UserError or InternalError:\n{found}"


def test_importing_tilewright_loads_nothing_heavy() -> None:
    """Optional parts are imported when used, so that the import is fast and works without them."""
    program = "import sys, tilewright; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not (heavy := loaded.intersection(HEAVY)), f"import tilewright loads {sorted(heavy)}"
