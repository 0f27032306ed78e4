"""Line charts of search results, drawn with matplotlib if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .files import write

_LONG_LABEL = 30
"""Characters."""


@dataclass(frozen=True)
class Line:
    """A search: its label, and the best value after each trial (None before the first success)."""

    label: str
    values: Sequence[float | None]


def line_chart(title: str, axis: str, lines: Sequence[Line], *paths: Path) -> None:
    """Draw the best value against the number of trials into files; the endings name the formats."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    plot = figure.subplots()
    for line in lines:
        known = [(i, v) for i, v in enumerate(line.values, 1) if v is not None]
        # A line of one point is invisible.
        style = {"marker": "o"} if len(known) == 1 else {"linewidth": 1.6}
        plot.step([i for i, _ in known], [v for _, v in known], where="post", label=line.label, **style)
    plot.set_xlabel("trials")
    plot.set_ylabel(axis)
    plot.set_ylim(bottom=0)
    plot.set_xlim(left=0)
    plot.set_title(title, fontsize=11, loc="left")
    plot.grid(alpha=0.25)
    if max(len(line.label) for line in lines) > _LONG_LABEL:
        figure.legend(loc="outside lower left", frameon=False, fontsize=9)  # below, so that it hides no line
    else:
        plot.legend(frameon=False, fontsize=9)
    plot.spines[["top", "right"]].set_visible(False)
    for path in paths:
        write(path, partial(figure.savefig, format=path.suffix[1:], dpi=150))
