"""The logger of tuning, under the legacy system's name. Its output is safe for a terminal."""

from __future__ import annotations

import logging
from typing import TextIO

from .text import printable


class _Printable(logging.Filter):
    """Escapes control characters in all logged text: names, reasons and paths are other people's text."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.args:
            try:
                record.msg, record.args = record.getMessage(), ()
            except (TypeError, ValueError):  # the handlers report the error, as for any logger
                return True
        record.msg = printable(str(record.msg))
        return True


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal; False if it is missing or closed."""
    return stream is not None and not getattr(stream, "closed", False) and stream.isatty()


logger = logging.getLogger("autotvm")
logger.addFilter(_Printable())
