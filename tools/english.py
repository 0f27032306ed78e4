"""Count the habits that make the project's English hard to read: python tools/english.py [PATH ...] [options]

Without options, prints a table per kind of text: docstrings, comments, messages (other strings) and documents.
`--files` prints a table per file, and `--lines` each counted line. `--check` fails if a file has more of a habit than
`tools/english.txt` records. `--update` records the present counts, and refuses if a total has grown.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_suffix(".txt")
SOURCES = ("tilewright/**/*.py", "tools/*.py", "benchmarks/*.py", "docs/*.py", "docs/**/*.md", "*.md")
SKIPPED = ("CHANGELOG.md",)
MOST_WORDS = 25
KINDS = ("docstrings", "comments", "messages", "documents")
HABITS = {
    "where": r"\bwhere\b",
    "what": r"\bwhat\b",
    "those": r"\bthose\b",
    "so many": r"\bso (?:many|much)\b",
    "whatever": r"\b(?:what|which|when|where)ever\b",
    "whose": r"\bwhose\b|\bof (?:which|whom)\b",
}
COLUMNS = (*HABITS, "fragment", "long")
"""The ratcheted counts: habits, texts that begin within a sentence, and sentences of more than `MOST_WORDS` words."""
WITH_FRAGMENTS = ("docstrings", "comments")
CONDITIONS = r"\b(?:if|when)\b"

_PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in (*HABITS.items(), ("if+when", CONDITIONS))}
_FRAGMENT = re.compile(
    r"(?:and|as|by|else|even|from|it|its|of|or|so|such as|than|that|their|they|those|which|whose)\b", re.IGNORECASE
)
"""The beginning of a docstring or a comment that lacks its subject: "which is empty", "of the last batch"."""
_TRIPLE = re.compile(r'^([^"\n]*?)(r?f?)"""(.*?)"""', re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"(?:^[ ]*|  )#:? (?!fmt:|type:|noqa|ruff:)([^\n]*)", re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_CODE = re.compile(r"``[^`\n]*``|`[^`]*`")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`{A-Z0-9])")
_PART = tuple[str, int, str]
"""One text: its kind, the line where it begins, and the text."""


def texts_of(path: Path) -> Iterator[_PART]:
    """Yield the texts of a Python file or of a document."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield "documents", 1, _blank(r"^```.*?^```|^\|[^\n]*|<!--.*?-->", source)
        return

    for match in _TRIPLE.finditer(source):
        if not match[1].strip():
            yield "docstrings", _line(source, match.start(3)), match[3]
    rest = _TRIPLE.sub(lambda match: "\n" * match[0].count("\n"), source)
    comment = ""
    begins = ends = 0  # lines; a comment behind code is a text of its own
    for match in _COMMENT.finditer(rest):
        line, is_alone = _line(rest, match.start(1)), rest[: match.start()].endswith("\n")
        if line != ends + 1 or not is_alone:
            if comment:
                yield "comments", begins, comment
            comment, begins = "", line
        comment, ends = f"{comment}\n{match[1]}" if comment else match[1], line if is_alone else 0
    if comment:
        yield "comments", begins, comment
    code = _COMMENT.sub("", rest)
    joined = re.sub(r'(?<=[^"\s])([ ]?)"(\s*)\n\s*f?"(?=[^"])', r"\1", code)  # implicit concatenation
    for match in _STRING.finditer(joined):
        is_list = joined[match.end() : match.end() + 80].lstrip(" \n,").removeprefix(")").startswith(".split()")
        if match[1].count(" ") >= 2 and r"\n" not in match[1] and not is_list:
            yield "messages", 0, re.sub(r"\{[^{}]*\}", "{}", match[1])


def _line(source: str, position: int) -> int:
    return source.count("\n", 0, position) + 1


