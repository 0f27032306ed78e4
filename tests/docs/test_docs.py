"""The documentation is true: its programs run and print what the page shows, links lead somewhere, nothing is missing.

A block marked ```python is run, all blocks of a page in one namespace. Where the next block says `output` (as in
```text output) it is what the program prints; where it says `error`, the program ends with that error.
`...` in a line stands for anything, such as a time. `pytest tests/docs --update-golden` writes those blocks anew. A
program with the comment `# needs a GPU` is not run.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import io
import linecache
import re
import runpy
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tilewright
from benchmarks import results, stored_runs
from tilewright.codegen.c_compiler import c_compiler
from tilewright.core.errors import TVMError
from tilewright.schedule.handle import PRIMITIVES

ROOT = Path(__file__).parent.parent.parent
FRONT = ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")
PAGES = [*(ROOT / page for page in FRONT), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S)
SKIPPED = "# needs a GPU"
NEEDS_C = ('"import_c"', '.so"', 'target="c"')
"""What a program has that takes the system's C compiler."""


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, its text, and where the text stands in the page."""

    words: tuple[str, ...]
    text: str
    start: int
    end: int

    @property
    def is_program(self) -> bool:
        return self.words == ("python",)

    @property
    def shows(self) -> str:
        """ "output", "error", or "" for a block that belongs to no program."""
        return self.words[1] if len(self.words) == 2 and self.words[1] in ("output", "error") else ""


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(tuple(m["info"].split()), m["text"], m.start("text"), m.end("text")) for m in FENCE.finditer(page)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _marks(path: Path) -> list[pytest.MarkDecorator]:
    programs = [b.text for b in blocks(path.read_text(encoding="utf-8")) if b.is_program and SKIPPED not in b.text]
    found = [pytest.mark.opencl] if any("opencl" in text for text in programs) else []
    if any("time_evaluator" in text for text in programs):
        found.append(pytest.mark.optimised)  # it runs a large kernel many times
    if any(text in program for program in programs for text in NEEDS_C):
        found.append(pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH"))
    if any("import torch" in text for text in programs):
        absent = find_spec("torch") is None
        found += [pytest.mark.torch, pytest.mark.skipif(absent, reason="PyTorch is not installed")]
    if any("import jax" in text for text in programs):
        found.append(pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed"))
    return found


def run(program: str, names: dict[str, Any]) -> tuple[str, str]:
    """What a program prints, and the text of the error that ends it ("" where none does)."""
    out = io.StringIO()
    code = compile(program, "program.py", "exec")
    linecache.cache["program.py"] = (len(program), None, program.splitlines(keepends=True), "program.py")
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(code, names)
        except TVMError as error:
            return out.getvalue(), f"{type(error).__name__}: {error}\n"
    return out.getvalue(), ""


@pytest.fixture
def legacy_names() -> Iterator[None]:
    """What `tilewright.legacy.install()` does in a page ends with the page."""
    finders, package = list(sys.meta_path), tilewright.__class__
    modules = set(sys.modules)
    yield
    sys.meta_path[:] = finders
    tilewright.__class__ = package  # type: ignore[misc]
    for module in [m for m in sys.modules if m not in modules and m.partition(".")[0] in ("tvm", "topi")]:
        del sys.modules[module]


def keeping(shown: str, text: str) -> str:
    """What a program printed, with the lines of the page that stand for some of it (`... µs`) in their places."""
    standing = [line for line in shown.splitlines() if "..." in line and line.strip(" .")]
    patterns = {line: re.compile(".*".join(map(re.escape, line.split("...")))) for line in standing}

    def as_shown(line: str) -> str:
        return next((old for old, pattern in patterns.items() if pattern.fullmatch(line)), line)

    return "".join(f"{as_shown(line)}\n" for line in text.splitlines())


@pytest.mark.usefixtures("legacy_names")
@pytest.mark.parametrize("path", [pytest.param(p, marks=_marks(p), id=name(p)) for p in PAGES])
def test_programs_print_what_the_page_shows(
    path: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    page = path.read_text(encoding="utf-8")
    found = blocks(page)
    names: dict[str, Any] = {"__name__": "__main__"}
    changed = []
    for block, after in pairwise([*found, None]):
        if not block.is_program or SKIPPED in block.text:
            continue
        where = f"{name(path)}:{page.count(chr(10), 0, block.start) + 1}"
        shows = after.shows if after else ""
        printed, error = run(block.text, names)
        assert bool(error) == (shows == "error"), f"{where}: {error or 'an error is promised, and none came'}"
        if after and shows:
            text = keeping(after.text, (error or printed).rstrip() + "\n")
            changed += [(after, text, where)] if text != after.text else []
    if request.config.getoption("--update-golden"):
        for block, text, _ in reversed(changed):
            page = page[: block.start] + text + page[block.end :]
        path.write_text(page, encoding="utf-8")
        return
    for block, text, where in changed:
        diff = difflib.unified_diff(block.text.splitlines(), text.splitlines(), where, "this run", lineterm="")
        hint = "if the new text is right: pytest tests/docs --update-golden"
        pytest.fail("\n".join([*diff, "", hint]), pytrace=False)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_output_follows_its_program(path: Path) -> None:
    previous: Block | None = None
    for block in blocks(path.read_text(encoding="utf-8")):
        assert not block.shows or (previous and previous.is_program), (
            f"{name(path)}: output of no program:\n{block.text}"
        )
        previous = block


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ +(.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", prose):
        link = "".join(target)
        if re.match(r"\w+:", link):
            continue
        file, _, anchor = link.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{name(path)}: {link} does not exist"
        assert not anchor or anchor in _anchors(there), f"{name(path)}: {link}: no such heading"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_tables_align(path: Path) -> None:
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    for table in re.findall(r"(?:^\|.*\n)+", prose, re.M):
        assert len({len(line) for line in table.splitlines()}) == 1, (
            f"{name(path)}: this table does not align:\n{table}"
        )


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_names_of_the_code_exist(path: Path) -> None:
    """A file or folder of the repository that a page names in `code` is there."""
    prose = FENCE.sub("", path.read_text(encoding="utf-8"))
    for mentioned in re.findall(r"`((?:tilewright|tests|benchmarks|examples|docs)/[\w./-]*)`", prose):
        assert (ROOT / mentioned).exists(), f"{name(path)} names {mentioned}, which does not exist"


def test_functions_named_in_documents_exist() -> None:
    """`file.py::name` points to something that the file defines."""
    pointers = [found for p in PAGES for found in re.findall(r"`([\w/]+\.py)::(\w+)`", p.read_text(encoding="utf-8"))]
    assert pointers
    for file, item in pointers:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:def|class) {item}\b|^{item}\b *[:=]", source, re.M), f"{file} defines no {item}"


def test_walks_are_short_and_visit_a_file_once() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walks = re.split(r"\n\*\*", page.partition("## Three walks")[2].partition("\n## ")[0])[1:]
    assert len(walks) == 3
    for walk in walks:
        files = re.findall(r"`([\w/]+\.py)::\w+`", walk)
        assert len(files) == len(set(files)), "a walk comes back to a file that it has left"
        assert len(re.findall(r"^\d+\. ", walk, re.M)) <= 10


def test_excerpts_stand_in_the_code() -> None:
    """A block marked `py FILE` is an excerpt of that file; three dots stand for what is left out."""
    found = [block for path in PAGES for block in blocks(path.read_text(encoding="utf-8"))]
    excerpts = [block for block in found if block.words[:1] == ("py",) and len(block.words) == 2]
    assert excerpts
    for block in excerpts:
        file = block.words[1]
        source = _unindented((ROOT / file).read_text(encoding="utf-8"))
        for part in _unindented(block.text).split("\n...\n"):
            assert part in source, f"{file} no longer holds:\n{part}"


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_the_house_has_the_floors_that_stand_in_contributing() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert page.count("\n") <= 250, "CONTRIBUTING.md fits 250 lines: details belong in docs/"
    table = page.partition("## The house")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)/` ", table, re.M)
    faces = re.findall(r"`(\w+)/`", page.partition("the other faces")[2].partition("A face gives")[0])
    there = {p.parent.name for p in (ROOT / "tilewright").glob("*/__init__.py")}
    assert len(listed) == len(set(listed))
    assert {*listed, *faces} == there, "CONTRIBUTING.md lists floors that tilewright/ does not hold, or not all"


def test_every_primitive_is_documented() -> None:
    page = (ROOT / "docs" / "schedule.md").read_text(encoding="utf-8")
    heads = {word for head in re.findall(r"^### (.+)$", page, re.M) for word in re.findall(r"`(\w+)`", head)}
    assert set(PRIMITIVES) <= heads, f"docs/schedule.md has no section on {sorted(set(PRIMITIVES) - heads)}"


def test_the_table_of_arguments_has_those_of_the_signature() -> None:
    table = (ROOT / "docs" / "functional.md").read_text().split("## Arguments of `tw.conv2d`")[1].split("\n## ")[0]
    found = re.findall(r"^\| `(\w+)`", table, re.M)
    assert found == [name for name in inspect.signature(tilewright.conv2d).parameters if name != "named"]


def test_results_and_pages_show_the_data() -> None:
    page = results.PAGE.read_text(encoding="utf-8")
    assert page == results.page(), "benchmarks/RESULTS.md is not up to date: python -m benchmarks.results"
    for path in results.BLOCKS:
        shown = path.read_text(encoding="utf-8")
        assert shown == results.with_figures(path), f"{path} is not up to date: python -m benchmarks.results"
    assert page.count("\n") <= 300


def test_every_run_says_how_it_was_made() -> None:
    for path in sorted(stored_runs.DATA.glob("*.jsonl")):
        made, rows = stored_runs.read(path.stem)
        assert {"command", "commit", "device", "driver", "date"} == set(made), path
        assert all((made["command"], made["device"], made["date"])), path
        assert rows, path
        assert all(row["row"] for row in rows), path


def test_the_pictures_are_those_of_the_schedules() -> None:
    drawn = runpy.run_path(str(ROOT / "docs" / "pictures.py"))["pictures"]()
    assert {"memory", "banks", "tile", "stages"} <= set(drawn)
    for name, svg in drawn.items():
        path = ROOT / "docs" / "images" / f"{name}.svg"
        assert path.read_text(encoding="utf-8") == svg, (
            f"docs/images/{name}.svg is not up to date: python docs/pictures.py"
        )


def test_the_legacy_page_lists_the_tests_of_the_data_file() -> None:
    tools = runpy.run_path(str(ROOT / "docs" / "legacy_tests.py"))
    text = tools["PAGE"].read_text(encoding="utf-8")
    assert text == tools["page"](text), "docs/legacy.md is not up to date: python docs/legacy_tests.py"


def test_the_charts_show_the_measured_numbers() -> None:
    figures = runpy.run_path(str(ROOT / "docs" / "figures.py"))
    chart = (ROOT / "docs" / "images" / "ladders.svg").read_text(encoding="utf-8")
    ladders = figures["ladders"]()
    assert [len(rows) for rows in ladders.values()] == [8, 7]
    for rows in ladders.values():
        for row in rows:
            assert row.label in chart, f"{row.label} is not in docs/images/ladders.svg: python -m docs.figures"
    chart = (ROOT / "docs" / "images" / "tuning.svg").read_text(encoding="utf-8")
    runs = figures["searches"]()
    assert runs
    for run in runs:
        assert run.label in chart, f"{run.label} is not in docs/images/tuning.svg: python -m docs.figures"

    chart = (ROOT / "docs" / "images" / "one-call.svg").read_text(encoding="utf-8")
    shipped = figures["shipped"]()
    assert len(shipped) > 20
    for row in shipped:
        text = row.ratios["float32"][1]
        assert f"{text}×" in chart, f"{text}× is not in docs/images/one-call.svg: python -m docs.figures"
        assert row.workload in chart

    chart = (ROOT / "docs" / "images" / "training.svg").read_text(encoding="utf-8")
    for step in figures["steps"]():
        assert f">{step.label}<" in chart, f"{step.label} is not in docs/images/training.svg: python -m docs.figures"
        assert step.layer in chart

    chart = (ROOT / "docs" / "images" / "models.svg").read_text(encoding="utf-8")
    for model in figures["models"]():
        assert f">{model.label}<" in chart, f"{model.label} is not in docs/images/models.svg: python -m docs.figures"
        assert model.name in chart
