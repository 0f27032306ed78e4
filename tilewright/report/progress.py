"""Progress of operations that take seconds, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..core.log import is_terminal
from ..core.text import one_line


@contextmanager
def progress(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """A status line on stderr that vanishes at the end; none if stderr is not a terminal.

    Gives `say(what)` and `step()`, which counts one of `total` as done.
    """
    if not is_terminal(sys.stderr):
        yield lambda what: None, lambda: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.SpinnerColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.description}", markup=False),
    )
    # stdout stays as it is: it may be a file while stderr is a terminal.
    # Few refreshes: each takes a little time from the core that is being timed.
    screen = Console(stderr=True)
    with rich.Progress(*columns, console=screen, transient=True, redirect_stdout=False, refresh_per_second=4) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, description=one_line(what)), lambda: bar.advance(task)
