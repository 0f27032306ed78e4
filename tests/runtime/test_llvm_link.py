"""Object files linked into this process: by LLVM's own interface, and by llvmlite's Python."""

from __future__ import annotations

import ctypes

import pytest

import tilewright as tw
from tilewright import te
from tilewright.codegen.llvm.binding import PACKED
from tilewright.runtime import orc
from tilewright.runtime.llvm_link import _ByLlvmlite


@pytest.fixture(scope="module")
def machine_code() -> tuple[bytes, str]:
    """An object file that defines a function, and the name of that."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.exp(A[i]) + 1.0, name="B")  # calls a function of the process
    s = te.create_schedule(B.op)
    program = tw.build(s, [A, B], target="llvm", name="linked").program
    assert program.binary is not None
    return program.binary, program.kernels[0].name + PACKED


LINKERS = {"LLVM": orc.linker, "llvmlite": _ByLlvmlite}


@pytest.mark.parametrize("name", LINKERS)
def test_symbols_are_found(name, machine_code):
    binary, symbol = machine_code
    linker = LINKERS[name]()
    assert linker is not None
    held, found = linker.link(f"test.{name}", [binary], {}, [symbol])
    assert held is not None
    assert ctypes.string_at(found[symbol], 4) != b"\0" * 4


@pytest.mark.parametrize("name", LINKERS)
def test_a_symbol_that_nothing_defines(name, machine_code):
    with pytest.raises(RuntimeError, match="nothing_of_that_name"):
        LINKERS[name]().link(f"missing.{name}", machine_code[:1], {}, ["nothing_of_that_name"])


def test_other_versions_are_left_to_llvmlite(monkeypatch):
    monkeypatch.setattr(orc, "KNOWN", ("0.1.",))
    assert orc.linker() is None


def test_code_is_dropped_with_what_holds_it(monkeypatch, machine_code):
    linker = orc.linker()
    assert linker is not None
    dropped = []
    monkeypatch.setattr(linker, "drop", dropped.append)
    held, _ = linker.link("dropped", machine_code[:1], {}, [])
    del held
    assert len(dropped) == 1


def test_code_outlives_the_session_that_linked_it(monkeypatch, machine_code):
    """A session of LLVM's linker keeps memory for each library, so that sessions follow each other."""
    monkeypatch.setattr(orc, "LINKS_OF_A_SESSION", 2)
    linker = orc.linker()
    assert linker is not None
    sessions = []
    held = []
    for number in range(7):
        held.append(linker.link(f"session.{number}", machine_code[:1], {}, [machine_code[1]]))
        sessions.append(linker._jit)
        if number % 2:
            del held[0]
    assert len(set(sessions)) >= 2
    assert [sessions.count(jit) for jit in dict.fromkeys(sessions)][:1] == [2]
    for _, found in held:
        assert ctypes.string_at(found[machine_code[1]], 4) != b"\0" * 4
