"""What every error owes the user, checked in one place."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tilewright.core.errors import TVMError, UserError

SEEN: set[tuple[str, str]] = set()
"""The mistakes of this run: the primitive, and the message without its names and numbers."""


@contextmanager
def refused(primitive: str, *says: str, fix: str | None = "", step: str = "") -> Iterator[None]:
    """The block is refused by `primitive`, with every part of `says` in the message and `fix` in its remedy.

    `step` is the beginning of a schedule step that the error names, with the line that did it.

    The error is of the users' family and names the line of the caller; with `fix=None` it may leave the remedy to
    what it says.
    """
    caller = sys._getframe(2)
    with pytest.raises(TVMError) as caught:
        yield
    error = caught.value
    shown = str(error)
    assert isinstance(error, UserError), shown
    assert error.primitive == primitive, shown
    assert error.__suppress_context__ or error.__context__ is None, f"the traceback begins with {error.__context__!r}"
    SEEN.add((primitive, re.sub(r"'[^']*'|`[^`]*`|\d+|\[.*?\]", "·", error.message)))
    if primitive:
        assert shown.startswith(f"{primitive}: "), shown
    for part in says:
        assert part in error.message, f"{part!r} is missing in\n{shown}"
    if fix is not None:
        assert error.fix, f"no fix in\n{shown}"
        assert f"\n  fix: {error.fix}" in shown
        assert fix in error.fix, f"{fix!r} is missing in the fix of\n{shown}"
    steps = [line.removeprefix("  step: ") for line in shown.splitlines() if line.startswith("  step: ")]
    assert steps == list(error.steps), shown
    assert not step or any(each.startswith(step) for each in steps), f"step {step!r} is not named in\n{shown}"
    assert all(re.search(r" at .*\.py:\d+$", each) for each in steps), shown
    at = re.search(r"^  at:  (.*):(\d+)$", shown, re.MULTILINE)
    assert at, f"no place in\n{shown}"
    name = caller.f_code.co_filename
    line = [frame.lineno for frame in traceback.extract_tb(caught.tb) if frame.filename == name][-1]
    assert (at[1], int(at[2])) == (name, line), shown
