"""A fleet with TLS: who has a certificate of its authority measures, and nobody else gets in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.cluster import environment, worker
from tests.fleet.test_kills import free_port
from tests.measure.programs import Candidate, compile_candidate
from tilewright.core.errors import UserError
from tilewright.fleet.option import RPCRunner
from tilewright.fleet.security import security_of
from tilewright.fleet.session import FleetSession
from tilewright.measure.option import LocalBuilder

pytest.importorskip("distributed")


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """A certificate that signs itself, and is its own authority; and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=tilewright"
    made = subprocess.run([*command.split(), "-keyout", key, "-out", cert], check=False, capture_output=True)
    assert made.returncode == 0, made.stderr.decode()
    return str(cert), str(key)


def session(address: str, files: tuple[str, str, str], first: float = 60) -> FleetSession:
    runner = RPCRunner("", address, timeout=600, number=1, repeat=1, cooldown_interval=0)
    builder = LocalBuilder(timeout=600, n_parallel=1, build_func=compile_candidate)
    return FleetSession("llvm", builder, runner, files=files, first=first)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes certificates")
def test_a_fleet_with_tls(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "own")
    other, other_key = certificate(tmp_path, "other")
    address = f"tls://127.0.0.1:{free_port()}"
    tls = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    scheduler = [
        sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", address.split(":")[2],
        "--protocol", "tls", "--no-dashboard", *tls,
    ]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with (
        subprocess.Popen(scheduler, env={**os.environ, **environment(tmp_path)}, **quiet) as process,  # type: ignore[call-overload]
        worker(address, tmp_path, "--name", "w", *tls),
    ):
        try:
            with session(address, (cert, cert, key)) as measuring:
                jobs = [Candidate("", number).job("llvm") for number in range(4)]
                assert all(outcome.ok for _, outcome in measuring.measure(jobs))
            strangers = ((address, (other, other, other_key)), (address.replace("tls", "tcp"), ("", "", "")))
            for stranger, files in strangers:
                with (
                    session(stranger, files, 15) as measuring,
                    pytest.raises(UserError, match=r"no scheduler answers at"),
                ):
                    _ = measuring.attributes
        finally:
            process.kill()


def test_tls_without_certificates_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tls://far:1 needs certificates, and none are given"):
        security_of("tls://far:1", ("", "", ""), "client")
    with pytest.raises(UserError, match=r"there is no file .*ca\.pem"):
        security_of("tls://far:1", (str(tmp_path / "ca.pem"), "", ""), "client")
