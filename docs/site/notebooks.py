"""Notebooks of pages and examples, which the tests run as they are.

Each program of a page is a cell, and so is the text between programs. Of an example, each group of statements is a
cell, below the docstring of its function.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCES = {
    "pytorch.ipynb": "docs/pytorch.md",
    "conv1d.ipynb": "docs/guide.md",
    "depthwise.ipynb": "examples/depthwise_ladder.py",
    "depthwise_fused.ipynb": "examples/depthwise_fused.py",
    "conv2d_hwcn.ipynb": "examples/conv2d_hwcn.py",
    "tune_conv2d.ipynb": "examples/tune_conv2d.py",
}
"""The notebooks and their sources."""
BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```\n?", re.M | re.S)
EXTRAS = "cuda,opencl"
Cell = dict[str, Any]


def write(folder: Path, repository: str) -> None:
    """Write the notebooks into `folder`."""
    folder.mkdir(parents=True)
    for name, source in SOURCES.items():
        made = notebook(ROOT / source, repository)
        (folder / name).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def notebook(source: Path, repository: str = "") -> Cell:
    """Return the notebook of a page or an example; its first cell installs the package."""
    package = f"tilewright[{EXTRAS}]" + (f" @ git+{repository}" if repository else "")
    text = source.read_text(encoding="utf-8")
    cells = of_page(text) if source.suffix == ".md" else of_example(text)
    cells.insert(1, _code(f'%pip install -q "{package}"'))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}, "accelerator": "GPU"}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def of_page(page: str) -> list[Cell]:
    """Return the cells of a page: its texts, and its programs with their output."""
    cells: list[Cell] = []
    end = 0
    for block in BLOCK.finditer(page):
        info = block["info"].strip()
        if info != "python" and not info.endswith((" output", " error")):
            continue
        cells += _text(page[end : block.start()])
        end = block.end()
        if info == "python":
            cells.append(_code(block["text"].rstrip()))
        else:
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": block["text"].splitlines(True)}]
    return cells + _text(page[end:])


def of_example(source: str) -> list[Cell]:
    """Return the cells of an example: its docstring, a cell for each group of statements, and the call of `main`."""
    tree, lines = ast.parse(source), source.splitlines()
    title, _, rest = (ast.get_docstring(tree) or "").partition("\n")
    cells = _text(f"# {title.partition('. Run it:')[0].partition(': python ')[0].rstrip('.')}\n\n{rest.strip()}")
    group: list[str] = []
    end = tree.body[0].end_lineno or 0
    for statement in tree.body[1:]:
        part = "\n".join(lines[end : statement.end_lineno]).strip("\n")
        end = statement.end_lineno or end
        if isinstance(statement, ast.If) and "__name__" in part:
            part = "main()"
            if "argparse" in source:
                part = f"import sys\n\nsys.argv[1:] = []  # the arguments of the example, such as --help\n{part}"
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.If):
            cells += [*_group(group), *_said(statement), _code(part)]
            group = []
        else:
            group.append(part)
    return cells + _group(group)


def _group(parts: list[str]) -> list[Cell]:
    return [_code("\n".join(parts))] if parts else []


def _said(statement: ast.stmt) -> list[Cell]:
    """Return the docstring of a function or class as text."""
    documented = isinstance(statement, ast.FunctionDef | ast.ClassDef)
    return _text(inspect.cleandoc(ast.get_docstring(statement) or "")) if documented else []  # type: ignore[arg-type]


def _text(text: str) -> list[Cell]:
    return [{"cell_type": "markdown", "metadata": {}, "source": text.strip().splitlines(True)}] if text.strip() else []


def _code(text: str) -> Cell:
    lines = text.splitlines(True)
    return {"cell_type": "code", "metadata": {}, "source": lines, "execution_count": None, "outputs": []}
