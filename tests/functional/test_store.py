"""The disk: whole entries or none, bounded, shared by processes, and not needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.core.causal import FORWARD, Causal
from tilewright.core.errors import UserError
from tilewright.functional.planning import plans
from tilewright.functional.programs import archive, fingerprint, host_objects, sized_programs
from tilewright.functional.programs import store as module
from tilewright.functional.programs.store import KernelStore, StoredKernel, default_folder, default_limit
from tilewright.runtime.device import cpu
from tilewright.topi.causal import schedules

ENTRY = StoredKernel({"what": "a kernel"}, b"code" * 100)


def test_what_was_put_is_found(tmp_path: Path) -> None:
    held = KernelStore(tmp_path / "new")
    assert held.get("a1") is None
    assert held.put("a1", ENTRY)
    assert held.get("a1") == ENTRY


def test_a_damaged_file_counts_as_absent(tmp_path: Path) -> None:
    held = KernelStore(tmp_path)
    held.put("a1", ENTRY)
    path = tmp_path / "a1.kernel"
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:20], b"", whole.replace(b"code", b"eodc", 1)):
        path.write_bytes(damaged)
        assert held.get("a1") is None
    assert held.put("a1", ENTRY)
    assert held.get("a1") == ENTRY


def test_a_file_under_the_name_of_another_one_counts_as_absent(tmp_path: Path) -> None:
    held = KernelStore(tmp_path)
    entries = {key: StoredKernel({"what": key}, key.encode() * 9) for key in ("a1", "a2", "b1")}
    for source, target in permutations(entries, 2):
        assert all(held.put(key, entry) for key, entry in entries.items())
        shutil.copy(tmp_path / f"{source}.kernel", tmp_path / f"{target}.kernel")
        assert [held.get(source), held.get(target)] == [entries[source], None]
        assert sorted(key for key, *_ in held.read_all()) == sorted(entries.keys() - {target})
        assert archive.export(held, tmp_path / "all.tgz") == 2


def test_calls_compile_anew_if_entries_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, little_optimisation: None
) -> None:
    """Entries of every kind. Most files hold a kernel that would run under another name, and return wrong values."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(plans, "_plans", {})
    monkeypatch.setattr(sized_programs, "_programs", {})
    x = np.random.default_rng(0).standard_normal((1, 2, 6, 6)).astype(np.float32)
    sized = Causal(FORWARD, 4, 2, "float32", "float32", False, False, False, False, "", 1)
    texts = [f"define i32 @f() {{ ret i32 {number} }}" for number in range(2)]

    def results() -> list[Any]:
        program = sized_programs.sized_program(sized, cpu(), schedules.scheduled, "causal").binary
        return [tilewright.max_pool2d(x, 3), tilewright.avg_pool2d(x, 3), program, *map(host_objects.compiled, texts)]

    def forget() -> None:
        plans.forget()
        sized_programs._programs.clear()

    def kept() -> list[bool]:
        found = [*(plans._from_disk(*call, 0) for call in calls), sized_programs._from_disk(sized, cpu())]
        return [one is not None for one in (*found, *map(host_objects.host_store().get, host_keys))]

    assert len(set(map(host_objects.compiled, texts))) == 2
    host_keys = [key for key, *_ in host_objects.host_store().read_all()]
    first = results()
    calls = list(plans._plans)
    files = sorted(tmp_path.rglob("*.kernel"))
    whole = [path.read_bytes() for path in files]
    assert kept() == [True] * 5
    for shift in range(1, len(files)):
        for path, data in zip(files, whole[shift:] + whole[:shift], strict=True):
            path.write_bytes(data)
        assert kept() == [False] * 5
    forget()
    for found, wanted in zip(results(), first, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert kept() == [True] * 5


def test_the_oldest_go_where_there_are_too_many(tmp_path: Path) -> None:
    size = len(ENTRY.packed("a0"))
    held = KernelStore(tmp_path, limit=3 * size)
    for number in range(5):
        held.put(f"a{number}", ENTRY)
        os.utime(tmp_path / f"a{number}.kernel", (number, number))
        if number == 2:
            held.get("a0")  # used: not the oldest any more
    assert [os.path.basename(path) for path, _ in held.entries()] == ["a3.kernel", "a4.kernel", "a0.kernel"]
    assert not KernelStore(tmp_path, limit=size - 1).put("b", ENTRY)


def test_a_folder_that_cannot_be_written_warns_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    held = KernelStore(tmp_path / "file" / "folder")
    with pytest.warns(RuntimeWarning, match="tilewright keeps no kernels in"):
        assert not held.put("a", ENTRY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not held.put("a", ENTRY)
        assert held.get("a") is None


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: str) -> None:
        assert os.path.getsize(source)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left on device"):
        assert not KernelStore(tmp_path).put("a", ENTRY)
    assert not list(tmp_path.iterdir())


def test_processes_write_side_by_side(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from tilewright.functional.programs.store import KernelStore, StoredKernel
held = KernelStore(Path(sys.argv[1]), limit=40_000)
for i in range(60):
    entry = StoredKernel({"by": sys.argv[2], "i": i}, bytes([i]) * 2000)
    held.put(f"k{i % 7}", entry)
    found = held.get(f"k{i % 5}")
    assert found is None or found.binary == bytes([found.description["i"]]) * 2000
"""
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path), str(i)]) for i in range(3)]
    assert [process.wait(900) for process in running] == [0, 0, 0]
    assert len(list(KernelStore(tmp_path).read_all())) == 7
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_entries_travel(tmp_path: Path) -> None:
    held, other = KernelStore(tmp_path / "a"), KernelStore(tmp_path / "b")
    held.put("a1", ENTRY)
    held.put("a2", ENTRY)
    assert archive.export(held, tmp_path / "all.tgz") == 2
    assert archive.load(other, tmp_path / "all.tgz") == (2, 0)
    assert other.get("a2") == ENTRY
    assert other.clear() == 2
    assert other.get("a2") is None


def test_an_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    held = KernelStore(tmp_path / "a")
    with tarfile.open(tmp_path / "bad.tgz", "w:gz") as written:
        (tmp_path / "x").write_bytes(ENTRY.packed("evil"))
        written.add(tmp_path / "x", "../../evil.kernel")
        written.add(tmp_path / "x", "sub/evil.kernel")
    assert archive.load(held, tmp_path / "bad.tgz") == (0, 2)
    assert not (tmp_path / "evil.kernel").exists()


def test_an_archive_that_was_cut_off_is_named(tmp_path: Path) -> None:
    held = KernelStore(tmp_path / "a")
    held.put("a1", ENTRY)
    archive.export(held, tmp_path / "all.tgz")
    whole = (tmp_path / "all.tgz").read_bytes()
    for length in (10, len(whole) // 2):
        (tmp_path / "cut.tgz").write_bytes(whole[:length])
        with pytest.raises(UserError, match="cannot read"):
            archive.load(KernelStore(tmp_path / "b"), tmp_path / "cut.tgz")


def test_files_of_the_wrong_kind_are_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(UserError, match="cannot read"):
        archive.load(KernelStore(tmp_path), tmp_path / "text")
    with pytest.raises(UserError, match="cannot write"):
        archive.export(KernelStore(tmp_path), tmp_path / "no" / "folder")


@pytest.mark.parametrize("action", [archive.export, archive.load])
def test_a_pipe_is_refused(tmp_path: Path, action: Callable[[KernelStore, Path], object]) -> None:
    """Opening it would wait for whoever is at its other end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="not a regular file"):
        action(KernelStore(tmp_path / "store"), tmp_path / "pipe")


def test_an_installed_package_is_known_by_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprint, "_PACKAGE", str(tmp_path / "tilewright"))
    (tmp_path / "tilewright").mkdir()
    assert fingerprint.package.__wrapped__() == fingerprint.package.__wrapped__()
    seen = {fingerprint.package.__wrapped__()}
    (tmp_path / "tilewright" / "part.py").write_text("1")
    seen.add(fingerprint.package.__wrapped__())
    (tmp_path / f"tilewright-{tilewright.__version__}.dist-info").mkdir()
    record = tmp_path / f"tilewright-{tilewright.__version__}.dist-info" / "RECORD"
    for text in ("tilewright/part.py,sha256=a,1", "tilewright/part.py,sha256=b,1"):
        record.write_text(text)
        seen.add(fingerprint.package.__wrapped__())
    assert len(seen) == 4


