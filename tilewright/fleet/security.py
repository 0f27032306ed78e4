"""Dask's TLS: with the given files, or the files that Dask's configuration names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.errors import UserError

Files = tuple[str, str, str]
"""The certificate authority's file, our certificate and its key; empty to use the files of Dask's configuration."""
NONE: Files = ("", "", "")


def check_installed() -> None:
    """Raise UserError if Dask's `distributed` is not installed."""
    if find_spec("distributed") is None:
        raise UserError(
            "a fleet needs Dask's distributed, which is not installed",
            primitive="fleet",
            fix="pip install 'tilewright[fleet]'",
        )


def security_of(address: str, files: Files, role: str) -> Any:
    """Return Dask's `Security` for a "client" or a "worker"; raise UserError if TLS lacks a file."""
    from distributed.security import Security

    for path in filter(None, files):
        if not Path(path).is_file():
            raise UserError(f"there is no file {path}", primitive="fleet", fix="give the files of the scheduler's TLS")
    names = ("tls_ca_file", f"tls_{role}_cert", f"tls_{role}_key")
    given = {name: path for name, path in zip(names, files, strict=True) if path}
    security = Security(require_encryption=True if address.startswith("tls://") else None, **given)
    if address.startswith("tls://") and not all(getattr(security, name, None) for name in names[:2]):
        raise UserError(
            f"{address} needs certificates, and none are given",
            primitive="fleet",
            fix="give --tls-ca-file, --tls-cert and --tls-key, or set distributed.comm.tls in Dask's configuration",
        )
    return security
