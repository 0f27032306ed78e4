"""Names in generated text: each variable and buffer gets a unique one, similar to its name in the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ..core.text import identifier

_LONG = 32
"""Length of a name beyond which the words for splits and fusions of an axis become letters."""
_SPLIT = re.compile(r"(?:\.(?:outer|inner))+")
_NOBODYS = re.compile(r"(?!)")


class Names:
    """Assigns every object (by identity) one name that nothing else in the text has.

    `reserved` are words of the language and of the text around; `owned` matches families of them. `kin` are the endings
    under which the text derives further names from a name (`A_kind`): these are reserved with it.
    """

    def __init__(
        self, reserved: Iterable[str] = (), owned: re.Pattern[str] = _NOBODYS, kin: Iterable[str] = ()
    ) -> None:
        self._taken = set(reserved)
        self._owned = owned
        self._endings = ("", *kin)
        self._of: dict[Any, str] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, thing: Any) -> str:
        """The unique name of a variable or buffer, similar to its name in the program."""
        found = self._of.get(thing)
        if found is None:
            found = self._of[thing] = self.fresh(_shortened(thing.name))
        return found

    def fresh(self, wish: str) -> str:
        """Return an unused name: the requested one, with a number appended if it is taken."""
        base = identifier(wish)
        if self._owned.fullmatch(base):
            base = f"v_{base}"
        name, count = base, self._counts.get(base, 0)
        while not self._taken.isdisjoint(name + ending for ending in self._endings):
            count += 1
            name = f"{base.rstrip('_')}_{count}"
            if self._owned.fullmatch(name):  # `copy` with a number is a helper function
                name = f"v_{name}"
        self._counts[base] = count
        self._taken.update(name + ending for ending in self._endings)
        return name

    def bind(self, thing: Any, text: str) -> None:
        """Let `thing` print as `text` from now on."""
        self._of[thing] = text


def _shortened(name: str) -> str:
    """Shorten a name that consists of axes' names; the axes and the order of splits stay readable.

    `ax0.ax1.fused.ax2.fused.outer.outer.inner` becomes `ax0.ax1.ax2.ooi`, and `rc.outer.inner.ry.outer.rx.outer`
    becomes `rc.oi.ry.o.rx.o`. The lowered program has the whole names.
    """
    if len(name) <= _LONG:
        return name
    return _SPLIT.sub(
        lambda found: "." + found[0].replace(".outer", "o").replace(".inner", "i"), name.replace(".fused", "")
    )
