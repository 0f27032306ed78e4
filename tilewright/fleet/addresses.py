"""Addresses of schedulers, and which of them may be used without TLS."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from ..core.errors import UserError

_ADDRESS = re.compile(r"(?:(?P<scheme>[a-z]+)://)?(?P<host>\[[0-9a-fA-F:.%]+\]|[^\s/:\[\]]+):(?P<port>\d{1,5})")
_SCHEMES = ("tcp", "tls")


def joined(host: Any, port: Any = None) -> str:
    """Return host and port as one address; raise UserError if they do not make one."""
    text = host if port is None or "://" in str(host) else f"{host}:{port}"
    found = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if found is None or not 0 < int(found["port"]) < 65536:
        raise UserError(
            f"{text!r} is not the address of a scheduler",
            primitive="fleet",
            fix="give the one that `dask scheduler` prints, such as tls://scheduler:8786",
        )
    scheme = found["scheme"] or "tcp"
    if scheme not in _SCHEMES:
        raise UserError(
            f"{text!r} begins with {scheme}://", primitive="fleet", fix="use tls://, or tcp:// on this host"
        )
    return f"{scheme}://{found['host']}:{found['port']}"


def is_loopback(address: str) -> bool:
    """Return whether only processes of this host can reach an address."""
    found = _ADDRESS.fullmatch(address)
    host = found["host"].strip("[]") if found else ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def checked(address: str, insecure: bool) -> str:
    """Return an address that may be used as it is; raise UserError for another host without TLS.

    Dask runs the code that a connection sends, and without TLS it accepts every connection.
    """
    if address.startswith("tls://") or insecure or is_loopback(address):
        return address
    raise UserError(
        f"{address} is another host, and without TLS everybody who reaches its port can run code on all hosts of the "
        "fleet",
        primitive="fleet",
        fix="give the scheduler certificates and use tls://; on a network of your own, --insecure (insecure=True)",
    )
