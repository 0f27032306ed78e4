"""Kept kernels are code: the store runs only what this user or the superuser wrote, and says once what it ignores."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from tilewright.core.cache_folder import distrust, private_folder
from tilewright.core.errors import UserError
from tilewright.functional.programs import archive, host_objects
from tilewright.functional.programs import store as module
from tilewright.functional.programs.store import KernelStore, StoredKernel
from tilewright.tune.model import machine

ENTRY = StoredKernel({"what": "a kernel"}, b"code" * 100)
SOMEBODY = 12345


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make a path belong to somebody else: really, or by making this process somebody else."""

    def give(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, SOMEBODY, -1, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    return give


def ignores(held: KernelStore, match: str) -> None:
    """The store finds nothing, and says so once, with a fix."""
    with pytest.warns(RuntimeWarning, match=match) as caught:
        assert held.get("a1") is None
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert held.get("a1") is None
        assert not list(held.read_all())


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_the_folder_and_its_files_are_for_their_owner_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        held = KernelStore(tmp_path / "cache" / "kernels")
        assert held.put("a1", ENTRY)
        assert KernelStore(tmp_path / "cache" / "kernels" / "host", parent=held).put("b1", ENTRY)
    finally:
        os.umask(before)
    folders = [tmp_path / "cache", tmp_path / "cache" / "kernels", tmp_path / "cache" / "kernels" / "host"]
    assert [mode(folder) for folder in folders] == [0o700] * 3
    assert mode(tmp_path / "cache" / "kernels" / "a1.kernel") == 0o600
    assert held.get("a1") == ENTRY


def test_measured_rates_make_the_folder_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    try:
        assert machine.keep("a device", machine.Rates(), 80) == tmp_path / "cache" / "calibration.json"
    finally:
        os.umask(before)
    assert mode(tmp_path / "cache") == 0o700


def test_a_folder_that_everybody_can_write(tmp_path: Path) -> None:
    KernelStore(tmp_path / "a").put("a1", ENTRY)
    os.chmod(tmp_path / "a", 0o777)
    held = KernelStore(tmp_path / "a")
    ignores(held, r"can be written by everybody \(mode 0777\): kept kernels are code.*chmod -R go-w")
    assert not held.put("a2", ENTRY)
    os.chmod(tmp_path / "a", 0o1777)  # as /tmp: everybody makes files there, and nobody replaces this user's
    assert KernelStore(tmp_path / "a").get("a1") == ENTRY
    os.chmod(tmp_path / "a", 0o775)  # of a user with a group of its own
    assert KernelStore(tmp_path / "a").get("a1") == ENTRY


def test_a_file_that_everybody_can_write(tmp_path: Path) -> None:
    held = KernelStore(tmp_path)
    held.put("a1", ENTRY)
    os.chmod(tmp_path / "a1.kernel", 0o666)
    ignores(held, "a1.kernel, which can be written by everybody")
    assert held.put("a1", ENTRY)
    assert held.get("a1") == ENTRY


@pytest.mark.parametrize("what", ["folder", "file", "link to the folder", "link to the file"])
def test_what_belongs_to_somebody_else(tmp_path: Path, give_away: Callable[[Path], None], what: str) -> None:
    theirs = tmp_path / "theirs"
    KernelStore(theirs).put("a1", ENTRY)
    used = theirs
    if what == "link to the folder":
        used = tmp_path / "link"
        used.symlink_to(theirs)
    elif what == "link to the file":
        used = tmp_path / "mine"
        private_folder(str(used))
        (used / "a1.kernel").symlink_to(theirs / "a1.kernel")
    give_away(theirs if "folder" in what else theirs / "a1.kernel")
    ignores(
        KernelStore(used),
        f"belongs to user .*this process runs as user {os.geteuid()}.*set TILEWRIGHT_CACHE to a folder",
    )


def test_one_warning_for_kernels_and_host_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, give_away: Callable[[Path], None]
) -> None:
    """A container that runs as root, with somebody's home mounted."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_stores", {})
    give_away(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert module.store().get("a1") is None
        assert host_objects.host_store().get("a1") is None
        assert not module.store().put("a1", ENTRY)
        assert not host_objects.host_store().put("a1", ENTRY)
    (said,) = caught
    assert str(said.message).startswith(f"tilewright ignores the kernels in {tmp_path}, which belongs to user")
    assert not list(tmp_path.iterdir())


def test_the_superuser_is_trusted_and_reads_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("")
    found = list((tmp_path / "x").stat())
    for user, owner, trusted in ((0, 0, True), (1000, 0, True), (1000, 1000, True), (0, 1000, False), (1, 2, False)):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert (distrust(os.stat_result([*found[:4], owner, *found[5:]])) == "") is trusted


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: object
) -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.size = kind, len(data)
    for field, value in fields.items():
        setattr(made, field, value)
    return made, data


def test_only_regular_files_named_as_entries_are_taken_in(tmp_path: Path) -> None:
    whole = {key: ENTRY.packed(key) for key in ("a1", "../a2", "/tmp/a3", "a4", "a9", "é1", "b" * 200)}
    deep = StoredKernel({}, b"").packed("c1")
    with tarfile.open(tmp_path / "bad.tgz", "w:gz") as written:
        for info, data in (
            *(member(f"{key}.kernel", whole[key]) for key in ("a1", "../a2", "/tmp/a3", "é1", "b" * 200)),
            member("a4", whole["a4"]),
            member("a5.kernel", kind=tarfile.SYMTYPE, linkname="/etc/passwd"),
            member("a6.kernel", kind=tarfile.LNKTYPE, linkname="a1.kernel"),
            member("a7.kernel", kind=tarfile.CHRTYPE, devmajor=1, devminor=5),
            member("a8.kernel", kind=tarfile.FIFOTYPE),
            member("a9.kernel", whole["a9"][:-1]),
            member("c1.kernel", deep.replace(b"{}", b"[]")),
            member("d1.kernel", whole["a1"]),
            member("sub", kind=tarfile.DIRTYPE),
        ):
            written.addfile(info, BytesIO(data))
    held = KernelStore(tmp_path / "store")
    assert archive.load(held, tmp_path / "bad.tgz") == (1, 13)
    assert os.listdir(tmp_path / "store") == ["a1.kernel"]
    assert sorted(os.listdir(tmp_path)) == ["bad.tgz", "store"]


def test_an_archive_that_inflates_without_end_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bomb.tgz", "w:gz") as written:
        info, data = member("a1.kernel", bytes(8 << 20))
        written.addfile(info, BytesIO(data))
    with pytest.raises(UserError, match="inflates to more than the cache may hold"):
        archive.load(KernelStore(tmp_path / "store", limit=1 << 20), tmp_path / "bomb.tgz")


def test_an_import_asks_first(tmp_path: Path) -> None:
    """On a terminal it asks; without one it needs --yes."""
    held = KernelStore(tmp_path / "from")
    held.put("a1", ENTRY)
    archive.export(held, tmp_path / "all.tgz")
    command = [sys.executable, "-m", "tilewright", "cache", "import", str(tmp_path / "all.tgz")]
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path / "to"), "COLUMNS": "200"}
    refused = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "holds machine code and Python code" in refused.stdout
    assert "nobody can be asked" in refused.stderr
    assert "fix: give --yes if you trust whoever made the file" in refused.stderr
    for answer, taken in (("n", False), ("y", True)):
        ours, theirs = pty.openpty()
        os.write(ours, f"{answer}\n".encode())
        asked = subprocess.run(command, env=environment, stdin=theirs, capture_output=True, text=True)
        os.close(ours)
        os.close(theirs)
        assert "Import it? [y/N]" in asked.stdout
        assert (asked.returncode == 0, (tmp_path / "to" / "a1.kernel").exists()) == (taken, taken)
