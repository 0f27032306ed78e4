"""A tuner's ledger: the candidates that it sent to workers and has no record of yet.

It lies beside the log, as LOG.fleet, and outlives the tuner: the next one asks these workers for their outcomes instead
of measuring anew. It is removed when no candidate is open.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import UserError
from ..core.system import try_lock


@dataclass(frozen=True)
class Sent:
    """A candidate that was sent: its token, its identity, and its worker."""

    token: str
    identity: str
    worker: str


class Ledger:
    """The ledger of a log; without a log, it is kept in memory."""

    def __init__(self, log: Path | None) -> None:
        self.open: dict[str, Sent] = {}
        self.campaign = uuid.uuid4().hex
        self._path = None if log is None else log.with_name(log.name + ".fleet")
        self._file = -1
        if self._path is not None:
            self._file = self._opened(self._path)
            self._read()

    def send(self, sent: list[Sent]) -> None:
        """Note candidates that are about to be sent."""
        self.open.update((one.token, one) for one in sent)
        self._write([{"sent": [one.token, one.identity, one.worker]} for one in sent])

    def settle(self, token: str) -> None:
        """Note that the log has the record of a candidate."""
        if self.open.pop(token, None) is not None:
            self._write([{"settled": token}])

    def close(self) -> None:
        """Close the ledger; its file is removed if no candidate is open."""
        if self._file >= 0:
            if not self.open and self._path is not None:
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._file)
            self._file = -1

    def _opened(self, path: Path) -> int:
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            except OSError as error:
                raise UserError(
                    f"cannot write to {path}: {error.strerror}",
                    primitive="fleet",
                    fix="keep the log in a folder that can be written",
                ) from error
            if not try_lock(file):
                os.close(file)
                raise UserError(
                    f"another process tunes on a fleet into {path.with_suffix('')}",
                    primitive="fleet",
                    fix="wait for it, or give another log",
                )
            if os.fstat(file).st_nlink:  # not removed between the two steps
                return file
            os.close(file)

    def _read(self) -> None:
        with open(os.dup(self._file), "rb") as file:
            file.seek(0)
            for row in file:
                with suppress(ValueError, KeyError, TypeError):  # the last line may be torn
                    line = json.loads(row)
                    if "sent" in line:
                        one = Sent(*line["sent"])
                        self.open[one.token] = one
                    else:
                        self.open.pop(line["settled"], None)
        self._write([], lead=b"\n")

    def _write(self, lines: list[dict[str, object]], lead: bytes = b"") -> None:
        data = lead + b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        try:
            while self._file >= 0 and data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise UserError(
                f"cannot write to {self._path}: {error.strerror}",
                primitive="fleet",
                fix="free some disk space; the next run with this log asks the workers for their results",
            ) from error
