"""`tilewright worker` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .commands import Command

Address = Annotated[
    str,
    typer.Argument(metavar="ADDRESS", help="Address of the Dask scheduler: tls://scheduler:8786.", show_default=False),
]
Target = Annotated[
    str, typer.Option("--target", "-t", metavar="cuda|opencl|llvm", help="Target to measure on; llvm is the CPU.")
]
Devices = Annotated[
    str,
    typer.Option("--devices", metavar="all|N,N", help="GPUs to use, by CUDA's numbers; one worker each."),
]
Name = Annotated[
    str,
    typer.Option(
        "--name", metavar="TEXT", show_default="the host's, the target's and the device's",
        help="Name of the worker and of its journal.",
    ),
]  # fmt: skip
Key = Annotated[
    str,
    typer.Option("--key", metavar="TEXT", show_default="none", help="A key by which tuners select workers."),
]
Builders = Annotated[
    int,
    typer.Option(
        "--builders", min=0, metavar="N", show_default="by the cores of the host: 16 at most",
        help="Candidates that a worker builds at the same time.",
    ),
]  # fmt: skip
CaFile = Annotated[
    Path | None,
    typer.Option("--tls-ca-file", metavar="FILE", show_default="Dask's configuration", help="Certificate authority."),
]
Cert = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="FILE", show_default="Dask's configuration", help="The worker's certificate."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", show_default="Dask's configuration", help="The certificate's key."),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", metavar="",
        help="Join a scheduler on another host without TLS: everybody who reaches this worker can then run code here.",
    ),
]  # fmt: skip


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "worker", cls=Command, epilog="Example: tilewright worker tls://scheduler:8786 --devices all"
    )(worker_command)  # fmt: skip


def worker_command(
    address: Address,
    target: Target = "cuda",
    devices: Devices = "all",
    name: Name = "",
    key: Key = "",
    builders: Builders = 0,
    tls_ca_file: CaFile = None,
    tls_cert: Cert = None,
    tls_key: KeyFile = None,
    insecure: Insecure = False,
) -> None:
    """Measure candidates of remote tuners on this host's devices, until Ctrl-C."""
    from .worker import worker

    files = tuple(str(path or "") for path in (tls_ca_file, tls_cert, tls_key))
    raise typer.Exit(worker(address, target, devices, name, key, builders, (files[0], files[1], files[2]), insecure))
