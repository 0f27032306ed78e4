"""Benchmarks use names that the package has: nothing else runs them on a machine without a GPU."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@cache
def _file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


@cache
def _names_of(module: str) -> frozenset[str]:
    """The names that a module binds at its top level."""
    path = _file_of(module)
    assert path is not None
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_names_of_the_package(path: Path) -> None:
    modules: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "tilewright":
            for each in node.names:
                if _file_of(f"{node.module}.{each.name}") is not None:
                    modules[each.asname or each.name] = f"{node.module}.{each.name}"
                elif "__getattr__" not in _names_of(node.module):
                    assert each.name in _names_of(node.module), f"{node.module} has no {each.name}"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            names = _names_of(modules[node.value.id])
            inner = _file_of(f"{modules[node.value.id]}.{node.attr}") is not None
            assert inner or "__getattr__" in names or node.attr in names, f"{modules[node.value.id]} has no {node.attr}"
