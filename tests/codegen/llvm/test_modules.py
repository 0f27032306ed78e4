"""Modules for the CPU: what they show, how they are called and timed, what they refuse."""

from __future__ import annotations

import pickle
import platform
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import tilewright as tvm
from tests.counting import function_calls
from tilewright import te
from tilewright.core.errors import InternalError, UserError
from tilewright.core.target import Target
from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.runtime.module import Module

RUNGS = [
    pytest.param(ladder, rung, id=f"{ladder.title} {rung.name}")
    for ladder in (Conv1dLadder(), DepthwiseLadder())
    for rung in ladder.rungs
]


def sums(n: int = 64, target: object = "llvm", lanes: int = 0) -> Module:
    """C = A + B."""
    A, B = (te.placeholder((n,), name=name) for name in ("first", "second"))
    C = te.compute((n,), lambda i: A[i] + B[i], name="total")
    s = te.create_schedule(C.op)
    if lanes:
        _, inner = s[C].split(C.op.axis[0], lanes)
        s[C].vectorize(inner)
    return tvm.build(s, [A, B, C], target)


def check(module: Module, n: int = 64) -> None:
    """Whether a call adds."""
    x, y = np.random.default_rng(0).random((2, n)).astype("float32")
    out = tvm.nd.array(np.full(n, np.nan, "float32"))
    module(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_array_equal(out.numpy(), x + y)


def test_the_cpu_is_the_default_target() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    assert tvm.build(te.create_schedule(B.op), [A, B]).target.kind == "llvm"
    with Target("opencl"):
        assert tvm.build(te.create_schedule(B.op), [A, B], target="llvm").type_key == "llvm"


PROCESSORS = {
    "x86_64": ["llvm -mcpu=x86-64-v3", "llvm -mcpu=skylake -mattr=+fma"],
    "aarch64": ["llvm -mcpu=cortex-a72", "llvm -mcpu=neoverse-n1 -mattr=+dotprod"],
}.get(platform.machine(), [])


@pytest.mark.parametrize(
    "spelling",
    [
        "llvm",
        *PROCESSORS,
        "llvm -fp-contract=off",
        "llvm -opt-level=0",
        "llvm -opt-level=1",
    ],
)
def test_spellings_of_the_target(spelling: str) -> None:
    for lanes in (0, 16):
        check(sums(target=spelling, lanes=lanes))


def test_an_option_that_means_nothing() -> None:
    for option in ("-fp-contract=perhaps", "-opt-level=4"):
        with pytest.raises(UserError, match=option):
            sums(target=f"llvm {option}")


def test_sources_are_readable() -> None:
    module = sums(lanes=16)
    ir = module.get_source("ll")
    assert ir == module.get_source()
    assert "define internal i32 @main_kernel(ptr noalias noundef nonnull %first," in ir
    assert re.search(r"%at\S* = getelementptr inbounds float, ptr %total", ir)
    assert "fadd contract <16 x float>" in ir
    assert "main_kernel.packed:" in module.get_source("asm")
    assert "target triple" in module.get_source("opt")
    assert module.get_source("host").startswith("def main(first, second, total):")
    with pytest.raises(UserError, match="has no form 'ptx'"):
        module.get_source("ptx")


def test_a_compiled_program_is_plain_data() -> None:
    again = Module(pickle.loads(pickle.dumps(sums().program)))
    check(again)


def test_the_compiler_is_loaded_when_something_is_compiled() -> None:
    program = "import sys, tilewright.driver, tilewright.runtime; assert 'llvmlite' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("ladder", "rung"), RUNGS)
def test_programs_for_a_gpu_are_refused_by_the_names_of_their_threads(ladder: object, rung: object) -> None:
    program = rung.make(ladder)
    tags = r"(blockIdx|threadIdx)\.x \(stage '\w+"
    with pytest.raises(UserError, match=tags) as caught:
        tvm.build(program.schedule, list(program.args), "llvm")
    assert "parallel(axis)" in caught.value.fix


def test_a_virtual_thread_is_no_hardware_thread() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(B.op.axis[0], nparts=2)
    s[B].bind(outer, te.thread_axis("vthread"))
    x = np.arange(64, dtype="float32")
    out = tvm.nd.empty((64,))
    tvm.build(s, [A, B], "llvm")(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), 2 * x)


def test_timing() -> None:
    module = sums(1 << 16)
    arrays = [tvm.nd.array(np.zeros(1 << 16, "float32")) for _ in range(3)]
    warm = module.time_evaluator("main", tvm.cpu(0), number=20, repeat=5)(*arrays)
    cold = module.time_evaluator("main", tvm.cpu(0), number=3, repeat=5, cache_flush_bytes=1 << 25)(*arrays)
    assert len(warm.results) == 5
    assert 0 < warm.min <= warm.median <= warm.max
    assert cold.min > 0
    longer = module.time_evaluator("main", tvm.cpu(0), number=1, repeat=2, min_repeat_ms=20)(*arrays)
    assert len(longer.results) == 2


def test_a_call_costs_little_python() -> None:
    """`benchmarks.calls` times it."""
    module = sums(1)
    arrays = [tvm.nd.array(np.zeros(1, "float32")) for _ in range(3)]
    module(*arrays)
    assert function_calls(lambda: module(*arrays)) <= 10


def test_two_threads_calling_one_module() -> None:
    module, failures = sums(257), []

    def work() -> None:
        try:
            for _ in range(2000):
                check(module, 257)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arrays_that_start_anywhere() -> None:
    module = sums(61, lanes=0)
    base = np.random.default_rng(0).random((3, 80)).astype("float32")
    for start in (0, 1, 3, 5):
        views = [base[row, start : start + 61] for row in range(3)]
        wanted = views[0] + views[1]
        module(*(tvm.nd.from_dlpack(view) for view in views))
        np.testing.assert_array_equal(views[2], wanted)


def test_memory_of_our_own_is_aligned_to_cache_lines() -> None:
    for size in (1, 7, 1000, 1 << 20):
        assert int(tvm.nd.empty((size,)).handle) % 64 == 0


def test_what_the_device_says_of_itself() -> None:
    attributes = tvm.cpu(0).attributes
    assert attributes.name
    assert attributes.multi_processor_count >= 1
    assert attributes.total_global_memory > 1 << 28
    assert attributes.l2_cache_bytes % 1024 == 0


def test_many_modules_come_and_go() -> None:
    for size in range(1, 40):
        check(sums(size), size)


def test_code_that_llvm_refuses_is_our_mistake() -> None:
    from tilewright.codegen.llvm.compile import compile_ir, host_processor

    with pytest.raises(InternalError, match="LLVM refuses"):
        compile_ir("define nonsense", host_processor())
