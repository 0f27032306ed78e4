"""The list of launches of a function is what its host code does when it is called."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tilewright import te
from tilewright.codegen.abi import CompiledProgram, EntryPoint
from tilewright.core.launches import FixedLaunch, FixedLaunches
from tilewright.runtime.module import Module, load_module


class Array:
    """It passes every check of the host code, and its handle knows its place."""

    class Handle(int):
        def __and__(self, mask: int) -> int:
            return 0

    def __init__(self, place: int) -> None:
        self.handle = Array.Handle(place)
        self.start, self.end = 2 * place, 2 * place + 1
        self.layout = self.kind = self


def recorded(program: CompiledProgram) -> FixedLaunches:
    """What the generated Python launches."""
    entry: EntryPoint = program.entries[0]
    shared = {kernel.name: kernel.dynamic_shared_bytes for kernel in program.kernels}
    launches: list[FixedLaunch] = []
    scratch: list[int] = []

    def launch(name: str, *numbers: int) -> None:
        launches.append(FixedLaunch(name, numbers[:3], numbers[3:6], shared[name], tuple(map(int, numbers[6:]))))  # type: ignore[arg-type]

    def allocate(name: str, size: int) -> int:
        scratch.append(size)
        return -len(scratch)

    arrays = [Array(place) for place in range(len(entry.arguments))]
    names: dict[str, Any] = {"allocate": allocate}
    names |= {name: lambda *numbers, name=name: launch(name, *numbers) for name in shared}
    for argument, array in zip(entry.arguments, arrays, strict=True):
        names[f"{argument.name}_layout"] = names[f"{argument.name}_kind"] = array
    exec(entry.source, names)
    names[entry.symbol](*arrays)
    return FixedLaunches(tuple(launches), tuple(scratch))


def two_stages(n: Any, target: str) -> CompiledProgram:
    A = te.placeholder((n, 32), name="A")
    B = te.compute((n, 32), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 32), lambda i, j: B[i, 31 - j] + A[i, j], name="C")
    s = te.create_schedule(C.op)
    if target != "llvm":
        for stage in (B, C):
            s[stage].bind(s[stage].op.axis[0], te.thread_axis("blockIdx.x"))
            s[stage].bind(s[stage].op.axis[1], te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, C], target).program


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "opencl", "llvm"])
def test_launches_and_scratch(target: str) -> None:
    program = two_stages(64, target)
    fixed = program.entries[0].fixed
    assert fixed == recorded(program)
    assert fixed.launches
    assert fixed.scratch in ((), (64 * 32 * 4,))


@pytest.mark.parametrize("target", ["cuda -arch=sm_90", "llvm"])
def test_sizes_that_a_call_brings_make_no_list(target: str) -> None:
    assert two_stages(te.size_var("n"), target).entries[0].fixed is None


def test_saved_modules_hold_the_host_code_alone(tmp_path: Any) -> None:
    program = two_stages(64, "opencl")
    path = tmp_path / "module.tw"
    Module(program).save(path)
    loaded = load_module(path).program
    assert loaded.entries[0].fixed is None
    assert loaded.entries == program.entries
