"""Draws the documentation's charts from the tables in benchmarks/RESULTS.md: python docs/figures.py"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Search:
    """One tuning run: the tuner, its seed, and the best GFLOPS after so many trials, as numbers and as text."""

    tuner: str
    seed: str
    trials: tuple[int, ...]
    best: tuple[float, ...]
    label: str


def searches() -> list[Search]:
    """The runs of the table that compares tuners."""
    found: list[Search] = []
    trials: tuple[int, ...] = ()
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            trials = ()
        elif cells[:2] == ["tuner", "seed"]:
            trials = tuple(int(cell) for cell in cells[2:])
        elif trials and cells[0].endswith("Tuner"):
            known = [cell for cell in cells[2:] if cell != "–"]  # a run may end before the last column
            best = tuple(float(cell.replace(",", "")) for cell in known)
            found.append(Search(cells[0], cells[1], trials[: len(best)], best, known[-1]))
    return found


@dataclass(frozen=True)
class Match:
    """A workload, and how many times as long as ours PyTorch takes: untuned and tuned, and the latter as text."""

    workload: str
    untuned: float
    tuned: float
    label: str


def matches() -> list[Match]:
    """The rows of the table of well-known convolutions."""
    found: list[Match] = []
    inside = False
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif cells[:4] == ["workload", "untuned", "tuned", "PyTorch"]:
            inside = True
        elif inside and cells[0].strip("-"):
            untuned, _, theirs = (float(cell.removesuffix(" µs").replace(",", "")) for cell in cells[1:4])
            found.append(Match(cells[0].partition(" (")[0], theirs / untuned, float(cells[4]), cells[4]))
    return found


@dataclass(frozen=True)
class Shipped:
    """A workload, and how many times as long as the call without tuning PyTorch takes, by type; as text, too."""

    workload: str
    ratios: dict[str, tuple[float, str]]


def shipped() -> list[Shipped]:
    """The rows of the table of four types and two layouts."""
    found: list[Shipped] = []
    modes: list[str] = []
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            modes = []
        elif len(cells) > 1 and cells[1] == "float32: first, best, PyTorch":
            modes = [cell.partition(":")[0] for cell in cells[1::2]]
        elif modes and cells[0].strip("-"):
            firsts = {mode: cell.partition(",")[0] for mode, cell in zip(modes, cells[2::2], strict=True)}
            ratios = {mode: (float(text), text) for mode, text in firsts.items() if text != "–"}
            found.append(Shipped(cells[0].strip("`"), ratios))
    return found


def figure_of(width: float, height: float) -> Any:
    """An empty figure that is written as a small file, the same from run to run."""
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, so that the file can be searched.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "docs", "font.family": "sans-serif"})
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, name: str) -> None:
    """Write a figure to docs/images/."""
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.svg", format="svg", metadata={"Date": None})


def draw_ladders(tables: dict[str, list[Row]]) -> None:
    """One panel a ladder: horizontal bars on a logarithmic axis, each with its time."""
    figure = figure_of(10, 3.6)
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
    save(figure, "ladders")


_APART = 330
"""GFLOPS between labels."""


def draw_searches(runs: list[Search]) -> None:
    """The best against the number of trials, a line for each run; runs that end close together share a label."""
    figure = figure_of(8, 3.6)
    plot = figure.subplots()
    colours = {"AutoTuner": "#2e7d4f", "XGBTuner": COLOURS["rung"], "RandomTuner": "#707070"}
    together: dict[tuple[str, int], list[list[Search]]] = {}
    for run in sorted(runs, key=lambda run: -run.best[-1]):
        plot.plot(run.trials, run.best, marker="o", markersize=3, color=colours[run.tuner])
        ending = together.setdefault((run.tuner, run.trials[-1]), [[run]])
        near = ending[-1][-1].best[-1] - run.best[-1] < _APART
        if run is not ending[-1][-1]:
            ending[-1].append(run) if near else ending.append([run])
    for (tuner, end), groups in together.items():
        for group in groups:
            seeds = ("seed " if len(group) == 1 else "seeds ") + ", ".join(str(run.seed) for run in group)
            text = f"{', '.join(run.label for run in group)}  {tuner}, {seeds}"
            plot.text(end + 8, group[0].best[-1] + 60, text, va="bottom", fontsize=8, color=colours[tuner])
    last = max(run.trials[-1] for run in runs)
    plot.set_xlim(0, last * 1.35)
    plot.set_xticks(range(0, last + 1, 100))
    plot.set_ylim(0)
    plot.set_xlabel("trials")
    plot.set_ylabel("best GFLOPS so far")
    plot.set_title("Convolution 1×512×7×7 → 512, 3×3, on one H200", fontsize=10, loc="left")
    plot.spines[["top", "right"]].set_visible(False)
    save(figure, "tuning")


def draw_matches(rows: list[Match]) -> None:
    """A bar for each workload from 1, where both are as fast; a mark where the untuned schedule is."""
    figure = figure_of(9, 0.28 * len(rows) + 1)
    plot = figure.subplots()
    names = [row.workload for row in rows]
    colours = [COLOURS["rung" if row.tuned >= 1 else "PyTorch"] for row in rows]
    bars = plot.barh(names, [row.tuned - 1 for row in rows], left=1, color=colours, height=0.7)
    plot.bar_label(bars, [f"{row.label}×" for row in rows], padding=4, fontsize=9)
    plot.plot([row.untuned for row in rows], names, "|", color="black", markersize=9, label="without tuning")
    plot.axvline(1, color="black", linewidth=0.8)
    plot.set_xscale("log")
    plot.set_xlim(0.08, 16)
    ticks = (0.125, 0.25, 0.5, 1, 2, 4, 8)
    plot.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    plot.minorticks_off()
    plot.invert_yaxis()
    plot.tick_params(axis="y", length=0)
    plot.set_xlabel("times as fast as PyTorch (cuDNN), logarithmic; float32, on one H200")
    plot.legend(loc="lower right", frameon=False, fontsize=9)
    plot.spines[["top", "right", "left"]].set_visible(False)
    save(figure, "convolutions")


_MODES = {"float32": "#2f6f9f", "float16": "#2e7d4f", "bfloat16": "#8a63a8", "float16 NHWC": "#c4772e"}


def draw_shipped(rows: list[Shipped]) -> None:
    """A line of marks for each workload, one per type, on a logarithmic axis; the figure of float32 as text."""
    figure = figure_of(9, 0.28 * len(rows) + 1.2)
    plot = figure.subplots()
    names = [row.workload for row in rows]
    for mode, colour in _MODES.items():
        known = [(row.ratios[mode][0], row.workload) for row in rows if mode in row.ratios]
        plot.plot(*zip(*known, strict=True), "o", color=colour, markersize=6, label=mode)
    for row in rows:
        plot.plot(
            [min(r for r, _ in row.ratios.values()), max(r for r, _ in row.ratios.values())],
            [row.workload] * 2,
            color="#cccccc",
            linewidth=1,
            zorder=0,
        )
        plot.text(
            25,
            row.workload,
            f"{row.ratios['float32'][1]}×",
            va="center",
            ha="right",
            fontsize=8,
            color=_MODES["float32"],
        )
    plot.set_yticks(names)
    plot.axvline(1, color="black", linewidth=0.8)
    plot.set_xscale("log")
    plot.set_xlim(0.22, 26)
    ticks = (0.25, 0.5, 1, 2, 4, 8, 16)
    plot.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    plot.minorticks_off()
    plot.invert_yaxis()
    plot.tick_params(axis="y", length=0)
    plot.set_xlabel("times as fast as the faster of PyTorch's memory orders, logarithmic; nothing tuned, on one H200")
    plot.legend(loc="upper left", frameon=False, fontsize=9)
    plot.spines[["top", "right", "left"]].set_visible(False)
    save(figure, "one-call")


if __name__ == "__main__":
    draw_shipped(shipped())
    draw_matches(matches())
    draw_ladders(ladders())
    draw_searches(searches())
