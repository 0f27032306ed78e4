"""Step charts as inline SVG: drawn without a library, coloured by the style sheet of the page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from .units import duration

_WIDTH = 420
_HEIGHT = 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 28, 12, 40  # the last mark may stand at the right edge: room for half of 100,000
COLORS = 6
"""Colours of the style sheet; a seventh line takes the first again."""


@dataclass(frozen=True)
class Steps:
    """A line that keeps its value until the next point, and goes on to `end`; values are seconds."""

    name: str
    points: Sequence[tuple[float, float]]
    end: float
    predicted: Sequence[tuple[float, float]] = ()


def clean(text: str) -> str:
    """Return text from anywhere as HTML shows it: no markup, no control characters, no surrogates."""
    kept = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text.expandtabs())
    return html.escape(kept)


def step_chart(title: str, across: str, lines: Sequence[Steps]) -> str:
    """Return the chart of lines that have points, with a logarithmic axis of time upwards."""
    values = [y for line in lines for _, y in (*line.points, *line.predicted)]
    low, high = math.log10(min(values)) - 0.02, math.log10(max(values)) + 0.04
    if high - low < 0.1:
        low, high = low - 0.05, high + 0.05
    most = max(max(line.end for line in lines), 1e-9)

    def at(x: float, y: float) -> tuple[float, float]:
        up = (math.log10(y) - low) / (high - low)
        return (
            round(_LEFT + x / most * (_WIDTH - _LEFT - _RIGHT), 1),
            round(_HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM), 1),
        )

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{clean(title)}"><title>{clean(title)}</title>'
    ]
    for y in _marks(low, high):
        _, v = at(0, y)
        parts.append(f'<path class="grid" d="M{_LEFT} {v}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{v + 4}" text-anchor="end">{_short(y)}</text>')
    for x in _ticks(most):
        h, _ = at(x, 10**low)
        parts.append(f'<text x="{h}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{x:,.10g}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>')
    parts.append(f'<text x="{(_LEFT + _WIDTH) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">{clean(across)}</text>')
    for i, line in enumerate(lines):
        if not line.points:
            continue
        color = f"s{i % COLORS}"
        x, y = at(*line.points[0])
        path = f"M{x} {y}" + "".join("H{}V{}".format(*at(*point)) for point in line.points[1:])
        parts.append(f'<path class="line {color}" d="{path}H{at(line.end, line.points[-1][1])[0]}"/>')
        for mark, points in (("dot", line.points), ("guess", line.predicted)):
            for point in points:
                h, v = at(*point)
                parts.append(f'<circle class="{mark} {color}" cx="{h}" cy="{v}" r="3"/>')
    return "".join(parts) + "</svg>"


def _short(seconds: float) -> str:
    number, unit = duration(seconds).split()
    return f"{float(number.replace(',', '')):,.4g} {unit}"


def _marks(low: float, high: float) -> list[float]:
    """Return round values between two powers of ten, at most about six of them."""
    for steps in (
        (1.0,),
        (1.0, 3.0),
        (1.0, 2.0, 5.0),
        (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
        tuple(i / 10 for i in range(10, 100, 2)),
    ):
        found = [s * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for s in steps]
        found = [y for y in found if low <= math.log10(y) <= high]
        if len(found) >= 3:
            return found[:: -(-len(found) // 7)]
    middle = (low + high) / 2
    return [10.0 ** (low + 0.02), 10.0**middle, 10.0 ** (high - 0.04)]


def _ticks(most: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(most / 3))
    step = next(step * k for k in (1, 2, 5, 10) if most / (step * k) <= 5)
    return [round(i * step, 10) for i in range(int(most / step) + 1)]
