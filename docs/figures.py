"""Draws the documentation's charts from the tables in benchmarks/RESULTS.md: python docs/figures.py"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
IMAGES = Path(__file__).parent / "images"
TABLES = ("conv1d", "depthwise")
COLOURS = {"rung": "#2f6f9f", "PyTorch": "#c4772e", "NumPy": "#a0a0a0"}


@dataclass(frozen=True)
class Row:
    """One row of a ladder's table: its name, and its time in microseconds as a number and as the table has it."""

    name: str
    time: float
    label: str

    @property
    def kind(self) -> str:
        """Whose it is: a rung of ours, PyTorch or NumPy."""
        return self.name if self.name in COLOURS else "rung"


def ladders() -> dict[str, list[Row]]:
    """The rows of each ladder, by the head of its table."""
    found: dict[str, list[Row]] = {}
    head = ""
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            head = ""
        elif cells[0].startswith(TABLES) and cells[1] == "H200":
            head = cells[0]
        elif head and (time := re.fullmatch(r"([\d,.]+) µs", cells[1])):
            row = Row(cells[0].partition(" (")[0], float(time[1].replace(",", "")), cells[1])
            found.setdefault(head, []).append(row)
    return found


def draw(tables: dict[str, list[Row]], path: Path) -> None:
    """One panel a ladder: horizontal bars on a logarithmic axis, each with its time."""
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, so that the file is small and can be searched; ids do not change from run to run.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "docs", "font.family": "sans-serif"})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.6), layout="constrained")
    for plot, (head, rows) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        bars = plot.barh([row.name for row in rows], [row.time for row in rows], log=True)
        for bar, row in zip(bars, rows, strict=True):
            bar.set_color(COLOURS[row.kind])
        plot.bar_label(bars, [row.label for row in rows], padding=4, fontsize=9)
        plot.invert_yaxis()
        plot.minorticks_off()
        plot.tick_params(axis="y", length=0)
        plot.set_xlim(1, max(row.time for row in rows) * 8)
        plot.set_xlabel("µs, logarithmic; shorter is faster")
        plot.set_title(f"{head}, on one H200", fontsize=10, loc="left")
        plot.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    draw(ladders(), IMAGES / "ladders.svg")
