"""The courier: the process of a tuner that communicates with Dask's scheduler.

It is started fresh, as `python -m tilewright.fleet.courier DESCRIPTOR`. It decides nothing: the tuner assigns
candidates to workers and handles losses (`dispatch.py`). It ends with the tuner, and when the scheduler is gone.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import socket
import sys
import uuid
from contextlib import suppress
from typing import Any

from ..core.errors import UserError
from ..measure.channel import Channel
from ..measure.outcome import RunFailed, shorten
from .protocol import Answered, Connect, Finished, Joined, Leave, Left, Ping, Send, Unreachable, write_outcome
from .security import security_of
from .serve import quieten
from .worker import ANNOUNCED, in_hand, measure

_LOOK_SECONDS = 0.5
_LIST_SECONDS = 10.0
"""Seconds between two lists of the workers, if no event says that they changed."""
_PING_SECONDS = 15.0


class Courier:
    """Passes messages between a tuner's channel and a Dask client."""

    def __init__(self, channel: Channel, client: Any) -> None:
        self.channel = channel
        self.client = client
        self.addresses: dict[str, str] = {}
        self._known: dict[str, str] = {}  # Dask's address → the worker's own name
        self._futures: dict[str, set[Any]] = {}
        # Keys of another courier's tasks, which the scheduler may still know, are different ones.
        self._keys = (f"tilewright-{uuid.uuid4().hex}-{number}" for number in itertools.count())
        self._listed = False
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Serve until the tuner or the scheduler is gone."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.channel.fileno(), self._hear)
        self.client.subscribe_topic("all", self._on_event)
        self._start(self._watch())
        await self._over.wait()
        loop.remove_reader(self.channel.fileno())
        with suppress(Exception):  # otherwise the scheduler fails to tell this client that it left, and logs that
            self.client.unsubscribe_topic("all")

    def _on_event(self, event: Any) -> None:
        if isinstance(event[1], dict) and event[1].get("action") in ("add-worker", "remove-worker"):
            self._changed.set()

    async def _watch(self) -> None:
        """Tell the tuner of workers that come and go, and end when the scheduler is not there."""
        loop = asyncio.get_running_loop()
        listed = -_LIST_SECONDS
        while True:
            if self.client.status != "running":
                self._end("the connection to the scheduler broke")
                return
            if self._changed.is_set() or loop.time() - listed >= _LIST_SECONDS:
                self._changed.clear()
                began = loop.time()
                try:
                    await self._list()
                except Exception as error:  # Dask passes on any error of the scheduler
                    self._end(f"the scheduler does not answer: {type(error).__name__}: {error}")
                    return
                listed = loop.time()
                await asyncio.sleep(min(5.0, 4 * (listed - began)))  # a list of a thousand workers is long
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _LOOK_SECONDS)

    async def _list(self) -> None:
        found = (await self.client.scheduler.identity(n_workers=-1))["workers"]
        for address in self._known.keys() - found.keys():
            name = self._known.pop(address)
            await self._drop(address)
            if self.addresses.get(name) == address:
                del self.addresses[name]
                self._tell(Left(name))
        fresh = []
        for address, worker in found.items():
            text = worker.get(ANNOUNCED)
            if address not in self._known and isinstance(text, str):
                name = _name_of(text)
                self._known[address] = name
                self.addresses[name] = address
                fresh.append(text)
        if fresh or not self._listed:
            self._tell(Joined(tuple(fresh)))
        self._listed = True

    async def _drop(self, address: str) -> None:
        """Have the scheduler forget the candidates of a lost worker, so that no other worker runs them."""
        futures = self._futures.pop(address, set())
        if futures:
            with suppress(Exception):
                await self.client.cancel(list(futures), force=True)

    def _hear(self) -> None:
        for message in self.channel.arrived():
            if isinstance(message, Send):
                self._start(self._send(message))
            elif isinstance(message, Ping):
                self._start(self._ping(message.worker))
            elif isinstance(message, Leave):
                self._over.set()
        if self.channel.closed:
            self._over.set()

    async def _send(self, message: Send) -> None:
        address = self.addresses.get(message.worker)
        if address is None:  # the tuner hears that it left
            return
        future = self.client.submit(
            measure,
            [tuple(item) for item in message.work],
            list(message.settled),
            key=next(self._keys),
            workers=[address],
            allow_other_workers=False,
            retries=0,
            pure=False,
        )
        own = self._futures.setdefault(address, set())
        own.add(future)
        try:
            outcomes = await future
        except asyncio.CancelledError:
            return
        except Exception as error:
            if type(error).__name__ not in _LOSSES:
                reason = f"the worker failed: {type(error).__name__}: {error}"
                lost = write_outcome(RunFailed(reason=shorten(reason), killed=True))
                self._tell(Finished(message.worker, tuple((token, lost) for token, _ in message.work)))
            return
        finally:
            own.discard(future)
            future.release()
        self._tell(Finished(message.worker, tuple((str(token), str(outcome)) for token, outcome in outcomes)))

    async def _ping(self, worker: str) -> None:
        address = self.addresses.get(worker)
        if address is None:
            return
        with suppress(Exception):  # the tuner needs to know that there is no answer
            answer = await asyncio.wait_for(self.client.run(in_hand, workers=[address]), _PING_SECONDS)
            self._tell(Answered(worker, tuple(answer[address])))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, message: Any) -> None:
        try:
            self.channel.send(message)
        except OSError:
            self._over.set()

    def _end(self, reason: str) -> None:
        self._tell(Unreachable(reason))
        self._over.set()


_LOSSES = ("KilledWorker", "FutureCancelledError", "CancelledError", "CommClosedError", "NoValidWorkerError")
"""Dask's errors when a worker or the scheduler is gone; other messages tell the tuner."""


def _name_of(announcement: str) -> str:
    from .protocol import Announcement

    try:
        return Announcement.read(announcement).name
    except UserError:
        return announcement[:200]


async def _connect(channel: Channel, connect: Connect) -> None:
    from distributed import Client

    files = dict(connect.security)
    try:
        security = security_of(
            connect.address, (files.get("ca", ""), files.get("cert", ""), files.get("key", "")), "client"
        )
        client = await Client(
            connect.address, security=security, asynchronous=True, timeout=10, set_as_default=False, name="tilewright"
        )
    except UserError as error:
        channel.send(Unreachable(error.message, final=True))
        return
    except (OSError, TimeoutError) as error:
        channel.send(Unreachable(f"no scheduler answers at {connect.address}: {error}"))
        return
    try:
        await Courier(channel, client).run()
    finally:
        with suppress(Exception):
            await asyncio.wait_for(client.close(timeout=2), 5)


def main(descriptor: int) -> None:
    """Serve the tuner over an inherited socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quieten(logging.CRITICAL)
    channel = Channel(socket.socket(fileno=descriptor))
    with suppress(EOFError, OSError):
        asyncio.run(_connect(channel, channel.receive()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
