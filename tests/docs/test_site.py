"""The parts of the documentation site that need no Sphinx; `make docs` builds all of it."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import tilewright
from docs.site import api_pages, build, notebooks

ROOT = Path(__file__).parents[2]


def test_the_front_page_leads_to_every_page() -> None:
    front = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", front, re.M)
    there = {(ROOT / "docs" / target).resolve().relative_to(ROOT).as_posix() for target in listed}
    pages = {page for page in build.pages() if not re.match(r"docs/(index|notes/(?!README)).*\.md", page)}
    assert there == pages
    assert len(listed) == len(there)


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        ("look up any other function or command", r"`tilewright\.depthwise_conv2d`"),
        ("look up the arguments of `tw.conv2d`", r"`precision`"),
        ('tune a call by `tune="quick"`', r"for five seconds"),
        ("tune a layer", r"tilewright tune conv2d --shape"),
        ("read a kernel's registers and shared memory", r"registers: \d+ per thread"),
        ("train with Tilewright", r"\.backward\(\)"),
        ("run an old script of TE or AutoTVM", r"from tvm import|import tvm"),
    ],
)
def test_a_click_on_the_front_page_answers_a_question(wish: str, answer: str) -> None:
    front = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {re.escape(wish)} +\| \[[^]]+\]\(([^)#]+)(?:#([^)]+))?\)", front, re.M)
    assert found is not None
    page, anchor = found.groups()
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if anchor is not None:
        sections = re.split(r"^#+ (.+)$", text, flags=re.M)
        named = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")): body for title, body in pairwise(sections)}
        text = named[anchor]
    assert re.search(answer, text)


def test_a_second_click_shows_the_arguments_of_a_function() -> None:
    assert api_pages.linked("`tilewright.conv2d`", {"tilewright.conv2d"}) == "{py:obj}`tilewright.conv2d`"
    assert re.search(r"^- `[^\n]*padding", api_pages._body(tilewright.conv2d), re.M)


def test_links_lead_to_pages_and_copies_of_the_site(tmp_path: Path) -> None:
    text = "[a](guide.md#1-blocks) [b](../examples/conv2d_hwcn.py) [c](https://x.org) [d](#e)\n```sh\n[f](g.md)\n```\n"
    staged = build.staged(text, "docs/tuning.md", tmp_path)
    assert staged == text.replace("../examples", "_files/examples")
    assert (tmp_path / "_files/examples/conv2d_hwcn.py").is_file()
    assert "(../results.md#x)" in build.staged("[x](../../benchmarks/RESULTS.md#x)", "docs/notes/README.md", tmp_path)
    assert "[x](tuning.md)" in build.staged("[x](docs/tuning.md)", "README.md", tmp_path)


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#here">1</a> <a href="b.html#there">2</a> <a href="c.html">3</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://x.org/nothing">4</a></p>')
    assert build.broken_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html"]


@pytest.mark.parametrize("name", notebooks.SOURCES)
def test_the_cells_of_a_notebook_are_the_source(name: str) -> None:
    """The tests run the source: `test_docs.py` the pages, `tests/programs/test_examples.py` the examples."""
    source = ROOT / notebooks.SOURCES[name]
    made = json.loads(json.dumps(notebooks.notebook(source, "https://example.org/r")))
    assert made["nbformat"] == 4
    kinds = [cell["cell_type"] for cell in made["cells"]]
    assert kinds[:2] == ["markdown", "code"]
    install, *code = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert install.startswith("%pip install")
    assert "git+https://example.org/r" in install
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        assert "\n".join(code) == "\n".join(b.rstrip() for b in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    else:
        program, cells = ast.parse(text), ast.parse("\n".join(code[:-1]))
        assert [ast.dump(node) for node in cells.body] == [ast.dump(node) for node in program.body[1:-1]]
        assert code[-1].endswith("main()")


def test_docstrings_become_markdown() -> None:
    def function() -> None:
        """Summary of `x` and *args.

            for i in range(4):
                ...

        Parameters
        ----------
        x : array
            Of shape (N,).

        Examples
        --------
        >>> 1 + 1
        2
        """

    text = api_pages._body(function)
    assert text.startswith("Summary of `x` and \\*args.")
    assert "```text\nfor i in range(4):\n    ...\n```" in text
    assert "- `x`: array  \n  Of shape (N,)." in text
    assert "```pycon\n>>> 1 + 1\n2\n```" in text


def test_long_names_of_modules_break_at_dots() -> None:
    assert (
        api_pages._title("tilewright.autotvm.measure.measure_methods") == "autotvm.\u200bmeasure.\u200bmeasure_methods"
    )
    assert api_pages._title("tilewright") == "tilewright"


def test_the_command_line_has_a_page() -> None:
    page = "\n".join(api_pages._commands())
    assert "## tilewright log best" in page
    assert re.search(r"## tilewright tune conv2d\n(.*\n)+?- `--trials`.*: \w", page)


def test_the_citation_names_the_version() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
