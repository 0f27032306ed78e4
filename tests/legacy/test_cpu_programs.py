"""Programs for the CPU as scripts of the legacy API build and call them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir


def _sum(target: str, n: object = 8) -> tw.runtime.Module:
    a, b = (te.placeholder((n,), "bfloat16", name) for name in "AB")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    return tw.build(te.create_schedule(c.op), [a, b, c], target, name="add")


def _bits(values: list[float]) -> np.ndarray:
    return (np.array(values, "float32").view("uint32") >> 16).astype("uint16")


@pytest.mark.parametrize("n", [8, te.var("n")], ids=["static", "symbolic"])
def test_bfloat16_numbers_may_come_as_their_bits(n: object) -> None:
    module = _sum("llvm", n)
    given, found = tw.nd.array(_bits([1.5] * 8)), tw.nd.empty((8,), "uint16")
    for _ in range(2):  # the first call prepares
        module(given, given, found)
        assert found.numpy().tolist() == _bits([3.0] * 8).tolist()
    for wrong in (tw.nd.empty((8,), "int16"), tw.nd.empty((8,), "float16")):
        with refused("", "has type", fix="convert"):
            module(given, wrong, found)
    with refused("", "has shape", fix="shape" if n == 8 else "extents"):
        module(given, tw.nd.empty((9,) if n == 8 else (4,), "uint16"), found)
    with refused("", "has shape"):
        module(given, tw.nd.empty((8, 1), "uint16"), found)


def test_targets_of_programs_without_a_runtime(tmp_path: Path) -> None:
    module = _sum("llvm --system-lib --runtime=c")
    module.save(str(tmp_path / "test.o"))
    assert " add(" in module.get_source("h")
    assert str(tw.target.Target("llvm -system-lib")) == "llvm -system-lib=1"
    with refused("Target", "'-mcpu' is not an option", fix="-name=value"):
        tw.target.Target("llvm -mcpu")


def test_functions_of_a_module_are_listed_by_name() -> None:
    def caller(name: str) -> tir.PrimFunc:
        v = te.var("v", "float32")
        body = tir.Evaluate(tir.call_extern("float32", "sinf", v))
        return tir.PrimFunc([v], body).with_attr("global_symbol", name)

    module = tw.IRModule({name: caller(name) for name in ("Danny", "Sammy", "Kirby")})
    found = re.findall(r"^define[^@]*@(\w+)", tw.build(module, None, "llvm").get_source("ll"), re.MULTILINE)
    assert found == sorted(found)
    assert len(set(found)) == 3


def test_arrays_that_overlap_are_refused_whatever_was_asked() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    with (
        pytest.warns(UserWarning, match="tir.noalias=False has no effect: a call refuses"),
        tw.transform.PassContext(config={"tir.noalias": False}),
    ):
        module = tw.build(te.create_schedule(b.op), [a, b], "llvm")
    array = tw.nd.array(np.zeros(8, "float32"))
    with refused("", "share memory", fix="an array of its own"):
        module(array, array)
