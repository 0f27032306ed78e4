"""What a worker keeps in files goes with it, however it ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fleet.cluster import worker
from tests.measure.programs import patient

pytest.importorskip("distributed")
NOBODY = "tcp://127.0.0.1:9"


def test_a_killed_worker_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))

    def folders() -> list[Path]:
        return list(temporary.glob("tilewright-*"))

    def await_folders(there: bool) -> None:
        end = time.monotonic() + patient(120)
        while bool(folders()) != there and time.monotonic() < end:
            time.sleep(0.05)
        assert bool(folders()) == there

    with worker(NOBODY, tmp_path) as process:
        await_folders(there=True)
        assert process.poll() is None
    await_folders(there=False)
