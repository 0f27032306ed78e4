"""Reports of waits: a search that waits for long names the reason."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger("autotvm")
_PATIENCE_SECONDS = 2.0


class Waits:
    """Logs each wait of more than two seconds once, and tells `on_wait` about it, with "" at its end."""

    def __init__(self, on_wait: Callable[[str], None] | None = None) -> None:
        self.on_wait = on_wait or (lambda what: None)
        self._what = ""
        self._until = 0.0
        self._told = False

    def note(self, what: str) -> float | None:
        """Note the reason of the present wait ("": none); returns the time at which to call again, if any."""
        if what != self._what:
            if self._told:
                self.on_wait("")
            self._what, self._until, self._told = what, time.monotonic() + _PATIENCE_SECONDS, False
        if not what or self._told:
            return None
        if time.monotonic() < self._until:
            return self._until
        self._told = True
        _log.info("waiting for %s", what)
        self.on_wait(what)
        return None
