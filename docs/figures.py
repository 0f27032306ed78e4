"""Draws the documentation's charts from benchmarks/data: python -m docs.figures"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.results import in_order
from benchmarks.stored_runs import number, read

IMAGES = Path(__file__).parent / "images"
LADDERS = {"ladder-conv1d": "conv1d, M=16384 N=32", "ladder-depthwise": "depthwise 3×4×16×32, 7×7"}
COLOURS = {"rung": "#2f6f9f", "PyTorch": "#c4772e", "NumPy": "#a0a0a0"}


@dataclass(frozen=True)
class Row:
    """One row of a ladder: its name, its time in microseconds, and the time as text."""

    name: str
    time: float
    label: str

    @property
    def kind(self) -> str:
        """The owner: a rung of ours, PyTorch or NumPy."""
        return self.name if self.name in COLOURS else "rung"


def ladders() -> dict[str, list[Row]]:
    """Return the rows of each ladder, by its title."""
    return {
        title: [Row(row["row"], row["us"], f"{number(row['us'])} µs") for row in read(name).rows]
        for name, title in LADDERS.items()
    }


@dataclass(frozen=True)
class Search:
    """One tuning run: the tuner, its seed, the best GFLOPS after given numbers of trials, and the last as text."""

    tuner: str
    seed: str
    trials: tuple[int, ...]
    best: tuple[float, ...]
    label: str


def searches() -> list[Search]:
    """Return the runs of the table that compares tuners."""
    found = []
    for row in read("tuning-curves").rows:
        points = {int(count): best for count, best in row["gflops"].items()}
        best = tuple(points.values())
        found.append(Search(row["row"], str(row["seed"]), tuple(points), best, number(best[-1])))
    return found


@dataclass(frozen=True)
class Shipped:
    """A workload, and PyTorch's time over that of the call without tuning, by type; as text, too."""

    workload: str
    ratios: dict[str, tuple[float, str]]


def shipped() -> list[Shipped]:
    """Return the rows of four types and two layouts."""
    found: dict[str, dict[str, tuple[float, str]]] = {}
    for row in read("shipped").rows:
        ratio = row["pytorch_us"] / row["us"]
        found.setdefault(row["row"], {})[row["mode"].replace("/", " ")] = ratio, f"{ratio:.2f}"
    return [Shipped(*pair) for pair in found.items()]


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


@dataclass(frozen=True)
class Step:
    """A training step: the layer and its type, and both sides' times in multiples of a copy; ours as text, too."""

    layer: str
    ours: float
    theirs: float
    label: str


def steps() -> list[Step]:
    """Return the rows of the table of training steps."""
    found = []
    for row in read("training").rows:
        ours, theirs = (row[key] / row["copy_us"] for key in ("us", "pytorch_us"))
        found.append(Step(f"{row['row']}, {row['mode']}", ours, theirs, f"{ours:.1f}"))
    return found


def draw_steps(rows: list[Step]) -> None:
    """A line from our time to PyTorch's for each layer, in multiples of a copy, on a logarithmic axis."""
    figure = figure_of(9, 0.24 * len(rows) + 1.2)
    plot = figure.subplots()
    layers = [row.layer for row in rows]
    for row in rows:
        plot.plot([row.ours, row.theirs], [row.layer] * 2, color="#cccccc", linewidth=1, zorder=0)
        plot.text(1.9, row.layer, row.label, va="center", ha="right", fontsize=8, color=COLOURS["rung"])
    plot.plot([row.theirs for row in rows], layers, "o", color=COLOURS["PyTorch"], markersize=5, label="PyTorch")
    plot.plot([row.ours for row in rows], layers, "o", color=COLOURS["rung"], markersize=5, label="Tilewright")
    plot.axvline(3, color="black", linewidth=0.8)
    plot.set_xscale("log")
    plot.set_xlim(1.2, max(row.theirs for row in rows) * 1.5)
    ticks = (3, 10, 30, 100, 300, 1000)
    plot.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    horizontal(plot, "times as long as a copy of the input, logarithmic; the line is one copy for each of three passes")
    plot.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, "training")


@dataclass(frozen=True)
class Model:
    """A whole model: the time of `torch.compile` divided by that of each other way, and the backend's ratio as text."""

    name: str
    gains: dict[str, float]
    label: str


def models() -> list[Model]:
    """Return the rows of the table of whole models, in its order."""
    found = []
    for row in in_order(read("whole-models").rows):
        gains = {side: row["compile"] / row[side] for side in ("accelerate", "backend") if side in row}
        found.append(Model(row["row"], gains, f"{gains['backend']:.2f}"))
    return found


def draw_models(rows: list[Model]) -> None:
    """A bar for each model, with its number, and a mark for `accelerate` if that was timed."""
    figure = figure_of(9, 0.24 * len(rows) + 1.2)
    plot = figure.subplots()
    bars = plot.barh([row.name for row in rows], [row.gains["backend"] for row in rows], label='backend="tilewright"')
    for bar in bars:
        bar.set_color(COLOURS["rung"])
    plot.bar_label(bars, [row.label for row in rows], padding=8, fontsize=8)
    known = [(row.gains["accelerate"], row.name) for row in rows if "accelerate" in row.gains]
    plot.plot(*zip(*known, strict=True), "o", color=COLOURS["PyTorch"], markersize=5, label="accelerate")
    plot.axvline(1, color="black", linewidth=0.8)
    plot.set_xlim(0, max(row.gains["backend"] for row in rows) * 1.15)
    horizontal(plot, "times as fast as torch.compile, in a CUDA graph on one H200")
    plot.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, "models")


if __name__ == "__main__":
    draw_models(models())
    draw_shipped(shipped())
    draw_steps(steps())
    draw_ladders(ladders())
    draw_searches(searches())
