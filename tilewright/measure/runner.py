"""The process that runs candidates on one device: it may hang, crash or be killed; the server cleans up.

It is forked from the server, opens the device, and serves one request after the other: run once on poisoned output,
compare, time, compare again. With each outcome it says whether it is fit for the next request. The outcome travels
through `server.py` to the loop in `batch.py`, which asked for it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace

from ..core.errors import UserError
from ..runtime.device import device
from .channel import Channel
from .device_runner import DeviceRunner
from .process_state import Surroundings, has_children, kill_descendants
from .protocol import Accepted, Completed, CooledDown, DeviceReady, FirstRunOver, OpenFailed, RunRequest

_REQUESTS_EACH = 1000
"""Requests after which a process is replaced: drivers keep some memory for every kernel that they loaded."""


def serve(channel: Channel, kind: str, index: int) -> None:
    """Serve requests from a channel until it closes or the process is no longer fit."""
    try:
        runner = DeviceRunner(device(kind, index).require())
        attributes = runner.on.attributes
        runner.on.sync()
    except UserError as error:
        channel.send(OpenFailed(error.message, final=True))
        return
    except Exception as error:
        channel.send(OpenFailed(f"{type(error).__name__}: {error}", final=False))
        return
    channel.send(DeviceReady(attributes))
    me, before = os.getpid(), Surroundings.now()

    def ran() -> None:
        if os.getpid() != me:  # a fork made by the candidate: messages of a fork are not this process's
            os._exit(0)
        channel.send(FirstRunOver())

    for _ in range(_REQUESTS_EACH):
        request: RunRequest = channel.receive()
        channel.send(Accepted())
        began = time.perf_counter()
        outcome = runner.attempt(request, ran)
        if os.getpid() != me:
            os._exit(0)
        outcome = replace(outcome, run_seconds=time.perf_counter() - began, stages=runner.stages)
        if has_children():
            kill_descendants(me)
            runner.healthy = False
        runner.healthy &= not before.changed(strictly=False)  # threads and memory belong to the device's driver
        channel.send(Completed(outcome, runner.healthy))
        if not runner.healthy:
            return
        if request.options.cooldown_interval > 0:
            time.sleep(request.options.cooldown_interval)
        channel.send(CooledDown())


def quiet(log: int) -> None:
    """Send the output of this process and its libraries to the file `log`."""
    with suppress(OSError):
        os.dup2(log, 1)
        os.dup2(log, 2)
