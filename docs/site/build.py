"""Build the documentation site: python -m docs.site.build [--out build/site]

The command copies the Markdown pages of the repository into a folder, and writes the pages of the API reference and the
notebooks beside them. Sphinx then builds HTML with warnings as errors. Finally, each link between the pages is checked.

TILEWRIGHT_REPOSITORY, the repository's URL, is the one setting: with it, links to source files lead there, and the
notebooks install from there. Without it, the site holds copies of those files.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from . import api_pages, notebooks

ROOT = Path(__file__).parents[2]
REPOSITORY = os.environ.get("TILEWRIGHT_REPOSITORY", "").rstrip("/")
RENAMED = {
    "README.md": "overview.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "benchmarks/RESULTS.md": "results.md",
    "docs/notes/README.md": "notes/index.md",
}
"""Pages outside of docs/, and their names in the site."""
NOTEBOOKS = "_files/notebooks"
FENCE = re.compile(r"^(```+)[^`\n]*\n.*?^\1$", re.M | re.S)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def pages() -> dict[str, str]:
    """Return the path of each page in the repository, and its path in the site."""
    own = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
    return {path: path.removeprefix("docs/") for path in own} | RENAMED


def stage(folder: Path) -> None:
    """Write the pages, their pictures and the generated pages into `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    notebooks.write(folder / NOTEBOOKS, REPOSITORY)
    made = {source: name for name, source in notebooks.SOURCES.items()}
    for page, name in pages().items():
        text = staged((ROOT / page).read_text(encoding="utf-8"), page, folder)
        if page in made:
            text = _with_notebook(text, name, made[page])
        if name == "index.md":
            text += toctrees(text)
        if name == "notebooks.md":
            text = re.sub(r"`(\w+\.ipynb)`", rf"[\1]({NOTEBOOKS}/\1)", text)
        if name == "notes/index.md":
            text += "\n```{toctree}\n:hidden:\n:glob:\n*\n```\n"
        if name == "api.md":
            text = api_pages.write(folder / "api", text)
        _write(folder / name, text)
    shutil.copy(Path(__file__).with_name("conf.py"), folder)
    (folder / "_static").mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("site.css"), folder / "_static")


def staged(text: str, page: str, folder: Path) -> str:
    """Return the text of a page with each relative link leading to its place in the site."""
    known, here = pages(), (ROOT / page).parent
    depth = pages()[page].count("/")

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if re.match(r"\w+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        there = (here / path).resolve().relative_to(ROOT).as_posix()
        if there in known:
            to = "../" * depth + known[there] + (f"#{anchor}" if anchor else "")
        else:
            to = _outside(there, folder, "../" * depth)
        return f"{match[1]}{to}{match[3]}"

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(link, text[end : fence.start()]), fence[0].replace("```mermaid", "```text", 1)]
        end = fence.end()
    return "".join([*parts, LINK.sub(link, text[end:])])


def _outside(path: str, folder: Path, up: str) -> str:
    """Return the link to a file that is no page: a picture, or a source file."""
    if REPOSITORY and not path.endswith(".svg"):
        return f"{REPOSITORY}/blob/main/{path}"
    source, copy = ROOT / path, folder / "_files" / path
    if source.is_dir():  # a folder becomes a page that lists its files
        files = sorted(p for p in source.iterdir() if p.is_file())
        lines = [f"- [{file.name}]({_outside(f'{path}/{file.name}', folder, '../')})" for file in files]
        page = f"folders/{path.replace('/', '-')}.md"
        _write(folder / page, "\n".join(["---", "orphan: true", "---", "", f"# {path}", "", *lines, ""]))
        return f"{up}{page}"
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, copy)
    return f"{up}_files/{path}"


def _with_notebook(text: str, name: str, notebook: str) -> str:
    """Put the link to the notebook of a page below its title."""
    title, _, rest = text.partition("\n")
    link = f"[{notebook}]({'../' * name.count('/')}{NOTEBOOKS}/{notebook})"
    return f"{title}\n\nThis page as a notebook: {link}.\n{rest}"


def toctrees(front: str) -> str:
    """Return the navigation: a list for each section of the front page, of the pages that it links to."""
    lines = []
    for section in re.split(r"^## ", front, flags=re.M)[1:]:
        caption, _, body = section.partition("\n")
        entries = [f"{title} <{target}>" for title, target in re.findall(r"^- \[([^]]+)\]\(([^)#\s]+)\)", body, re.M)]
        lines += ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```", ""]
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class _Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        self.links += [value for key in ("href", "src") if (value := given.get(key))]


def broken_links(folder: Path) -> list[str]:
    """Return the links within a built site that lead nowhere."""
    found = {}
    for path in sorted(folder.rglob("*.html")):
        found[path] = _Links()
        found[path].feed(path.read_text(encoding="utf-8"))
    broken = []
    for page, parsed in found.items():
        for link in dict.fromkeys(parsed.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = there / "index.html" if there.is_dir() else there
            anchor = unquote(parts.fragment)
            lost = anchor and there in found and anchor not in found[there].anchors
            if not there.exists() or lost:
                broken.append(f"{page.relative_to(folder)}: {link}")
    return broken


def main() -> int:
    """Build the site; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out: Path = parser.parse_args().out.resolve()
    pages_folder = out.with_name(f"{out.name}-pages")
    stage(pages_folder)
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-W", "--keep-going", "-j", "auto"]
    status = subprocess.run([*command, "-d", str(pages_folder / ".doctrees"), str(pages_folder), str(out)]).returncode
    if status:
        return status
    broken = broken_links(out)
    print("\n".join([*(f"broken link: {line}" for line in broken), f"the site: {out / 'index.html'}"]))
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
