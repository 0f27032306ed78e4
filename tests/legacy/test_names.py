"""Under the legacy names stand Tilewright's own modules; what is missing is said in one line."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tilewright
from tilewright import legacy
from tilewright.core.errors import UserError


@pytest.fixture
def installed() -> Iterator[None]:
    """The legacy names, for one test: later tests find no module that it imported by another path."""
    path, package, known = list(sys.meta_path), tilewright.__class__, set(sys.modules)
    legacy.install(override=True)
    yield
    sys.meta_path[:] = path
    tilewright.__class__ = package  # type: ignore[misc]
    others = [name for name in sys.modules.keys() - known if sys.modules[name].__name__ != name]
    parents = {name: sys.modules.get(name.rpartition(".")[0]) for name in others}
    for name in others:
        del sys.modules[name]
    for name, parent in parents.items():
        bound = name.rpartition(".")[2]
        if (
            parent
            and isinstance(vars(parent).get(bound), ModuleType)
            and f"{parent.__name__}.{bound}" not in sys.modules
        ):
            delattr(parent, bound)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("face", ["te", "tir", "nd", "target", "testing", "error"])
def test_a_face_is_one_module_under_both_names(face: str) -> None:
    theirs, ours = importlib.import_module(f"tvm.{face}"), importlib.import_module(f"tilewright.{face}")
    assert theirs is ours is getattr(importlib.import_module("tvm"), face)
    assert ours.__name__ == ours.__spec__.name
    assert ours.__name__.replace(".compat", "") == f"tilewright.{face}"


@pytest.mark.usefixtures("installed")
def test_modules_that_are_folded_into_the_one_above() -> None:
    tir = importlib.import_module("tilewright.tir")
    for name in ("expr", "stmt", "op", "buffer", "function"):
        assert importlib.import_module(f"tvm.tir.{name}") is tir
    driver = importlib.import_module("tvm.driver.build_module")
    assert driver is importlib.import_module("tilewright.driver") is driver.build_module
    assert driver.schedule_to_module is not None
    assert tir.expr is tir.stmt is tir.op is tir


@pytest.mark.usefixtures("installed")
def test_every_way_to_import_gives_the_same() -> None:
    import tvm  # type: ignore[import-not-found]
    import tvm.te as whole  # type: ignore[import-not-found]
    from tvm import te
    from tvm.te import compute

    assert tvm is tilewright
    assert te is whole is tvm.te
    assert compute is tvm.compute is te.compute


def test_old_names_that_were_imported_before_change_nothing() -> None:
    program = "import tilewright._ffi, tilewright.legacy; tilewright.legacy.install(); import tvm; tvm.relay"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "tvm.relay is not part of Tilewright: it covers" in done.stderr


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("part", ["relay", "relax", "meta_schedule"])
def test_a_missing_part_is_named_however_it_is_asked_for(part: str) -> None:
    import tvm

    ways = (f"from tvm import {part}", f"import tvm.{part}", f"import tvm.{part} as p", f"tvm.{part}")
    for way in ways:
        wanted = AttributeError if way.startswith("tvm") else ImportError
        with pytest.raises(wanted) as raised:
            exec(way, {"tvm": tvm})
        assert isinstance(raised.value, UserError)
        assert str(raised.value).startswith(f"tvm.{part} is not part of Tilewright: it covers ")
        assert [line.split()[0] for line in str(raised.value).splitlines()[1:]] == ["fix:", "at:"]


@pytest.mark.usefixtures("installed")
def test_the_oldest_scripts_have_names_of_other_modules_at_the_top_level() -> None:
    import tvm

    assert tvm.context is tvm.nd.context
    assert tvm.min_value is tvm.te.min_value
    assert tvm.indexdiv is tvm.te.indexdiv
    assert tvm.hybrid is tvm.te.hybrid
    with pytest.raises(AttributeError, match=r"(?s)tvm\.relay is not part of .*fix: declare"):
        tvm.relay


@pytest.mark.usefixtures("installed")
def test_asking_whether_a_part_is_there() -> None:
    import tvm

    assert not hasattr(tvm, "relay")
    assert not hasattr(tvm, "__path_of_no_module__")
    assert getattr(tvm, "relay", None) is None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("from tvm.te import extern_primfunc", "tvm.te.extern_primfunc"),
        ("import tvm.te.debugging", "tvm.te.debugging"),
        ("import tvm.tir; tvm.tir.BlockRealize", "tvm.tir.BlockRealize"),
        ("from tvm import relay", "tvm.relay"),
    ],
)
def test_an_error_is_explained_under_the_scripts_names(code: str, part: str) -> None:
    with pytest.raises((ImportError, AttributeError)) as raised:
        exec(code, {})
    explained = legacy.explain(raised.value)
    assert explained is not None
    assert f"{part.removeprefix('tvm.')} is not part of Tilewright" in explained


@pytest.mark.parametrize(
    "error", [ValueError("x"), AttributeError("'int' object has no attribute 'y'"), ImportError("z")]
)
def test_an_error_of_the_scripts_own_is_left_to_python(error: Exception) -> None:
    assert legacy.explain(error) is None


def real_tvm(folder: Path) -> str:
    """A package of that name, as if the real one were installed; returns its folder for PYTHONPATH."""
    package = folder / "tvm"
    package.mkdir()
    (package / "__init__.py").write_text("name = 'the real one'\n")
    (package / "relay.py").write_text("")
    return str(folder)


@pytest.mark.parametrize(("override", "expected"), [(False, "the real one"), (True, "none")])
def test_a_real_tvm_is_left_alone_unless_asked(tmp_path: Path, override: bool, expected: str) -> None:
    program = (
        f"import tilewright.legacy as l; l.install(override={override})\n"
        "import tvm; print(getattr(tvm, 'name', 'none'))\n" + ("import tvm.relay\n" if not override else "")
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": real_tvm(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected


@pytest.mark.parametrize("override", [False, True])
def test_no_module_is_loaded_twice(override: bool) -> None:
    """Whatever is asked for first, under which name."""
    program = (
        f"import tilewright.legacy as l; l.install(override={override})\n"
        "from topi.nn import relu\n"
        "from tvm.te.tensor import ComputeOp\n"
        "import tvm.autotvm.tuner, tvm.topi.testing, sys, tilewright.te\n"
        "from tilewright.topi.nn import relu as ours\n"
        "assert ComputeOp is tilewright.te.ComputeOp and relu is ours\n"
        "print([name for name, module in sys.modules.items() if not module.__name__.startswith('tilewright')\n"
        "       and name.partition('.')[0] in ('tvm', 'topi')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_installing_twice_leaves_one_finder(installed: None) -> None:
    before = len(sys.meta_path)
    legacy.install(override=True)
    assert len(sys.meta_path) == before
    assert isinstance(sys.modules["tilewright"], ModuleType)
