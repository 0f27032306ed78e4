"""The matrix of conditions: its cells name tests that exist, and a hidden package looks as if it were not installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.paths import python_path

ROOT = Path(__file__).parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("matrix_tool", ROOT / "tools" / "test_matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


matrix = _tool()


def test_cells_have_names_of_their_own_and_tests_that_exist(tmp_path: Path) -> None:
    cells = matrix.cells(tmp_path)
    assert len({cell.name for cell in cells}) == len(cells) >= 15
    assert not [test for cell in cells for test in cell.tests if not (ROOT / test).exists()]
    assert not [test for test in matrix.BRIEF if not (ROOT / test).exists()]
    assert all(matrix.chosen_tests(cell, brief=True) for cell in cells)


def test_a_hidden_package_is_as_one_that_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(matrix._HIDE.format(names=("numpy",)))
    program = (
        "import importlib.util\n"
        "assert importlib.util.find_spec('numpy') is None and importlib.util.find_spec('json')\n"
        "try: import numpy.linalg\n"
        "except ModuleNotFoundError as error: print(error.name)\n"
    )
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("numpy\n", "")
