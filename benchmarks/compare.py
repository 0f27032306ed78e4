"""Compare two commits by a benchmark: python -m benchmarks.compare BASE [HEAD] [--benchmark NAME] [-- OPTIONS]

Both commits are checked out to temporary worktrees, and the benchmark runs in them in turns. A machine that slows down
thus slows both. Every number of the benchmark's tables is compared within its pair: the ratio HEAD / BASE. Printed are,
for each column, the median, least and largest of the pairs' ratios; a column's ratio is the geometric mean of its rows.
`--rows` prints each row instead, with the medians of both sides. If the least and the largest lie on different sides of
1, the difference is noise.

The default benchmark is `benchmarks.lowering`. HEAD defaults to the last commit, and `.` is the working tree; a folder
that holds a tree stands for a commit, too. Options after `--` go to the benchmark. If a commit lacks the benchmark, or
has it without these tables, give `--same`: both commits then run the benchmark of the working tree.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_NUMBER = re.compile(r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?", re.I)
_CELL = re.compile(r"\S+(?: \S+)*")  # two spaces part cells


class Key(NamedTuple):
    """The place of a number: the table's title, its column's heading, its row's label."""

    table: str
    column: str
    row: str


class Ratio(NamedTuple):
    """How HEAD compares with BASE over all pairs."""

    median: float
    least: float
    largest: float

    @property
    def is_noise(self) -> bool:
        """Whether the pairs disagree on the direction, or all are equal."""
        return self.least <= 1 <= self.largest


Numbers = Mapping[Key, float]
Pair = tuple[Numbers, Numbers]


def numbers(text: str) -> dict[Key, float]:
    """Read the numbers of aligned tables: labels on the left, headings that end where their numbers end."""
    found: dict[Key, float] = {}
    title, headings = "", dict[int, str]()
    for line in text.splitlines():
        cells = [(match.group(), match.end()) for match in _CELL.finditer(line)]
        values = {end: _value(cell) for cell, end in cells[1:]}
        if len(cells) == 1:
            title, headings = cells[0][0], {}
        elif cells and not any(value is not None for value in values.values()):
            headings = {end: cell for cell, end in cells} if set(line) - set("─- ") else headings
        for place, (end, value) in enumerate(values.items()):
            if value is not None:
                found[Key(title, headings.get(end, f"column {place + 1}"), cells[0][0])] = value
    return found


def _value(cell: str) -> float | None:
    return float(cell.replace(",", "")) if _NUMBER.fullmatch(cell) else None


def compare(pairs: Sequence[Pair], by_row: bool = False) -> dict[Key, Ratio]:
    """Compare the numbers that all runs have, zeros left out; rows of a column as one unless `by_row`."""
    common = [key for key in pairs[0][0] if all(run.get(key) for pair in pairs for run in pair)]
    groups: dict[Key, list[Key]] = {}
    for key in common:
        groups.setdefault(key if by_row else key._replace(row=""), []).append(key)
    found = {}
    for group, keys in groups.items():
        ratios = [statistics.geometric_mean(abs(head[key] / base[key]) for key in keys) for base, head in pairs]
        found[group] = Ratio(statistics.median(ratios), min(ratios), max(ratios))
    return found


@contextmanager
def checked_out(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A folder that holds a commit, removed afterwards; `.` is the working tree itself, a folder holds its own."""
    if commit == "." or (Path(commit) / "tilewright").is_dir():
        yield root if commit == "." else Path(commit).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="tilewright-compare-") as folder:
        tree = Path(folder) / "tree"
        _git(root, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        try:
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(root: Path, *arguments: str) -> None:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")


def run(tree: Path, benchmark: str, options: Sequence[str], same: bool = False) -> dict[Key, float]:
    """Run a benchmark of a checked-out tree, or on `same` that of the working tree, and read its tables."""
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = ROOT / Path(*benchmark.split(".")).with_suffix(".py")
    # Without -P the folder of the file would come before the tree.
    command = [sys.executable, *(["-P", str(own)] if same else ["-m", benchmark]), *options]
    done = subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command[1:])} fails in {tree}:\n{done.stderr[-2000:]}")
    return numbers(done.stdout)


def measure(
    trees: tuple[Path, Path], benchmark: str, options: Sequence[str], count: int, same: bool = False
) -> list[Pair]:
    """Run the benchmark in both trees `count` times, first in the one, then in the other, then the other way round."""
    pairs: list[Pair] = []
    for turn in range(count):
        order = trees if turn % 2 == 0 else trees[::-1]
        first, second = (run(tree, benchmark, options, same) for tree in order)
        pairs.append((first, second) if turn % 2 == 0 else (second, first))
        print(f"pair {turn + 1} of {count} done", file=sys.stderr)
    return pairs


def show(found: Mapping[Key, Ratio], pairs: Sequence[Pair]) -> list[str]:
    """Write the ratios as a table, one heading per table of the benchmark."""
    lines: list[str] = []
    title: str | None = None
    for key, ratio in found.items():
        if key.table != title:
            title = key.table
            both = f"  {'BASE':>10}  {'HEAD':>10}" if key.row else ""
            lines += ["", title, f"{'':42}  {'median':>7}  {'least':>7}  {'largest':>7}{both}"]
        name = f"{key.row}, {key.column}" if key.row else key.column
        note = "  noise" if ratio.is_noise and ratio.least != ratio.largest else ""
        sides = (statistics.median(pair[side][key] for pair in pairs) for side in (0, 1)) if key.row else ()
        both = "".join(f"  {number:10.3f}" for number in sides)
        lines.append(f"{name:42}  {ratio.median:7.3f}  {ratio.least:7.3f}  {ratio.largest:7.3f}{both}{note}")
    missing = {key.row for pair in pairs for run in pair for key in run} - {
        key.row for key in pairs[0][0] if all(key in run for pair in pairs for run in pair)
    }
    return [*lines, *(["", f"not in every run: {', '.join(sorted(missing))}"] if missing else [])]


def main() -> None:
    """Check out, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("head", nargs="?", default="HEAD", help="the commit to compare, or . for the working tree")
    parser.add_argument("--benchmark", default="benchmarks.lowering", help="a module that prints aligned tables")
    parser.add_argument("--pairs", type=int, default=5, help="how often each commit is measured")
    parser.add_argument("--same", action="store_true", help="run the working tree's benchmark on both commits")
    parser.add_argument("--rows", action="store_true", help="print each row instead of each column")
    own, options = _split(sys.argv[1:])
    given = parser.parse_args(own)
    with checked_out(given.base) as base, checked_out(given.head) as head:
        pairs = measure((base, head), given.benchmark, options, max(1, given.pairs), given.same)
    print(f"{given.benchmark}: {given.head} / {given.base}, {len(pairs)} pairs")
    print("\n".join(show(compare(pairs, given.rows), pairs)))


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own options, and the options after `--`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    main()
