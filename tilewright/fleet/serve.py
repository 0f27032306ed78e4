"""The process of one worker: it joins the scheduler, and rejoins after the scheduler was gone.

python -m tilewright.fleet.serve ADDRESS --target TARGET        # started and watched by `tilewright worker`
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.log import logger
from ..measure.children import tuner_mark
from ..measure.watchdog import folder_name
from .addresses import is_loopback
from .worker import Host, WorkerOptions, attach, detach

_AGAIN_SECONDS = 1.0
_LAST_MESSAGES_SECONDS = 1.0
"""The seconds in which a worker with a failed device sends tuners the outcomes of its candidates."""
CANNOT = 3
"""The exit status of a worker that would fail again if it were restarted."""


async def serve(address: str, security: Any, options: WorkerOptions) -> None:
    """Run as a worker until SIGTERM or SIGINT. Raises UserError if the device cannot be used."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    host = Host(options)
    try:
        announcement = await host.open()
        print(f"{host.name}: {announcement.attributes.name}, for {address}", flush=True)
        # Named so that the watchdog removes it if this process is killed.
        with tempfile.TemporaryDirectory(prefix=folder_name(tuner_mark(), "worker-")) as folder:
            while not stop.is_set():
                await _join(address, security, host, stop, folder)
                if host.broken.is_set():
                    raise UserError(
                        f"{host.name}: the device or the journal cannot be used any more",
                        primitive="worker",
                        fix="tilewright doctor says whether the device works; then start the worker again",
                    )
    finally:
        host.close()


async def _join(address: str, security: Any, host: Host, stop: asyncio.Event, folder: str) -> None:
    """Stay registered with the scheduler until the scheduler, the connection or this process ends."""
    from distributed import Worker

    worker = Worker(
        address,
        nthreads=host.slots,
        name=f"{host.name}#{uuid.uuid4().hex[:8]}",  # the scheduler may still know the one before it
        security=security,
        memory_limit=0,
        dashboard=False,
        dashboard_address="127.0.0.1:0",  # the address of status pages
        local_directory=folder,
        host="127.0.0.1" if is_loopback(address) else None,
    )
    attach(worker, host, await host.open())
    stopped = asyncio.ensure_future(stop.wait())
    joined, broken = asyncio.ensure_future(_lifetime(worker)), asyncio.ensure_future(host.broken.wait())
    await asyncio.wait({stopped, joined, broken}, return_when=asyncio.FIRST_COMPLETED)
    if broken.done():
        await asyncio.sleep(_LAST_MESSAGES_SECONDS)
    if not joined.done():
        joined.cancel()
    elif joined.exception() is not None:
        logger.warning("%s: the scheduler at %s is not there: %s", host.name, address, joined.exception())
    stopped.cancel()
    broken.cancel()
    await asyncio.wait({asyncio.ensure_future(worker.close(timeout=2, nanny=False))}, timeout=5)
    detach(worker)
    if not stop.is_set() and not host.broken.is_set():
        await asyncio.sleep(_AGAIN_SECONDS)


async def _lifetime(worker: Any) -> None:
    await worker
    await worker.finished()


def quieten(level: int) -> None:
    """Set the lowest level at which Dask logs."""
    import distributed  # noqa: F401  # the import sets its own levels

    for name in ("distributed", "distributed.worker", "distributed.core", "distributed.scheduler"):
        logging.getLogger(name).setLevel(level)


def main(given: list[str]) -> int:
    """Run with the options of a command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    for name in ("target", "name", "key", "package", "tls-ca-file", "tls-cert", "tls-key"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--visible", type=int)
    parser.add_argument("--sharing", type=int, default=1)
    parser.add_argument("--builders", type=int, default=0)
    options = parser.parse_args(given)
    quieten(logging.ERROR)
    from .security import security_of

    files = (options.tls_ca_file, options.tls_cert, options.tls_key)
    chosen = WorkerOptions(
        options.target, options.name, options.key, options.folder, options.visible, options.package, options.sharing,
        options.builders,
    )  # fmt: skip
    try:
        asyncio.run(serve(options.address, security_of(options.address, files, "worker"), chosen))
    except UserError as error:
        print(f"error: {error.message}" + (f" ({error.fix})" if error.fix else ""), file=sys.stderr)
        return CANNOT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
