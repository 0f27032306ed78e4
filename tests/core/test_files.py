"""Every writer of whole files: threads do not meet in a draft, and an error leaves the earlier file and no draft."""

import errno
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tilewright.codegen.exported.linker import written_whole
from tilewright.core import calibration, files
from tilewright.core.errors import UserError
from tilewright.functional.programs.store import KernelStore, StoredKernel
from tilewright.report.files import write_text
from tilewright.tune.records.files import merge_pairs

WRITERS: dict[str, Callable[[Path, str], Any]] = {
    "store": lambda path, text: KernelStore(path.parent).put(path.name, StoredKernel({"is": text}, b"")),
    "records": lambda path, _: merge_pairs([], path),
    "export": lambda path, text: written_whole(path, text.encode(), "save"),
    "calibration": lambda path, text: calibration.keep(path.name, {"is": text}),
    "report": write_text,
}
AT_THE_END = frozenset(("report",))
"""Writers that report only a file that cannot be created; other errors pass through."""


@pytest.fixture(params=WRITERS)
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    return str(request.param)


def test_threads_do_not_meet(name: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        every = [pool.submit(WRITERS[name], tmp_path / "x", str(i) * 999) for i in range(60)]
    for one in every:
        assert one.result() is not False
    assert len(os.listdir(tmp_path)) == 1


class _Full(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "full")


def _no_place(*_: Any) -> None:
    raise OSError(errno.EACCES, "denied")


def _full(handle: int, *_: Any) -> _Full:
    os.close(handle)
    return _Full()


@pytest.mark.parametrize("fails", ["write", "move"])
@pytest.mark.filterwarnings("ignore:.*kernel")
def test_an_error_leaves_the_earlier_file(
    name: str, fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = WRITERS[name]
    write(tmp_path / "x", "before")
    (kept,) = tmp_path.iterdir()
    before = kept.read_bytes()
    if fails == "write":
        monkeypatch.setattr(files, "open", _full, raising=False)
    else:
        monkeypatch.setattr(os, "replace", _no_place)
    if name == "store":
        assert write(tmp_path / "x", "after") is False
    else:
        with pytest.raises(OSError if name in AT_THE_END else UserError, match=r"full|denied"):
            write(tmp_path / "x", "after")
    assert list(tmp_path.iterdir()) == [kept]
    assert kept.read_bytes() == before


def test_a_draft_of_another_process_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_NUMBERS", iter((7, 8)))
    left = tmp_path / f".x.{os.getpid()}.7"
    left.write_bytes(b"half")
    files.replaced(tmp_path / "x", b"whole", 0o600)
    assert left.read_bytes() == b"half"
    assert (tmp_path / "x").read_bytes() == b"whole"
    assert os.stat(tmp_path / "x").st_mode & 0o777 == 0o600
