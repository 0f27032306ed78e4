"""Facilities that some platforms lack."""

import os
from pathlib import Path

import pytest

from tilewright.core import system


def test_one_open_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert system.try_lock(first)
    assert not system.try_lock(second)
    with monkeypatch.context() as windows:
        windows.setattr(system, "_fcntl", lambda: None)
        assert system.try_lock(second)
        with system.locked(second):
            pass
    os.close(first)
    assert system.try_lock(second)
    os.close(second)
