"""Modules in files: saved here, loaded and run in a process that never imports the compiler."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.programs.harness import every_target, spread
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.runtime import load_module, saved
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device
from tilewright.runtime.module import Module

ROOT = Path(__file__).parent.parent.parent
FLOORS = ("expr", "arith", "tensor", "schedule", "bounds", "loops", "passes", "driver", "te", "topi", "codegen.host")


def axpy(target: str) -> Module:
    """y = a x + 1 for any size that is a multiple of 4, and twice in two kernels; a is a number."""
    n, a = te.var("n", multiple_of=4), te.var("a", "float32")
    x = te.placeholder((n,), name="x")
    half = te.compute((n,), lambda i: a * x[i], name="half")
    y = te.compute((n,), lambda i: half[i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    spread(s, half, target)
    spread(s, y, target)
    return tilewright.build(s, [a, x, y], target, name="axpy")


SCRIPT = """
import sys
import numpy as np
from tilewright.runtime import load_module, device
from tilewright import nd
module = load_module(sys.argv[1])
on = device(module.target)
x = np.arange(40, dtype="float32")
y = nd.empty((40,), device=on)
module["axpy"](3.0, nd.array(x, on), y)
np.testing.assert_array_equal(y.numpy(), 3 * x + 1)
try:
    module(3.0, nd.array(x[:5], on), nd.empty((5,), device=on))
except RuntimeError as error:
    print(str(error).splitlines()[0])
