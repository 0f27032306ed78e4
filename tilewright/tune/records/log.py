"""Log files: appended line by line, so that nothing is lost; readers skip unreadable lines.

A line is written in one piece under a lock, and the system has it when `append` returns. Killing the process loses at
most the line being written. A line torn by an earlier crash remains a separate line.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...core.errors import UserError
from ...core.log import logger
from ...core.paths import file_path
from ...core.system import AS_BYTES, locked
from ...measure.outcome import MeasureResult, shorten
from .format import MeasureInput, Pair, decode, encode

_SYNC_SECONDS = 1.0  # between two requests to the disk: power may fail too, but records come by the hundred

_LONGEST_LINE = 1 << 24
_LONGEST_SKIP = 1 << 28
"""The most bytes of a record, and of a line that is skipped. At a longer line, reading of the file stops."""
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
          stat.S_IFSOCK: "a socket"}  # fmt: skip

_LONGEST_REASON = 300
_MOST_WARNINGS = 10  # per log: a log of another system may hold thousands of lines that are not records


def path_of(given: Any, primitive: str) -> Path:
    """The path of a file; raises UserError for an invalid one."""
    return file_path(given, primitive, "conv.log")


class RecordLog:
    """A log file open for appending; it is created if missing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of(path, "log_to_file")
        self._file = self._open()
        self._on_disk = stat.S_ISREG(os.fstat(self._file).st_mode)
        self._synced = time.monotonic()

    def _open(self) -> int:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | AS_BYTES, 0o666)
        except OSError as error:
            raise UserError(
                f"cannot write to {self.path}: {error.strerror}",
                primitive="log_to_file",
                fix="give a file in a folder that can be written",
            ) from error

    @property
    def regular_file(self) -> Path | None:
        """Return the path; None for a pipe or a terminal, which cannot be read back."""
        return self.path if self.path.is_file() else None

    def known(self) -> Iterator[Pair]:
        """Yield the measurements that are already in the log."""
        path = self.regular_file
        return load_from_file(path) if path is not None else iter(())

    def record(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Append one measurement."""
        self.append(encode(inp, result))

    def append(self, *lines: str) -> None:
        """Append lines, each in one piece; raise UserError if that fails, as on a full disk."""
        if self._on_disk and os.fstat(self._file).st_nlink == 0:  # deleted or replaced meanwhile
            fresh = self._open()
            os.close(self._file)
            self._file = fresh
        try:
            with locked(self._file):
                lead = "\n" if self._ends_within_a_line() else ""
                for line in lines:
                    self._write(f"{lead}{line}\n".encode())
                    lead = ""
            if time.monotonic() - self._synced >= _SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise UserError(
                f"cannot write to {self.path}: {error.strerror}",
                primitive="log_to_file",
                fix="free some disk space; the records written so far stay, and the next run resumes the log",
            ) from error

    def sync(self) -> None:
        """Flush written lines to the disk."""
        if self._on_disk:  # a pipe or a terminal keeps nothing
            os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close; nothing can be appended afterwards."""
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _ends_within_a_line(self) -> bool:
        size = os.fstat(self._file).st_size
        return size > 0 and os.lseek(self._file, size - 1, os.SEEK_SET) >= 0 and os.read(self._file, 1) != b"\n"

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            os.close(self._file)


@dataclass(frozen=True)
class SkippedLine:
    """A line of a log that is not a record."""

    line: int
    reason: str


def read(source: Iterable[bytes | str], name: str, problems: list[SkippedLine] | None = None) -> Iterator[Pair]:
    """Yield the measurements in lines; empty lines and comments are skipped.

    A line that is not a record is appended to `problems`, or reported to the `autotvm` logger, and skipped.
    """
    skipped = 0
    for number, row in enumerate(_rows(source, name), 1):
        try:
            if row is None:
                raise UserError(f"it is longer than {_LONGEST_LINE:,} characters", fix="a record is one line of JSON")
            text = (row.decode() if isinstance(row, bytes) else row).lstrip(_BYTE_ORDER_MARK)
            if text.strip() and not text.startswith("#"):
                yield decode(text)
        except (UserError, UnicodeDecodeError) as error:
            reason = shorten(error.message if isinstance(error, UserError) else str(error), _LONGEST_REASON)
            skipped += 1
            if problems is not None:
                problems.append(SkippedLine(number, reason))
            elif skipped <= _MOST_WARNINGS:
                logger.warning("%s:%d: skipped: %s", name, number, reason)
    if problems is None and skipped > _MOST_WARNINGS:
        logger.warning("%s: %d more lines skipped", name, skipped - _MOST_WARNINGS)


_BYTE_ORDER_MARK = "\ufeff"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def _rows(source: Any, name: str) -> Iterator[bytes | str | None]:
    """Yield the lines of an open file, or the given lines; None for a line that is too long. Raise UserError for other
    objects."""
    lines = _lines(source) if hasattr(source, "readline") else iter(source)
    try:
        for number, row in enumerate(lines):
            if not isinstance(row, (bytes, str, type(None))):
                raise UserError(
                    f"{name} yields {type(row).__name__}, not lines",
                    primitive="load_from_buffer",
                    fix="give an open file, or the lines of one",
                )
            if not number and isinstance(row, bytes) and row.startswith(_UTF16):
                raise _not_utf8(name, "it is UTF-16")
            yield row
    except UnicodeDecodeError as error:  # the file was opened as text
        raise _not_utf8(name, str(error)) from None


def _not_utf8(name: str, why: str) -> UserError:
    return UserError(
        f"cannot read {name}: {why}", primitive="load_from_file", fix="write it as UTF-8, as log_to_file does"
    )


def _lines(file: IO[Any]) -> Iterator[bytes | str | None]:
    """Yield the lines of a file; None for a line that is too long."""
    while row := file.readline(_LONGEST_LINE):
        if len(row) < _LONGEST_LINE or row[-1:] in ("\n", b"\n"):
            yield row
            continue
        skipped = len(row)
        while (row := file.readline(_LONGEST_LINE)) and row[-1:] not in ("\n", b"\n"):
            skipped += len(row)
            if skipped > _LONGEST_SKIP:
                break
        yield None
        if skipped > _LONGEST_SKIP:
            return


def _check_is_file(path: Path) -> None:
    """Raise UserError for a path that is not a regular file: reading it might never end."""
    kind = stat.S_IFMT(path.stat().st_mode)
    if kind != stat.S_IFREG:
        raise UserError(
            f"cannot read {path}: it is {_KINDS.get(kind, 'no file')}",
            primitive="load_from_file",
            fix="give a log of autotvm.callback.log_to_file; write data from a pipe to a file first",
        )


def load_from_file(
    filename: str | bytes | os.PathLike[str], problems: list[SkippedLine] | None = None
) -> Iterator[Pair]:
    """The measurements of a log file, in order; see `read` for the treatment of invalid lines."""
    path = path_of(filename, "load_from_file")
    try:
        _check_is_file(path)
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    return _closing(file, path, problems)


def _closing(file: IO[bytes], path: Path, problems: list[SkippedLine] | None) -> Iterator[Pair]:
    with file:
        try:
            yield from read(file, str(path), problems)
        except OSError as error:  # a disk or a network file system that fails, or a file of the kernel's own
            raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(
        f"cannot read {path}: {error.strerror}",
        primitive="load_from_file",
        fix="give a log that autotvm.callback.log_to_file wrote",
    )


def load_from_buffer(file: IO[Any], problems: list[SkippedLine] | None = None) -> Iterator[Pair]:
    """The measurements of an open file, from its present position."""
    return read(file, getattr(file, "name", "<buffer>"), problems)
