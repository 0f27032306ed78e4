"""A worker's journal: which candidates it ran, and their outcomes, kept on disk when the worker ends.

A candidate runs once. When the journal is opened again, a started candidate without an outcome has ended its worker, or
ended with it, and is recorded as failed. So is a candidate that was being built when two workers ended. Tuners can
fetch an outcome several times, and acknowledge it.
"""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from enum import Enum, auto
from pathlib import Path

from ..core.cache_folder import DIRECTORY_VARIABLE
from ..core.errors import UserError
from ..core.system import try_lock
from ..measure.outcome import RunFailed
from .protocol import write_outcome

_KEPT_SECONDS = 30 * 86400.0
"""How long an outcome is kept for a tuner that does not return."""
_MOST_WORKERS_LOST = 2
"""The most successive workers that may end while they build one candidate."""
_SCHEMA = """
create table if not exists identity (name text primary key);
create table if not exists trials (
    token text primary key, began real not null, life text not null, lives integer not null default 1,
    ran integer not null default 0, outcome text
);
"""


class State(Enum):
    """The journal's entry of a candidate that a tuner sends."""

    NEW = auto()
    UNDER_WAY = auto()
    OVER = auto()


class Journal:
    """The journal in a folder, which one worker at a time may use."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UserError(
                f"cannot keep a journal in {folder}: {error.strerror}",
                primitive="worker",
                fix=f"set {DIRECTORY_VARIABLE} to a folder that can be written",
            ) from error
        if not try_lock(self._lock):
            os.close(self._lock)
            raise UserError(
                f"another worker uses {folder}",
                primitive="worker",
                fix="give each worker of a host a name of its own: --name gpu1",
            )
        self._life = uuid.uuid4().hex
        try:
            self._open(folder)
        except sqlite3.Error as error:
            os.close(self._lock)
            raise UserError(
                f"cannot use the journal in {folder}: {error}",
                primitive="worker",
                fix="remove the folder: outcomes that no tuner has fetched are then lost",
            ) from error

    def _open(self, folder: Path) -> None:
        self._data = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
        self._data.execute("pragma journal_mode=wal")
        # The written data outlives every process of this host. Waiting for the disk at each of a trial's four notes
        # would also survive a crash of the host. It costs up to 50 ms each, in which the worker hears nothing.
        self._data.execute("pragma synchronous=normal")
        self._data.executescript(_SCHEMA)
        self._data.execute("delete from trials where began < ?", (time.time() - _KEPT_SECONDS,))
        if self._data.execute("select name from identity").fetchone() is None:
            self._data.execute("insert into identity values (?)", (uuid.uuid4().hex,))
        (self.name,) = self._data.execute("select name from identity").fetchone()

    def take(self, token: str) -> tuple[State, str]:
        """Accept a candidate unless it ran before; returns its state and its outcome, if there is one."""
        added = self._data.execute(
            "insert or ignore into trials (token, began, life) values (?, ?, ?)", (token, time.time(), self._life)
        )
        if added.rowcount:
            return State.NEW, ""
        row = self._data.execute("select life, lives, ran, outcome from trials where token = ?", (token,)).fetchone()
        life, lives, ran, outcome = row
        if outcome is not None:
            return State.OVER, str(outcome)
        if life == self._life:
            return State.UNDER_WAY, ""
        if not ran and lives < _MOST_WORKERS_LOST:  # candidate in a build; perhaps its neighbour ended the worker
            self._data.execute("update trials set life = ?, lives = lives + 1 where token = ?", (self._life, token))
            return State.NEW, ""
        lost = RunFailed(reason="its worker ended while it had it; it is not run again", killed=True)
        return State.OVER, self.finish(token, write_outcome(lost))

    def run(self, token: str) -> None:
        """Note that a candidate is about to run."""
        self._data.execute("update trials set ran = 1 where token = ?", (token,))

    def finish(self, token: str, outcome: str) -> str:
        """Keep an outcome unless the candidate has one already; returns the kept outcome."""
        self._data.execute("update trials set outcome = ? where token = ? and outcome is null", (outcome, token))
        found = self._data.execute("select outcome from trials where token = ?", (token,)).fetchone()
        return outcome if found is None else str(found[0])

    def forget(self, tokens: tuple[str, ...]) -> None:
        """Drop outcomes that the tuner has in its log, but remember that their candidates were begun."""
        self._data.executemany(
            "update trials set outcome = '' where token = ? and outcome is not null", [(token,) for token in tokens]
        )

    def close(self) -> None:
        """Close the files."""
        self._data.close()
        os.close(self._lock)
