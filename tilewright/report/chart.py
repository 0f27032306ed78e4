"""Bar charts, drawn with matplotlib if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .files import write
from .units import factor

WITH_CHARTS = "pip install 'tilewright[plot]'"
MISSING = f"matplotlib is not installed; for charts: {WITH_CHARTS}"
_OURS, _OTHERS = "#2f6f9f", "#b0b0b0"


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length (a speedup), a note, and its owner."""

    label: str
    value: float
    note: str = ""
    ours: bool = True


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def bar_chart(title: str, axis: str, bars: Sequence[Bar], *paths: Path) -> None:
    """Draw horizontal bars on a logarithmic axis, the first on top, into files; the endings name the formats."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.4 + 0.45 * len(bars)), layout="constrained")
    plot = figure.subplots()
    places = range(len(bars))
    drawn = plot.barh(
        places,
        [bar.value for bar in bars],
        color=[_OURS if bar.ours else _OTHERS for bar in bars],
        log=True,
    )
    plot.bar_label(drawn, [f"{factor(bar.value)}  {bar.note}".rstrip() for bar in bars], padding=4, fontsize=9)
    plot.set_yticks(places, [bar.label for bar in bars])
    plot.invert_yaxis()
    low, high = min(bar.value for bar in bars), max(bar.value for bar in bars)
    # Bars start below the shortest value, so that its bar is visible, and leave room on the right for labels.
    plot.set_xlim(min(low, 1.0) / 2, high * max(high / low, 10.0) ** 0.35)
    plot.xaxis.set_major_formatter(lambda value, _: f"{value:,g}×")
    plot.set_xlabel(axis)
    plot.set_title(title, fontsize=11, loc="left")
    plot.spines[["top", "right"]].set_visible(False)
    for path in paths:
        write(path, lambda file, path=path: figure.savefig(file, format=path.suffix[1:], dpi=150))  # type: ignore[misc]
