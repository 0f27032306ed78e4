"""Messages between our own processes: pickles with their length and checksum in front, over a pair of sockets.

One process creates both ends before it forks, or hands one to a process that it starts. So nobody else can write to
them, except a candidate in the process that runs it. Reading never blocks on half a message. A process that dies or
hangs in the middle of one must not hold up the one that watches it. Other data are read as `Garbled`, and never raise.
"""

from __future__ import annotations

import errno
import pickle
import resource
import select
import socket
import struct
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..core.errors import UserError

_MARK = b"twm\n"
_HEAD = struct.Struct("<4sIQ")
"""The mark, a checksum of the message, and its length."""
_LARGEST_MESSAGE_BYTES = 1 << 30
"""Bytes of the longest message; a longer one comes from a faulty process."""
_MOST_BYTES_AT_ONCE = 1 << 26
"""Bytes that are received before messages are returned, so that an endless sender cannot block the receiver."""
LATE = 1.0
"""Seconds after a deadline that show that this process was stopped, or busy with other work."""
_WAIT_SECONDS = 3600.0
"""Seconds of the longest wait: system calls are limited to some days, and waking up early costs nothing."""


@dataclass(frozen=True)
class Garbled:
    """Data that are not a message, or that this process cannot read. `final`: no later data can be read either."""

    reason: str
    final: bool


class Channel:
    """One end of a two-way stream of messages."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.closed = False
        self._held = bytearray()
        self._missing = 0  # bytes of the message at the front, if known

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        try:
            a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            raise UserError(
                f"no file descriptor is left for another process that measures; this process may have {most} open",
                primitive="measure_option",
                fix="raise the limit (ulimit -n 1024), close files, or build fewer at once: LocalBuilder(n_parallel=1)",
            ) from error
        return cls(a), cls(b)

    def fileno(self) -> int:
        """The descriptor, for `poll`."""
        return self.socket.fileno()

    def send(self, message: Any, seconds: float | None = None) -> None:
        """Send a message; raise OSError if the other end is gone, or reads nothing within the time limit."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self.socket.settimeout(seconds)
        try:
            self.socket.sendall(_HEAD.pack(_MARK, zlib.crc32(data), len(data)))
            self.socket.sendall(data)
        finally:
            self.socket.settimeout(None)  # a time limit would make reading wait, too

    def exchange(self, message: Any) -> None:
        """Send a message, and receive meanwhile: two ends that only send would wait for each other forever.

        Then the descriptor may not be readable although a message waits: ask `holds_message`.
        """
        if self.closed:
            raise BrokenPipeError(errno.EPIPE, "the channel is closed")
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        left = memoryview(_HEAD.pack(_MARK, zlib.crc32(data), len(data)) + data)
        poll = select.poll()
        poll.register(self.socket.fileno(), select.POLLIN | select.POLLOUT)
        while left:
            ((_, events),) = poll.poll()
            if events & select.POLLIN:
                self._fill()
            with suppress(BlockingIOError):
                left = left[self.socket.send(left, socket.MSG_DONTWAIT) :]

    @property
    def holds_message(self) -> bool:
        """Whether a whole message was received that no caller has got yet."""
        if len(self._held) < _HEAD.size:
            return False
        mark, _, length = _HEAD.unpack_from(self._held)
        return bool(mark != _MARK or len(self._held) >= _HEAD.size + length)

    def receive(self) -> Any:
        """Wait for the next message; raises EOFError if the other end is gone."""
        while True:
            if (message := self._cut()) is not None:
                return message
            if self.closed:
                raise EOFError
            wait([self.socket.fileno()], None)  # `select` knows no descriptor above 1023
            self._fill()

    def arrived(self) -> list[Any]:
        """Return the whole messages that have arrived, without waiting; `closed` tells whether more can come."""
        self._fill()
        found = []
        while (message := self._cut()) is not None:
            found.append(message)
        return found

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        self.socket.close()

    def _fill(self) -> None:
        """Receive the data that have arrived."""
        while not self.closed and len(self._held) < _MOST_BYTES_AT_ONCE + self._missing:
            try:
                data = self.socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._held += data
            self.closed = not data

    def _cut(self) -> Any:
        """Remove and return the first whole message; None if no message is whole."""
        if len(self._held) < _HEAD.size:
            return None
        mark, check, length = _HEAD.unpack_from(self._held)
        if mark != _MARK or length > _LARGEST_MESSAGE_BYTES:
            return self._garbled("sent data that are not a message")
        end = _HEAD.size + length
        self._missing = end
        if len(self._held) < end:
            return None
        data = bytes(memoryview(self._held)[_HEAD.size : end])
        if zlib.crc32(data) != check:
            return self._garbled("sent a damaged message")
        del self._held[:end]
        self._missing = 0
        try:
            return pickle.loads(data)
        except Exception as error:  # perhaps only the sender knows an object's class
            return Garbled(f"sent data that cannot be read: {type(error).__name__}: {error}", final=False)

    def _garbled(self, reason: str) -> Garbled:
        """The beginning of the next message is unknown."""
        self._held.clear()
        self.close()
        return Garbled(reason, final=True)


def wait(descriptors: Iterable[int], until: float | None) -> set[int]:
    """Sleep until some of the descriptors are readable, or the clock `time.monotonic` says `until`; return those
    descriptors."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    # Rounded up: a wait that ends a moment early would be followed by another, and another.
    found = poll.poll(None if until is None else min(max(0.0, until - time.monotonic()), _WAIT_SECONDS) * 1e3 + 1)
    return {descriptor for descriptor, _ in found}
