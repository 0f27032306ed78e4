"""Calls of functions that users wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import TVMError, caller_location


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Within the block, a function of the user's runs: its exceptions keep their type, with a note that names
    `what`."""
    try:
        yield
    except TVMError:
        raise  # says where by itself
    except Exception as error:
        where = caller_location()  # empty in `python -c` and at a prompt
        error.add_note(f"raised by {what}" + (f", called from {where}" if where else ""))
        raise
