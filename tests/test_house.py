"""How the package is built: sizes of files, docstrings, imports, and where asserts may stand."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tilewright"
MOST_LINES = 450
HEAVY = ("llvmlite", "pyopencl", "cuda", "torch", "matplotlib", "typer", "rich", "tempfile", "urllib")
TABLES = "core/other_paths core/refusals core/views compat/legacy/spellings runtime/packed".split()
"""Files that import modules named in tables: hooks, old paths, and modules that register functions or templates."""
ENUMERATIONS = ("codegen/llvm/float32", "functional/programs/cuda_kernels", "functional/programs/launcher")
ENUMERATIONS += ("report/inline_svg", "runtime/cuda_driver", "runtime/orc", "schedule/stage_view")
"""Files with rows of numbers that belong together: codes of an interface, sides of a frame, parts of a constant."""
SHORT_BODY = 42
"""Characters of a function that may stand in several files."""
ONE_PLACE = {"flock(": "core/system", 'CDLL("libcuda': "runtime/cuda_library", "os.replace(": "core/files"}
ONE_PLACE |= {"results.listeners": "tune/session/campaign"}
"""Calls and attributes that stand in one file, whose functions the others call."""
NAME_AND_VALUE = re.compile(r"([\w' ]*(\{\})? ?[\w' ]*( is | has type | has the shape )|\w*=)(\{\})+( of shape \{\})?")
"""Messages that give no requirement."""
ERRORS = ("UserError", "UserTypeError", "UserAttributeError", "AbsentDeviceError")


class File(NamedTuple):
    """What the rules ask of one file: its length, docstring and public classes, and the lines of what they forbid."""

    path: Path
    lines: int
    has_docstring: bool
    classes: list[str]
    stars: list[int]
    bare: list[int]
    asserts: list[int]
    unfixed: list[int]
    curt: list[int]
    hidden: list[int]
    rows: list[int]
    bodies: dict[str, int]

    def at(self, lines: Iterable[int]) -> list[str]:
        """`file:line` of each line."""
        return [f"{self.path.relative_to(ROOT)}:{line}" for line in lines]


@functools.cache
def files() -> list[File]:
    """All files of the package. Their syntax trees, a million objects, are not kept."""
    return [_read(path) for path in sorted(PACKAGE.rglob("*.py"))]


def _read(path: Path) -> File:
    text = path.read_text(encoding="utf-8")
    module, lines = ast.parse(text, str(path)), text.splitlines()
    stars, bare, asserts, unfixed, curt, hidden = [], [], [], [], [], []
    rows = [node.lineno for node in module.body if isinstance(node, ast.Assign) and _is_row_of_numbers(node)]
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and any(name.name == "*" for name in node.names):
            stars.append(node.lineno)
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            bare.append(node.lineno)
        elif isinstance(node, ast.Assert):
            asserts.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            unfixed += [] if any(keyword.arg == "fix" for keyword in node.keywords) else [node.lineno]
            curt += [node.lineno] if NAME_AND_VALUE.fullmatch(_template(node.args[0])) else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("import_module"):
            name = node.args[0].value if isinstance(node.args[0], ast.Constant) else "."
            hidden += [node.lineno] if name.startswith((".", "tilewright")) else []
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"]
    return File(
        path, len(lines), bool(ast.get_docstring(module)), classes, stars, bare, asserts, unfixed, curt, hidden, rows,
        {_body(node, lines): node.lineno for node in functions},
    )  # fmt: skip


def _is_row_of_numbers(node: ast.Assign) -> bool:
    """Return whether an assignment gives several private names numbers, or tuples of numbers."""
    names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else []
    values = node.value.elts if isinstance(node.value, ast.Tuple) else []
    numbers = [v for v in values if isinstance(v, ast.Tuple) or isinstance(getattr(v, "value", ""), (int, float))]
    return bool(numbers) and any(isinstance(name, ast.Name) and name.id.startswith("_") for name in names)


def _template(message: ast.expr) -> str:
    """Return the text of a message, each value as "{}"."""
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def _body(function: ast.FunctionDef, lines: list[str]) -> str:
    first, end = function.body[ast.get_docstring(function) is not None :][:1], function.end_lineno
    return "\n".join(lines[first[0].lineno - 1 : end]) if first else ""


def test_files_are_short() -> None:
    long = [f"{file.path.relative_to(ROOT)} has {file.lines} lines" for file in files() if file.lines > MOST_LINES]
    assert not long, f"find the idea that splits it: {long}"


def test_modules_say_what_they_are_for() -> None:
    silent = [str(file.path.relative_to(ROOT)) for file in files() if not file.has_docstring]
    assert not silent, f"no docstring: {silent}"


def test_a_class_name_stands_for_one_thing() -> None:
    """Outside of `compat/`, which has the legacy API's names."""
    found: dict[str, list[str]] = {}
    for file in files():
        path = file.path.relative_to(PACKAGE)
        for name in file.classes if path.parts[0] != "compat" else ():
            found.setdefault(name, []).append(path.as_posix())
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_functions_of_one_text_stand_once() -> None:
    """Private names are a file's own: the same text with them may mean something else."""
    found: dict[str, list[str]] = {}
    for file in files():
        for body, line in file.bodies.items():
            if len(body) > SHORT_BODY and not re.search(r"\b_\w", body):
                found.setdefault(body, []).extend(file.at([line]))
    assert not (several := [places for places in found.values() if len(places) > 1]), f"share one: {several}"