def _blank(pattern: str, source: str) -> str:
    """Replace the matches by as many empty lines, so that line numbers stay."""
    return re.sub(pattern, lambda match: "\n" * match[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each quotation of code shortened to one word. Indented code is left out."""
    lines = _CODE.sub("CODE", text).split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    paragraph: list[str] = []
    indent = 0
    for number, line in enumerate((*lines, "")):
        body = line if number == 0 else line[margin:]
        before, indent = indent, len(body) - len(body.lstrip())
        is_item = re.match(r"\s*(?:[-*]|\d+\.|[A-Za-z_*, ]+ :|#+|>>>|-{3,}$) ?", body)
        is_code = not paragraph and body.startswith("    ") and number > 0 and not is_item
        if not body.strip() or is_item or is_code or indent < before or indent >= before + 4:
            yield from _SENTENCE_END.split(" ".join(paragraph))
            paragraph = []
        if body.strip() and not is_code:
            paragraph.append(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", body).strip())


def count(text: str, kind: str = "documents") -> Counter[str]:
    """Count the habits, the conditions and the long sentences of a text, and whether it begins within a sentence."""
    text = _CODE.sub("CODE", text)
    found = Counter({name: len(pattern.findall(text)) for name, pattern in _PATTERNS.items()})
    found["fragment"] = int(kind in WITH_FRAGMENTS and _FRAGMENT.match(text) is not None)
    if text.count(" ") + text.count("\n") >= MOST_WORDS:
        found["long"] = sum(len(sentence.split()) > MOST_WORDS for sentence in sentences(text))
    return found


def files(paths: Sequence[str]) -> list[Path]:
    """The files to count: all sources, or the given files and folders."""
    found = {path for pattern in SOURCES for path in ROOT.glob(pattern) if path.name not in SKIPPED}
    wanted = [Path(path).resolve() for path in paths]
    return sorted(f for f in found if not wanted or any(f == w or w in f.parents for w in wanted))


def name_of(path: Path) -> str:
    """The path as recorded: relative to the root of the project."""
    return path.relative_to(ROOT).as_posix()


def table(rows: dict[str, Counter[str]]) -> None:
    """Print aligned counts, a row per kind of text or per file."""
    columns = ("if+when", *COLUMNS)
    width = max((len(name) for name in rows), default=0)
    print(" " * width, *(f"{column:>8}" for column in columns))
    for name, counts in rows.items():
        print(f"{name:<{width}}", *(f"{counts[column]:>8,}" for column in columns))


def show_lines(chosen: Sequence[Path]) -> None:
    """Print each line that has a habit, and the beginning of each long sentence."""
    for path in chosen:
        for kind, first, text in texts_of(path):
            if count(text, kind)["fragment"]:
                print(f"{name_of(path)}:{first}: {kind[:-1]} [fragment] {text.split(chr(10))[0]}")
            for number, line in enumerate(text.split("\n"), first):
                if names := [name for name in HABITS if _PATTERNS[name].search(line)]:
                    print(f"{name_of(path)}:{number}: {kind[:-1]} [{', '.join(names)}] {line.strip()}")
            for sentence in sentences(text):
                if len(words := sentence.split()) > MOST_WORDS:
                    print(f"{name_of(path)}:{first}: {kind[:-1]} [{len(words)} words] {sentence[:90]} ...")


def recorded() -> dict[str, Counter[str]]:
    """Read the counts that files may not exceed."""
    rows = [line.split() for line in RECORD.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {row[0]: Counter(dict(zip(COLUMNS, map(int, row[1:]), strict=True))) for row in rows}


def worse(now: dict[str, Counter[str]], limits: dict[str, Counter[str]]) -> list[str]:
    """Describe each file that exceeds its record. A file without a record has the limit 0."""
    return [
        f"{name}: {column!r} {counts[column]}, recorded {limits.get(name, Counter())[column]}"
        for name, counts in now.items()
        for column in COLUMNS
        if counts[column] > limits.get(name, Counter())[column]
    ]


def update(now: dict[str, Counter[str]]) -> list[str]:
    """Record the present counts, and return the totals that have grown, if any; then nothing is recorded."""
    if RECORD.exists():
        before, after = (sum(counts.values(), Counter()) for counts in (recorded(), now))
        if grown := [f"{c!r}: {before[c]} -> {after[c]} in all files" for c in COLUMNS if after[c] > before[c]]:
            return grown
    rows = [" ".join([name, *(str(counts[c]) for c in COLUMNS)]) for name, counts in now.items()]
    head = f"# python tools/english.py --update; file: {', '.join(COLUMNS)}"
    RECORD.write_text("\n".join([head, *(row for row in rows if not row.endswith(" 0" * len(COLUMNS)))]) + "\n")
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, check or record the counts; return 1 if a count has grown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files and folders to count (default: all)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--files", action="store_true", help="print a row per file")
    action.add_argument("--lines", action="store_true", help="print each counted line")
    action.add_argument("--check", action="store_true", help="fail if a file has more than recorded")
    action.add_argument("--update", action="store_true", help="record the present counts of all files")
    options = parser.parse_args(arguments)
    chosen = files([] if options.update else options.paths)
    if options.lines:
        show_lines(chosen)
        return 0

    kinds = {kind: Counter[str]() for kind in KINDS}
    now: dict[str, Counter[str]] = {}
    for path in chosen:
        now[name_of(path)] = total = Counter[str]()
        for kind, _, text in texts_of(path):
            found = count(text, kind)
            kinds[kind].update(found)
            total.update(found)

    failures = update(now) if options.update else worse(now, recorded()) if options.check else []
    if failures:
        print(*failures, "Rewrite the sentences: python tools/english.py --lines PATH", sep="\n", file=sys.stderr)
    elif options.files:
        table(now)
    elif not options.check:
        table(kinds)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
