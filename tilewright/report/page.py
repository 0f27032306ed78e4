"""A page of HTML that holds all it shows: no script, no network, text from anywhere escaped."""

from __future__ import annotations

from collections.abc import Sequence

from .inline_svg import clean

_STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--fg:#1c1f24;--dim:#5b6270;--rule:#dfe2e7;--hot:#0b62c4;
--s0:#0b62c4;--s1:#c2410c;--s2:#15803d;--s3:#9333ea;--s4:#a16207;--s5:#be185d;--bar:#bcd5f2}
@media (prefers-color-scheme:dark){:root{--bg:#14171c;--card:#1b1f26;--fg:#e6e8ec;--dim:#a3abb8;--rule:#343a45;
--hot:#7db7ff;--s0:#7db7ff;--s1:#fb9a5b;--s2:#6ddc90;--s3:#c79bff;--s4:#e6c255;--s5:#ff8fbf;--bar:#2b4a70}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header,main,footer{max-width:1240px;margin:0 auto;padding:0 16px}header{padding-top:24px}
h1{font-size:1.6rem;margin:0}h2{font-size:1.25rem;margin:40px 0 8px;overflow-wrap:anywhere}
h3{font-size:1.05rem;margin:28px 0 8px}p{margin:8px 0}.dim,footer{color:var(--dim)}footer{padding:32px 16px}
a{color:var(--hot)}:focus-visible{outline:3px solid var(--hot);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-999px}.skip:focus{left:16px;top:8px;background:var(--card);padding:8px;z-index:1}
nav ol{padding-left:20px;margin:8px 0}nav li{overflow-wrap:anywhere}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:12px;margin:16px 0;padding:0}
.facts div{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:10px 14px}
.facts dt{color:var(--dim);font-size:.85rem}.facts dd{margin:0;font-size:1.3rem;font-weight:600;overflow-wrap:anywhere}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:0 32px;align-items:start}
.two>*{min-width:0}figure{margin:8px 0;background:var(--card);border:1px solid var(--rule);border-radius:8px
;padding:10px}
svg{display:block;width:100%;height:auto}svg text{font-size:12px;fill:var(--dim)}.grid{stroke:var(--rule)}
.axis{stroke:var(--dim);fill:none}.line{fill:none;stroke-width:2}.guess{fill:none}
.s0{stroke:var(--s0)}.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}.s4{stroke:var(--s4)}
.s5{stroke:var(--s5)}.dot{fill:var(--card)}.key{display:inline-block;width:18px;border-top:3px solid;margin-right:6px;
vertical-align:middle}.k0{color:var(--s0)}.k1{color:var(--s1)}.k2{color:var(--s2)}.k3{color:var(--s3)}
.k4{color:var(--s4)}.k5{color:var(--s5)}figcaption{font-size:.9rem}figcaption span.name{margin-right:16px}
.few{white-space:nowrap}.of{display:block;width:48px}
.wide{overflow-x:auto;margin:8px 0}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--dim);padding:4px 0}
caption span{display:inline-block;position:sticky;left:0;max-width:calc(100vw - 48px)}
th,td{padding:5px 12px 5px 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--rule)}td{overflow-wrap:anywhere}th{font-weight:600}
td.n,th.n{text-align:right;white-space:nowrap;overflow-wrap:normal}
tr.differs td,tr.differs th{color:var(--hot);font-weight:600}.bar{display:block;height:8px;min-width:1px;
margin-top:8px;border-radius:3px;
background:var(--bar)}details{margin:8px 0;border:1px solid var(--rule);border-radius:8px;background:var(--card)}
summary{padding:8px 14px;cursor:pointer}pre{margin:0;padding:12px 14px;overflow:auto;max-height:70vh;
font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;border-top:1px solid var(--rule)}
"""

# Nothing on the page may run or load, whatever the log's contents.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class Number(str):
    """Text of a right-aligned cell."""

    __slots__ = ()


class Markup(str):
    """HTML from the package; all other text is escaped."""

    __slots__ = ()


def html_of(text: str) -> str:
    """Return text as HTML: markup unchanged, other text escaped."""
    return text if isinstance(text, Markup) else clean(text)


def page(title: str, body: str) -> str:
    """Return a whole document; `body` has its header, and its content in `<main id="main">`."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{clean(title)}</title><style>{_STYLE}</style></head>\n"
        f'<body><a class="skip" href="#main">Skip to the content</a>{body}</body></html>\n'
    )


def facts(items: Sequence[tuple[str, str]]) -> str:
    """Return figures with their meaning, as a list of definitions."""
    rows = "".join(f"<div><dt>{html_of(name)}</dt><dd>{html_of(value)}</dd></div>" for name, value in items)
    return f'<dl class="facts">{rows}</dl>'


def grid(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[int] = ()) -> str:
    """Return a table; the first cell of a row is its head, `marked` rows stand out."""

    def cell(kind: str, text: str, scope: str = "") -> str:
        number = ' class="n"' if isinstance(text, Number) else ""
        inside = html_of(text)
        if kind == "th" and not isinstance(text, Markup):
            inside = inside.replace("_", "_<wbr>")  # line breaks allowed in names of knobs and kernels
        return f"<{kind}{scope}{number}>{inside}</{kind}>"

    top = "".join(cell("th", head, ' scope="col"') for head in heads)
    lines = []
    for i, row in enumerate(rows):
        cells = cell("th", row[0], ' scope="row"') + "".join(cell("td", text) for text in row[1:])
        kind = ' class="differs"' if i in marked else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    # A region that scrolls sideways can be reached, and moved, by keyboard.
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{clean(caption)}"><table><caption><span>'
        f"{clean(caption)}</span></caption><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def bar(share: float) -> Markup:
    """Return a bar that fills `share` of its width; the page shows the number next to it."""
    wide = f"{max(0.0, min(1.0, share)):.1%}"
    return Markup(f'<span class="of" aria-hidden="true"><span class="bar" style="width:{wide}"></span></span>')


def fold(summary: str, text: str) -> str:
    """Return long text that opens on demand."""
    return f'<details><summary>{clean(summary)}</summary><pre tabindex="0">{clean(text)}</pre></details>'
