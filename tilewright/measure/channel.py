"""Messages between our own processes: pickles with their length in front, over a pair of sockets.

Both ends are made by one process before it forks, or handed to a process that it starts, so nobody else can write
to them. Reading never blocks on half a message: a process that dies or hangs in the middle of one must not hold up
the one that watches it.
"""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

_LENGTH = struct.Struct("<Q")
_LARGEST = 1 << 36
"""Bytes; a longer message is a sign of a process that has lost its mind."""


class Channel:
    """One end of a two-way stream of messages."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.closed = False
        self._held = bytearray()

    @classmethod
    def pair(cls) -> tuple[Channel, Channel]:
        """Two connected ends."""
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(a), cls(b)

    def fileno(self) -> int:
        """The descriptor, for `poll`."""
        return self.socket.fileno()

    def send(self, message: Any, seconds: float | None = None) -> None:
        """Send a message; OSError where the other end is gone, or takes nothing for that many seconds."""
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self.socket.settimeout(seconds)
        try:
            self.socket.sendall(_LENGTH.pack(len(data)))
            self.socket.sendall(data)
        finally:
            self.socket.settimeout(None)  # a time limit would make reading wait, too

    def receive(self) -> Any:
        """The next message, waited for; EOFError where the other end is gone."""
        while True:
            if (data := self._cut()) is not None:
                return pickle.loads(data)
            if self.closed:
                raise EOFError
            select.select([self.socket], [], [])
            self._fill()

    def arrived(self) -> list[Any]:
        """The messages that are here whole, without waiting; `closed` says whether more can come."""
        self._fill()
        found = []
        while (data := self._cut()) is not None:
            found.append(pickle.loads(data))
        return found

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        self.socket.close()

    def _fill(self) -> None:
        """Take in what has arrived."""
        while not self.closed:
            try:
                data = self.socket.recv(1 << 20, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._held += data
            self.closed = not data

    def _cut(self) -> bytes | None:
        """The bytes of the first whole message."""
        if len(self._held) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._held)
        if length > _LARGEST:
            raise ValueError(f"a message of {length:,} bytes")
        end = _LENGTH.size + length
        if len(self._held) < end:
            return None
        data = bytes(self._held[_LENGTH.size : end])
        del self._held[:end]
        return data


def wait(descriptors: Iterable[int], until: float | None) -> set[int]:
    """Sleep until something can be read from some of the descriptors, or the clock `time.monotonic` says `until`;
    gives those descriptors."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    # Rounded up: a wait that ends a moment early would be followed by another, and another.
    found = poll.poll(None if until is None else max(0.0, until - time.monotonic()) * 1e3 + 1)
    return {descriptor for descriptor, _ in found}
