"""Write the list of Apache TVM's tests that do not pass, from data/legacy_tests.toml, into legacy.md.

python docs/legacy_tests.py
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from textwrap import fill

PAGE = Path(__file__).with_name("legacy.md")
DATA = PAGE.parent / "data" / "legacy_tests.toml"
START, END = "<!-- Generated: python docs/legacy_tests.py -->\n", "<!-- End of the generated list -->\n"


def listed() -> str:
    """The list: a paragraph per test file, an item per test."""
    files = tomllib.loads(DATA.read_text(encoding="utf-8"))
    paragraphs = []
    for file, tests in files.items():
        items = [
            fill(f"- `{test}`: {reason}", 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for test, reason in tests.items()
        ]
        paragraphs.append("\n".join([f"`{file}`:", "", *items, ""]))
    return "\n".join(paragraphs)


def page(text: str) -> str:
    """The page with the list of today between its marks."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{listed()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
