"""Names in generated text: each variable and buffer gets one of its own, close to the name it has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_LONG = 32
"""Characters of a name beyond which the words for how an axis was split and fused become letters."""
_SPLIT = re.compile(r"(?:\.(?:outer|inner))+")
_NOT_IN_A_NAME = re.compile(r"\W+", re.ASCII)  # C compilers differ in what else they take


class Names:
    """Gives every object (by identity) one name that nothing else in the text has."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._of: dict[Any, str] = {}

    def __call__(self, thing: Any) -> str:
        """The name of a variable or buffer: its own, made unique."""
        found = self._of.get(thing)
        if found is None:
            found = self._of[thing] = self.fresh(_shortened(thing.name))
        return found

    def fresh(self, wish: str) -> str:
        """A name that nobody has: the wished one, or that with a number."""
        base = _NOT_IN_A_NAME.sub("_", wish) or "v"
        if base[0].isdigit():
            base = "v" + base
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def bind(self, thing: Any, text: str) -> None:
        """Let `thing` print as `text` from now on."""
        self._of[thing] = text


def _shortened(name: str) -> str:
    """A long name made of axes' names, with the axes and the order of splits kept.

    `ax0.ax1.fused.ax2.fused.outer.outer.inner` gives `ax0.ax1.ax2.ooi`; `rc.outer.inner.ry.outer.rx.outer` gives
    `rc.oi.ry.o.rx.o`. The lowered program has the whole names.
    """
    if len(name) <= _LONG:
        return name
    return _SPLIT.sub(
        lambda found: "." + found[0].replace(".outer", "o").replace(".inner", "i"), name.replace(".fused", "")
    )
