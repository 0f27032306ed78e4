"""Progress of operations that take seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ..core.log import is_terminal
from ..core.text import one_line

FIRST_SECONDS, MORE_SECONDS = 2.0, 10.0
"""The seconds before the first line of progress, and between further lines, if stderr is not a terminal."""
Reporters = tuple[Callable[[str], None], Callable[[], None]]


@contextmanager
def progress(total: int, lines: bool = False) -> Iterator[Reporters]:
    """A status line on stderr that vanishes at the end.

    Gives `say(what)` and `step()`, which counts one of `total` as done. If stderr is not a terminal, it gets nothing,
    or a line from time to time if `lines` is true.
    """
    if not is_terminal(sys.stderr):
        with _lines(total, sys.stderr if lines else None) as reporters:
            yield reporters
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


@contextmanager
def _lines(total: int, stream: TextIO | None) -> Iterator[Reporters]:
    """Write lines such as "3 of 8: building" to a stream until the block ends; none for a block of two seconds."""
    if stream is None or stream.closed:
        yield lambda what: None, lambda: None
        return
    what, done, ended = [""], [0], threading.Event()

    def step() -> None:
        done[0] += 1

    def write() -> None:
        seconds = FIRST_SECONDS
        while not ended.wait(seconds):
            print(f"{done[0]} of {total}: {one_line(what[0])}", file=stream, flush=True)
            seconds = MORE_SECONDS

    writer = threading.Thread(target=write, name="progress", daemon=True)
    writer.start()
    try:
        yield lambda text: what.__setitem__(0, text), step
    finally:
        ended.set()
        writer.join()