def test_no_star_imports() -> None:
    found = [place for file in files() for place in file.at(file.stars)]
    assert not found, f"import names, not *: {found}"


def test_own_modules_are_imported_by_statements() -> None:
    """Type checkers, import-linter and searches for usages see no others. Faces import on first use, by tables."""
    others = [file for file in files() if file.path.stem != "__init__"]
    tables = {PACKAGE / f"{name}.py" for name in TABLES}
    found = [place for file in others if file.path not in tables for place in file.at(file.hidden)]
    assert not found, f"write `from . import ...` in the function, or hook a function in (core/views.py): {found}"


def test_each_constant_has_a_line() -> None:
    """Named for a quantity and unit, instead of a row such as `_SINGLE, _SPLIT, _BYTES = 6.68, 26.8, 12.8`."""
    allowed = {PACKAGE / f"{name}.py" for name in ENUMERATIONS}
    found = [place for file in files() if file.path not in allowed for place in file.at(file.rows)]
    assert not found, f"one line per constant, named for its quantity and unit: {found}"


def test_no_bare_except() -> None:
    found = [place for file in files() for place in file.at(file.bare)]
    assert not found, f"name the exceptions caught: {found}"


def meets_users(path: Path) -> bool:
    """Whether the file checks what users pass: the faces, tensors and schedules."""
    return path.parent == PACKAGE or path.relative_to(PACKAGE).parts[0] in ("schedule", "tensor")


def test_no_assert_where_users_are_met() -> None:
    found = [place for file in files() if meets_users(file.path) for place in file.at(file.asserts)]
    assert not found, f"raise UserError or InternalError: {found}"


def test_every_error_of_the_user_says_what_to_do() -> None:
    library = [file for file in files() if "cli" not in file.path.parts]  # what the commands print is theirs to word
    found = [place for file in library for place in file.at(file.unfixed)]
    assert not found, f"say what to do: UserError(..., fix=...): {found}"


def test_every_error_of_the_user_says_what_is_required() -> None:
    """An error with a name and its value alone does not say what is wrong with the value."""
    found = [place for file in files() for place in file.at(file.curt)]
    assert not found, f"say what was expected, such as 'which is not a list': {found}"


def test_rules_see_what_they_forbid(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("from os import *\ntry:\n    assert 1\nexcept:\n    raise UserError('no')\n", encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write("import_module('os')\nimport_module('.a', __package__)\nimport_module(f'tilewright.{a}')\n")
        file.write("_A, _B = 1, 'text'\n_C, _D = 'a', 'b'\n_E, _F = [], (1, 2)\n")
        file.write("raise UserError(f'size={size!r}', fix='')\nraise UserError(f'{n} is {v}, not 3', fix='')\n")
    assert _read(path) == File(path, 13, False, [], [1], [4], [3], [5], [12], [7, 8], [9, 11], {})


def test_importing_tilewright_loads_nothing_heavy() -> None:
    """Optional parts are imported when used, so that the import is fast and works without them."""
    program = "import sys, tilewright; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not (heavy := loaded.intersection(HEAVY)), f"import tilewright loads {sorted(heavy)}"


def test_the_change_log_says_everything_once() -> None:
    """Merges of branches that both moved an entry leave it there twice."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = [" ".join(entry.split()) for entry in re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE)]
    assert [entry for entry, times in Counter(entries).items() if times > 1] == []


def test_a_version_fits_a_page_of_the_change_log() -> None:
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) >= 3
    assert not (long := {s.splitlines()[0]: n for s in sections if (n := s.count("\n")) > 120}), long


def test_locks_drivers_moved_files_and_listeners_have_one_place() -> None:
    texts = {one.path: one.path.read_text(encoding="utf-8") for one in files()}
    for call, place in ONE_PLACE.items():
        found = [path.relative_to(PACKAGE).with_suffix("").as_posix() for path, text in texts.items() if call in text]
        assert found == [place], call
