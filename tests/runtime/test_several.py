"""Several functions in one module, several devices, several threads."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.programs.harness import every_target, spread
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.runtime import load_module, set_debug
from tilewright.runtime import module as module_floor
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device


def scaled(factor: float, target: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """B = factor A, for any size."""
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * factor, name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    return s, [A, B]


def check(module: Any, target: str, name: str, factor: float) -> None:
    """The function of that name multiplies by `factor`."""
    on = device(target)
    out = empty((7,), device=on)
    module[name](array(np.arange(7, dtype="float32"), on), out)
    np.testing.assert_array_equal(out.numpy(), factor * np.arange(7))


@every_target
def test_functions_by_name_and_as_a_list_make_one_module(target: str, tmp_path: Path) -> None:
    by_name = tilewright.build({"twice": scaled(2, target), "thrice": scaled(3, target)}, target=target)
    parts = [tilewright.lower(*scaled(factor, target), name=name) for name, factor in (("twice", 2), ("thrice", 3))]
    listed = tilewright.build(parts, target=target)
    lowered = tilewright.build({"twice": parts[0], "thrice": parts[1]}, target=target)
    by_name.save(tmp_path / "m")
    for module in (by_name, listed, lowered, load_module(tmp_path / "m")):
        check(module, target, "twice", 2)
        check(module, target, "thrice", 3)
        assert module.entry_name == "twice"
        assert len(module.imported_modules) <= 1


def test_the_legacy_form_with_a_target() -> None:
    program = tilewright.lower(*scaled(2, "llvm"))
    for key in ("llvm", Target("llvm")):
        check(tilewright.build({key: program}), "llvm", "main", 2)
    with pytest.raises(UserError, match="for one target, but these are given: llvm, cuda"):
        tilewright.build({"llvm": program, "cuda": program})


def test_what_makes_no_module() -> None:
    one = tilewright.lower(*scaled(2, "llvm"))
    for wrong, message in (
        ([one, one], "several functions are called 'main'\n  fix: name each one"),
        ([], "there is no function to build"),
        ({}, "there is no function to build"),
        ({"f": 3}, "'f' maps to int\n  fix: give"),
        (scaled(2, "llvm")[0], "no arguments are given"),
    ):
        with pytest.raises(UserError, match=message):
            tilewright.build(wrong, target="llvm")
    with pytest.raises(UserError, match="cannot lower int"):
        tilewright.build(3, [], "llvm")  # type: ignore[arg-type]


@pytest.mark.cuda
def test_one_module_runs_on_each_gpu() -> None:
    module = tilewright.build(*scaled(2, "cuda"), "cuda")
    for index in range(device("cuda").driver.count()):
        on = device("cuda", index)
        out = empty((5,), device=on)
        module(array(np.arange(5, dtype="float32"), on), out)
        np.testing.assert_array_equal(out.numpy(), 2 * np.arange(5))
    if device("cuda", 1).exist:
        with pytest.raises(UserError, match=r"argument 1 .* is on cuda\(1\), but an earlier argument is on cuda\(0\)"):
            module(empty((5,), device=device("cuda", 0)), empty((5,), device=device("cuda", 1)))


@every_target
def test_two_threads_make_ten_thousand_calls_each(target: str) -> None:
    """Of one function, with sizes of their own, so that arguments packed for one could reach the other."""
    on = device(target)
    module = tilewright.build(*scaled(2, target), target)
    wrong: list[str] = []

    def work(size: int) -> None:
        x = np.arange(size, dtype="float32") + size
        a, out = array(x, on), empty((size,), device=on)
        for i in range(10_000):
            module(a, out)
            if i % 1000 == 999:
                if not np.array_equal(out.numpy(), 2 * x):
                    wrong.append(f"call {i} of size {size}")
                out[:] = np.zeros(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (40, 333)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@every_target
def test_functions_of_a_module_load_their_kernels_once(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tilewright.build({"twice": scaled(2, target), "thrice": scaled(3, target)}, target=target)
    loads: list[str] = []
    kept = module_floor._load
    monkeypatch.setattr(module_floor, "_load", lambda program, on: loads.append(str(on)) or kept(program, on))
    for _ in range(2):
        check(module, target, "twice", 2)
        check(module, target, "thrice", 3)
    assert loads == [f"{device(target)}"]


def test_debugging_can_be_turned_on_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each launch is then waited for, of functions that have run before, too."""
    module = tilewright.build(*scaled(2, "llvm"), "llvm")
    watched: list[str] = []
    kept = module_floor._watched
    monkeypatch.setattr(module_floor, "_watched", lambda name, *rest: watched.append(name) or kept(name, *rest))
    check(module, "llvm", "main", 2)
    assert watched == []
    set_debug(True)
    try:
        check(module, "llvm", "main", 2)
        assert watched == ["main_kernel"]
    finally:
        set_debug(False)
    check(module, "llvm", "main", 2)
    assert watched == ["main_kernel"]
