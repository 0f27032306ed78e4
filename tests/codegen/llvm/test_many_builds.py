"""The cost of many builds and many outputs, counted: freed pass managers, loops of a function, lines of checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te
from tilewright.codegen.llvm.binding import binding
from tilewright.core.errors import UserError

N = 4


def outputs(count: int, target: str) -> Any:
    """One function of `count` outputs: A + k."""
    a = te.placeholder((N,), name="A")
    made = [te.compute((N,), lambda i, k=k: a[i] + float(k), name=f"B{k}") for k in range(count)]
    s = te.create_schedule([b.op for b in made])
    for b in made if target == "opencl" else ():
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    return tw.build(s, [a, *made], target=target)


def test_each_build_frees_its_pass_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    freed = []
    managers = binding().newpassmanagers.NewPassManager
    dispose = managers._dispose
    monkeypatch.setattr(managers, "_dispose", lambda manager: (freed.append(manager), dispose(manager)))
    a = te.placeholder((N,), name="A")
    for k in range(3):
        b = te.compute((N,), lambda i, k=k: a[i] * (k + 0.375), name="B")
        tw.build(te.create_schedule(b.op), [a, b], "llvm")
    assert len({id(manager) for manager in freed}) == len(freed) == 3


@pytest.mark.parametrize("target", ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_many_outputs_are_computed_by_functions_of_few_loops(target: str) -> None:
    lines = []
    count = 300 if target == "llvm" else 80  # PoCL compiles a kernel for each
    for number in (count // 2, count):
        module = outputs(number, target)
        lines.append(module.program.entries[0].source.count("\n"))
        if target == "llvm":
            assert len(module.program.kernels) == -(-number // 128)
            assert module.program.source.count("noinline") == len(module.program.kernels)
    assert lines[1] < 2.2 * lines[0]
    on = tw.device(target, 0)
    x = tw.nd.array(np.arange(N, dtype="float32"), on)
    results = [tw.nd.array(np.zeros(N, "float32"), on) for _ in range(count)]
    module(x, *results)
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.arange(N) + k)
    late = count * 2 // 3
    results[late] = results[11]
    with pytest.raises(UserError, match=rf"argument 12 .*argument {late + 1} .*share memory"):
        module(x, *results)
    results[late] = x
    with pytest.raises(UserError, match=rf"argument 0 .*argument {late + 1} .*share memory"):
        module(x, *results)


def test_storage_that_several_launches_use() -> None:
    """A local stage is read by all of 300 outputs."""
    a = te.placeholder((N,), name="A")
    shared = te.compute((N,), lambda i: a[i] * 2, name="S")
    made = [te.compute((N,), lambda i, k=k: shared[i] + float(k), name=f"B{k}") for k in range(300)]
    s = te.create_schedule([b.op for b in made])
    module = tw.build(s, [a, *made], "llvm")
    x = tw.nd.array(np.arange(N, dtype="float32"))
    results = [tw.nd.array(np.zeros(N, "float32")) for _ in made]
    module(x, *results)
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), 2 * np.arange(N) + k)