def test_kept_kernels_are_those_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its features count, which say how long its vectors are; and its name, or the models of an Arm CPU."""
    x86 = "model name\t: A CPU\nflags\t\t: fpu avx2{}\n"
    arm = "Features\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: {}\n"
    cores = arm.format("0xd40") + arm.format("0xd05")
    listed = [x86.format(""), x86.format(" avx512f"), arm.format("0xd40"), arm.format("0xd0c"), cores]
    monkeypatch.setattr(fingerprint, "_DESCRIBED", str(tmp_path / "cpuinfo"))
    seen = []
    for text in [*listed, listed[0] * 2]:
        (tmp_path / "cpuinfo").write_text(text)
        seen.append(fingerprint.machine.__wrapped__(cpu()))
    assert len(set(seen)) == len(listed)
    assert seen[-1] == seen[0]
    assert cpu().attributes.name in seen[0]


def test_the_environment_chooses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    assert default_folder() is None
    assert not module.store().put("a", ENTRY)
    monkeypatch.delenv("TILEWRIGHT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == str(tmp_path / "tilewright" / "kernels")
    monkeypatch.setenv("TILEWRIGHT_CACHE_BYTES", "many")
    with pytest.raises(UserError, match="TILEWRIGHT_CACHE_BYTES='many' is not a number of bytes"):
        default_limit()


PROGRAM = """
import json, sys, time
import numpy as np
import tilewright as tw
from tilewright.functional.planning import plans
from tilewright.runtime import orc
x, w = np.ones((1, 2, 6, 8), np.float32), np.ones((2, 1, 3, 3), np.float32)
made = tw.conv2d(x, w, groups=2)
plan = next(iter(plans._plans.values()))
known = orc.linker() is not None  # of another version of llvmlite, its Python is needed
slow = "passes topi te core.hardware codegen.abi codegen.llvm.compile runtime.module runtime.opencl_driver".split()
compiler = [name for name in sys.modules if name.startswith(tuple(f"tilewright.{one}" for one in slow))]
compiler += {"importlib.metadata", "subprocess", "tarfile", *(["llvmlite"] if known else [])} & set(sys.modules)
print(json.dumps([plan.origin, float(made.sum()), compiler]))
"""


def test_a_second_process_starts_the_kernel_without_the_compiler(tmp_path: Path) -> None:
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path)}
    found = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout))
    assert found[0][0] == "compiled"
    assert found[1] == ["disk", found[0][1], []]
