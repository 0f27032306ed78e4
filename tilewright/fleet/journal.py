"""A worker's journal: which candidates it began, and what became of them, kept through whatever ends the worker.

A candidate is begun once. One that was begun and has no outcome when the journal is opened again ended its worker, or
ended with it, and is recorded as failed. Tuners fetch outcomes as often as they like, and say when they have them.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import uuid
from enum import Enum, auto
from pathlib import Path

from ..core.errors import UserError
from ..measure.outcome import RunFailed
from .protocol import write_outcome

_KEPT_SECONDS = 30 * 86400.0
"""How long an outcome waits for a tuner that does not come back."""
_SCHEMA = """
create table if not exists identity (name text primary key);
create table if not exists trials (token text primary key, began real not null, life text not null, outcome text);
"""


class State(Enum):
    """What a journal says of a candidate that somebody wants measured."""

    NEW = auto()
    UNDER_WAY = auto()
    OVER = auto()


class Journal:
    """The journal in a folder, which one worker at a time may use."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise UserError(
                f"another worker uses {folder}",
                primitive="worker",
                fix="give each worker of a host a name of its own: --name gpu1",
            ) from None
        self._life = uuid.uuid4().hex
        self._data = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
        self._data.execute("pragma journal_mode=wal")
        self._data.executescript(_SCHEMA)
        self._data.execute("delete from trials where began < ?", (time.time() - _KEPT_SECONDS,))
        if self._data.execute("select name from identity").fetchone() is None:
            self._data.execute("insert into identity values (?)", (uuid.uuid4().hex,))
        (self.name,) = self._data.execute("select name from identity").fetchone()

    def begin(self, token: str) -> tuple[State, str]:
        """Begin a candidate unless it was begun before; the outcome where it has one."""
        added = self._data.execute(
            "insert or ignore into trials values (?, ?, ?, null)", (token, time.time(), self._life)
        )
        if added.rowcount:
            return State.NEW, ""
        life, outcome = self._data.execute("select life, outcome from trials where token = ?", (token,)).fetchone()
        if outcome is not None:
            return State.OVER, str(outcome)
        if life == self._life:
            return State.UNDER_WAY, ""
        lost = RunFailed(reason="its worker ended while it had it; it is not run again", killed=True)
        return State.OVER, self.finish(token, write_outcome(lost))

    def finish(self, token: str, outcome: str) -> str:
        """Keep an outcome; the first one stays. Returns the one that is kept."""
        self._data.execute("update trials set outcome = ? where token = ? and outcome is null", (outcome, token))
        found = self._data.execute("select outcome from trials where token = ?", (token,)).fetchone()
        return outcome if found is None else str(found[0])

    def forget(self, tokens: tuple[str, ...]) -> None:
        """Drop outcomes that the tuner has in its log; that they were begun is still known."""
        self._data.executemany(
            "update trials set outcome = '' where token = ? and outcome is not null", [(token,) for token in tokens]
        )

    def close(self) -> None:
        """Close the files."""
        self._data.close()
        os.close(self._lock)