print(*sys.modules)
"""


@every_target
def test_a_saved_module_runs_in_a_fresh_process(target: str, tmp_path: Path) -> None:
    path = tmp_path / "axpy.tw"
    axpy(target).save(path)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    error, modules = done.stdout.splitlines()
    assert error == "n is 5 (extent 0 of argument 1 of axpy (x)), but it is declared to be a multiple of 4"
    floors = [name for name in modules.split() if name.startswith(tuple(f"tilewright.{floor}" for floor in FLOORS))]
    assert not floors


@every_target
def test_what_is_loaded_is_what_was_saved(target: str, tmp_path: Path) -> None:
    module = axpy(target)
    for write in (module.save, module.export_library):
        write(str(tmp_path / "m.tw"))
        again = load_module(tmp_path / "m.tw")
        assert again.program == module.program
        assert again.program.binary == module.program.binary
        assert again.get_source() == module.get_source()
        assert repr(again) == repr(module)
    first = (tmp_path / "m.tw").read_bytes()
    module.save(tmp_path / "m.tw")
    assert (tmp_path / "m.tw").read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["m.tw"]


def test_a_module_for_another_gpu_than_this_machine_has_can_be_saved_and_looked_at(tmp_path: Path) -> None:
    module = axpy("cuda -arch=sm_80")
    module.save(tmp_path / "m")
    again = load_module(tmp_path / "m")
    assert "__global__" in again.imported_modules[0].get_source()
    assert again.resources == module.resources
    with zipfile.ZipFile(tmp_path / "m") as archive:
        assert archive.namelist() == ["module.json", "kernels.cu", "kernels.cubin"]
        assert archive.read("kernels.cubin")[:4] == b"\x7fELF"


def test_machine_code_for_a_richer_cpu_is_made_anew(tmp_path: Path) -> None:
    path = rewritten(tmp_path, lambda described: described["features"].append("of-next-year"))
    module = load_module(path)
    y = empty((8,))
    module(2.0, array(np.ones(8, "float32")), y)
    np.testing.assert_array_equal(y.numpy(), np.full(8, 3))


def rewritten(folder: Path, change: Any) -> Path:
    """A saved module whose description was changed."""
    path = folder / "m"
    axpy("llvm").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(members["module.json"])
    change(described)
    described["digest"] = saved.digest(described, {n: c for n, c in members.items() if n != "module.json"})
    members["module.json"] = json.dumps(described).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path, lambda described: described.update(format=7, tilewright="9.0.0"))
    message = r"was written by Tilewright 9\.0\.0 in format 7; this is .*format 2\n  fix: build and save"
    with pytest.raises(UserError, match=message):
        load_module(path)


def test_files_that_hold_no_module_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with pytest.raises(UserError, match=r"load_module: cannot read .*m: No such file"):
        load_module(path)
    for content in (b"", b"not a zip at all"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"is not a saved module.*\n  fix: write it with module.save"):
            load_module(path)
    axpy("llvm").save(path)
    whole = path.read_bytes()
    for length in (len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="is not a saved module, or a damaged one"):
            load_module(path)
    with pytest.raises(UserError, match="is not a saved module, or a damaged one"):
        load_module(rewritten(tmp_path, lambda described: described.pop("entries")))


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"save: cannot write .*No such file or directory"):
        axpy("llvm").save(tmp_path / "nowhere" / "m")
    with pytest.raises(UserError, match="there is no argument 'cc'"):
        axpy("llvm").export_library(tmp_path / "m", cc="gcc")


def test_the_legacy_spelling() -> None:
    script = "import tilewright.legacy as l; l.install(); from tvm.runtime import load_module; print(load_module)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "function load_module" in done.stdout, done.stderr
    assert saved.FORMAT == 2
    assert device("cpu").kind == "cpu"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "it is empty"),
        ("a\0b", "it holds a NUL"),
        ("\ud800", "the file system cannot write it"),
        (3, "is not a file path"),
        ("/", "is a folder"),
        (".", "is a folder"),
    ],
)
def test_what_names_no_file(path: Any, why: str) -> None:
    module = axpy("llvm")
    for use in (module.save, module.export_library, load_module):
        with pytest.raises(UserError, match=why):
            use(path)


def test_an_archive_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    axpy("llvm").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, old, new in (("module.json", b"axpy", b"sneaky"), ("kernels.ll", b"fadd", b"fsub")):
        with zipfile.ZipFile(path, "w") as archive:
            for each, content in members.items():
                archive.writestr(each, content.replace(old, new) if each == name else content)
        with pytest.raises(UserError, match="its digest does not match: it was edited or damaged"):
            load_module(path)


def test_llvm_ir_that_was_saved_is_a_module(tmp_path: Path) -> None:
    path = tmp_path / "m.ll"
    axpy("llvm").save(path)
    x, y = array(np.arange(8, dtype=np.float32)), empty((8,))
    load_module(path)(2.0, x, y)
    assert np.array_equal(y.numpy(), 2 * np.arange(8) + 1)
    text = path.read_bytes()
    for content, why in (
        (text.replace(b"fadd", b"fsub", 1), "it was edited or damaged"),
        (text.rpartition(b"\n; ")[0], "LLVM IR without a module"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=why):
            load_module(path)


def test_an_archive_that_counts_more_files_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    axpy("llvm").save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for count in (2**70, -1):
        described = json.dumps({**json.loads(members["module.json"]), "objects": count})
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**members, "module.json": described}.items():
                archive.writestr(name, content)
        with pytest.raises(UserError, match=f"it names {count} object files and holds {len(members)} files"):
            load_module(path)


def test_an_archive_that_unpacks_to_any_size_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "_MOST_BYTES", 1 << 20)
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("module.json", b" " * (1 << 22))
    with pytest.raises(UserError, match="unpacks to more than 1,048,576 bytes"):
        load_module(path)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(UserError, match="it is not a regular file"):
            load_module(path)


def test_a_foreign_description_is_refused(tmp_path: Path) -> None:
    for text in ("[]", "{", "3", '{"format": 2}', '{"format": 2, "target": 3}', "[" * 100_000, '{"format": "\\ud800"}'):
        with zipfile.ZipFile(tmp_path / "m", "w") as archive:
            archive.writestr("module.json", text)
        with pytest.raises(UserError):
            load_module(tmp_path / "m")
