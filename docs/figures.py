"""Draws the documentation's charts from the tables in benchmarks/RESULTS.md: python docs/figures.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
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


def tables() -> Iterator[tuple[list[str], list[list[str]]]]:
    """The tables of RESULTS.md: the cells of the heading, and those of each row."""
    text = RESULTS.read_text(encoding="utf-8")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        heads, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]
        yield heads, rows


def number(text: str) -> float:
    """A number of a table, which may have commas and a unit."""
    return float(text.removesuffix(" µs").replace(",", ""))


def ladders() -> dict[str, list[Row]]:
    """The rows of each ladder, by the head of its table."""
    found: dict[str, list[Row]] = {}
    for heads, rows in tables():
        head, device = (cell.strip("*") for cell in heads[:2])
        if not head.startswith(TABLES) or device != "H200":
            continue
        for cells in rows:
            name, time = (cell.strip("*") for cell in cells[:2])
            if re.fullmatch(r"[\d,.]+ µs", time):
                found.setdefault(head, []).append(Row(name.partition(" (")[0], number(time), time))
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
    for heads, rows in tables():
        if heads[:2] != ["tuner", "seed"]:
            continue
        trials = tuple(int(cell) for cell in heads[2:])
        for tuner, seed, *cells in rows:
            if tuner.endswith("Tuner"):
                known = [cell for cell in cells if cell != "–"]  # a run may end before the last column
                best = tuple(map(number, known))
                found.append(Search(tuner, seed, trials[: len(best)], best, known[-1]))
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
    for heads, rows in tables():
        if heads[:4] == ["workload", "untuned", "tuned", "PyTorch"]:
            for workload, untuned, _, theirs, ratio, *_ in rows:
                found.append(Match(workload.partition(" (")[0], number(theirs) / number(untuned), float(ratio), ratio))
    return found


@dataclass(frozen=True)
class Shipped:
    """A workload, and how many times as long as the call without tuning PyTorch takes, by type; as text, too."""

    workload: str
    ratios: dict[str, tuple[float, str]]


def shipped() -> list[Shipped]:
    """The rows of the table of four types and two layouts."""
    found: list[Shipped] = []
    for heads, rows in tables():
        if len(heads) < 2 or heads[1] != "float32: first, best, PyTorch":
            continue
        modes = [cell.partition(":")[0] for cell in heads[1::2]]
        for workload, *cells in rows:
            firsts = {mode: cell.partition(",")[0] for mode, cell in zip(modes, cells[1::2], strict=True)}
            ratios = {mode: (float(text), text) for mode, text in firsts.items() if text != "–"}
            found.append(Shipped(workload.strip("`"), ratios))
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


def horizontal(plot: Any, label: str, hidden: tuple[str, ...] = ("top", "right")) -> None:
    """Rows from the top downwards, without ticks; the name of the axis below, and no frame at the `hidden` sides."""
    plot.invert_yaxis()
    plot.minorticks_off()
    plot.tick_params(axis="y", length=0)
    plot.set_xlabel(label)
    plot.spines[list(hidden)].set_visible(False)


def beside_torch(plot: Any, limits: tuple[float, float], ticks: tuple[float, ...], label: str, legend: str) -> None:
    """A logarithmic axis of ratios, with a line where both are as fast."""
    plot.axvline(1, color="black", linewidth=0.8)
    plot.set_xscale("log")
    plot.set_xlim(*limits)
    plot.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    horizontal(plot, label, ("top", "right", "left"))
    plot.legend(loc=legend, frameon=False, fontsize=9)


def draw_ladders(tables: dict[str, list[Row]]) -> None:
    """One panel a ladder: horizontal bars on a logarithmic axis, each with its time."""
    figure = figure_of(10, 3.6)
    for plot, (head, rows) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        bars = plot.barh([row.name for row in rows], [row.time for row in rows], log=True)
        for bar, row in zip(bars, rows, strict=True):
            bar.set_color(COLOURS[row.kind])
        plot.bar_label(bars, [row.label for row in rows], padding=4, fontsize=9)
        plot.set_xlim(1, max(row.time for row in rows) * 8)
        plot.set_title(f"{head}, on one H200", fontsize=10, loc="left")
        horizontal(plot, "µs, logarithmic; shorter is faster")
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
    label = "times as fast as PyTorch (cuDNN), logarithmic; float32, on one H200"
    beside_torch(plot, (0.08, 16), (0.125, 0.25, 0.5, 1, 2, 4, 8), label, "lower right")
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
        ratios = [ratio for ratio, _ in row.ratios.values()]
        plot.plot([min(ratios), max(ratios)], [row.workload] * 2, color="#cccccc", linewidth=1, zorder=0)
        text, colour = f"{row.ratios['float32'][1]}×", _MODES["float32"]
        plot.text(25, row.workload, text, va="center", ha="right", fontsize=8, color=colour)
    plot.set_yticks(names)
    label = "times as fast as the faster of PyTorch's memory orders, logarithmic; nothing tuned, on one H200"
    beside_torch(plot, (0.22, 26), (0.25, 0.5, 1, 2, 4, 8, 16), label, "upper left")
    save(figure, "one-call")


if __name__ == "__main__":
    draw_shipped(shipped())
    draw_matches(matches())
    draw_ladders(ladders())
    draw_searches(searches())
