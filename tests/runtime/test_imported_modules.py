"""Modules that import others, and libraries of several."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.codegen.c_compiler import c_compiler
from tilewright.contrib import cc
from tilewright.core.errors import UserError


def test_a_module_imports_another_one() -> None:
    A = te.placeholder((4,), name="A")
    modules = {}
    for number in (1, 2):
        B = te.compute((4,), lambda i, number=number: A[i] + float(number), name="B")
        modules[number] = tw.build(te.create_schedule(B.op), [A, B], "llvm", name=f"add{number}")
    one, two = modules.values()
    with pytest.raises(UserError, match="no function 'add2'"):
        one.get_function("add2", query_imports=True)
    one.import_module(two)
    a, b = tw.nd.array(np.zeros(4, "float32")), tw.nd.empty((4,), "float32")
    one["add2"](a, b)
    assert list(b.numpy()) == [2] * 4
    with pytest.raises(UserError, match="no function 'add2'"):
        one.get_function("add2")
    for ask in (one.get_function, one.implements_function):
        with pytest.raises(UserError, match="argument 'query_imports' is array"):
            ask("add2", np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="import_module: 3 is not a module"):
        one.import_module(3)  # type: ignore[arg-type]


@pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")
def test_a_library_of_several_modules(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    for number in (1, 2, 3):
        B = te.compute((4,), lambda i, number=number: A[i] + float(number), name="B")
        tw.build(te.create_schedule(B.op), [A, B], "llvm", name=f"add{number}").save(tmp_path / f"{number}.o")
    cc.create_shared(str(tmp_path / "all.so"), [str(tmp_path / f"{number}.o") for number in (1, 2, 3)])
    loaded = tw.runtime.load_module(tmp_path / "all.so")
    a, b = tw.nd.array(np.zeros(4, "float32")), tw.nd.empty((4,), "float32")
    for number in (1, 2, 3):
        loaded[f"add{number}"](a, b)
        assert list(b.numpy()) == [number] * 4
