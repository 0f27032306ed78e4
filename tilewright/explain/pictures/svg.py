"""SVG without a library: shapes in classes, with colours by the reader's light or dark scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...core.text import one_line
from ...report.inline_svg import clean

HUES = 8
"""Colours that tell neighbours apart: the classes `h0` to `h7`."""
FONT = 12
"""Size of plain text, in pixels; a letter is about 0.6 of it wide."""

_LIGHT = ("#dbe9f6", "#fde3cd", "#dcf0d8", "#f3dcec", "#fff2c4", "#d9f0ef", "#e6e0f4", "#f6dcd9")
_DARK = ("#274766", "#6b4423", "#2f5a2b", "#61345a", "#655518", "#1f5b59", "#453a6e", "#6d342f")
_SCHEMES = {
    "light": ("#ffffff", "#1f2328", "#59636e", "#8b949e", "#d0d7de", "#0b5cad", "#b3261e", "#f6f8fa", "#ffffff"),
    "dark": ("#0d1117", "#e6edf3", "#9198a1", "#6e7681", "#30363d", "#4ea1ff", "#ff7b72", "#161b22", "#0d1117"),
}


def _rules(scheme: str, hues: Sequence[str]) -> str:
    ground, ink, faint, line, grid, strong, bad, box, inverse = _SCHEMES[scheme]
    rules = {
        ".ground": f"fill:{ground}",
        "text": f"fill:{ink}",
        ".faint": f"fill:{faint}",
        ".edge": f"stroke:{line}",
        ".grid": f"stroke:{grid}",
        ".cut": f"stroke:{ink}",
        ".apart": f"stroke:{ground};stroke-width:.8",
        ".strong": f"fill:{strong}",
        ".bad": f"fill:{bad}",
        ".inverse": f"fill:{inverse}",
        ".box": f"fill:{box};stroke:{line}",
        ".flow": f"stroke:{ink}",
        ".at": f"stroke:{strong}",
        ".tip": f"fill:{ink}",
        ".tip-at": f"fill:{strong}",
        **{f".h{k}": f"fill:{color}" for k, color in enumerate(hues)},
    }
    return "".join(f"{name}{{{rule}}}" for name, rule in rules.items())


_STYLE = (
    "text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    ".mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".title{font-weight:600}.edge,.grid,.cut,.flow,.at{fill:none}.at{stroke-dasharray:5 3}"
    + _rules("light", _LIGHT)
    + "@media (prefers-color-scheme:dark){"
    + _rules("dark", _DARK)
    + "}"
)


@dataclass
class Picture:
    """A drawing that grows: shapes in order, and the room that they take."""

    parts: list[str] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def rect(self, x: float, y: float, w: float, h: float, kind: str, hint: str = "", stroke: float = 0.0) -> None:
        """A rectangle of a class; a `hint` appears when the pointer rests on it."""
        line = f' stroke-width="{_n(stroke)}"' if stroke else ""
        head = f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}"{line}'
        self.parts.append(f"{head}><title>{clean(one_line(hint))}</title></rect>" if hint else f"{head}/>")
        self._room(x + w, y + h)

    def text(self, x: float, y: float, what: str, size: float = FONT, kind: str = "", anchor: str = "start") -> None:
        """A line of text, its baseline at `y`."""
        named = f' class="{kind}"' if kind else ""
        at = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.parts.append(
            f'<text{named} x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}"{at}>{clean(one_line(what))}</text>'
        )
        wide = text_width(what, size)
        self._room(x + {"start": wide, "middle": wide / 2, "end": 0.0}[anchor], y + size / 4)

    def path(self, d: str, kind: str, stroke: float = 1.0, tip: str = "") -> None:
        """A path of a class; `tip` names the arrow head at its end. Give its room by `reserve`."""
        end = f' marker-end="url(#{tip})"' if tip else ""
        self.parts.append(f'<path class="{kind}" d="{d}" stroke-width="{_n(stroke)}"{end}/>')

    def reserve(self, x: float, y: float) -> None:
        """Make the picture reach at least so far."""
        self._room(x, y)

    def add(self, other: Picture, x: float, y: float) -> None:
        """Insert another picture with its corner at a point."""
        self.parts.append(f'<g transform="translate({_n(x)} {_n(y)})">{"".join(other.parts)}</g>')
        self._room(x + other.width, y + other.height)

    def _room(self, x: float, y: float) -> None:
        self.width, self.height = max(self.width, x), max(self.height, y)

    def document(self, title: str) -> str:
        """The whole file."""
        w, h = _n(self.width + 2 * _MARGIN), _n(self.height + 2 * _MARGIN)
        tips = "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="8" markerHeight="8" '
            f'markerUnits="userSpaceOnUse" orient="auto"><path class="{kind}" d="M0 0L8 4L0 8Z"/></marker>'
            for name, kind in (("flow", "tip"), ("at", "tip-at"))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" role="img" '
            f'aria-label="{clean(title)}"><title>{clean(title)}</title><style>{_STYLE}</style><defs>{tips}</defs>'
            f'<rect class="ground" width="{w}" height="{h}"/>'
            f'<g transform="translate({_MARGIN} {_MARGIN})">{"".join(self.parts)}</g></svg>\n'
        )


_MARGIN = 16


def below(pictures: Sequence[Picture], gap: float = 28.0) -> Picture:
    """The pictures below each other."""
    made = Picture()
    for picture in pictures:
        made.add(picture, 0, made.height + gap if made.parts else 0)
    return made


def beside(pictures: Sequence[Picture], gap: float = 32.0, most: float = 1100.0) -> Picture:
    """Arrange pictures side by side, in rows that fit a width."""
    made = Picture()
    x = y = 0.0
    for picture in pictures:
        if x and x + picture.width > most:
            x, y = 0.0, made.height + gap
        made.add(picture, x, y)
        x += picture.width + gap
    return made


def text_width(what: str, size: float = FONT) -> float:
    """About how wide a line of text is."""
    return 0.58 * size * len(what)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
