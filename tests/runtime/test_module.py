"""Modules: calls, what is wrong with one, source, timing."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.codegen import programs as p
from tests.counting import function_calls
from tests.paths import python_path
from tilewright import te, tir
from tilewright.codegen.program import compile_program
from tilewright.core.errors import TVMError, UserError
from tilewright.core.target import Target
from tilewright.expr.nodes import Var
from tilewright.loops.nodes import Function
from tilewright.runtime.array import NDArray, array, empty
from tilewright.runtime.compile import compile_function, compile_functions
from tilewright.runtime.device import Device, cpu, device, opencl
from tilewright.runtime.from_dlpack import from_dlpack
from tilewright.runtime.module import Module
from tilewright.runtime.packed import register_func, remove_global_func
from tilewright.runtime.timing import BenchmarkResult

ADD = p.elementwise(100, ["float32", "float32"], lambda a, b: a + b, "float32")


def three(dev: Device, size: int = 100) -> list[NDArray]:
    """Two inputs and an output."""
    x = np.arange(size, dtype="float32")
    return [array(x, dev), array(2 * x, dev), empty((size,), device=dev)]


def test_a_module_is_called_by_its_names(dev: Device) -> None:
    module = compile_function(ADD, dev.kind)
    for call in (module, module["main"], module["__tvm_main__"], module.entry_func, module[module.entry_name]):
        args = three(dev)
        call(*args)
        np.testing.assert_array_equal(args[2].numpy(), 3 * np.arange(100))
    with pytest.raises(UserError, match=r"no function 'other'\n  fix: it has main"):
        module["other"]


def test_source_of_host_and_kernels() -> None:
    module = compile_function(ADD, "cuda")
    assert module.get_source().startswith("def main(A0, A1, B):")
    (kernels,) = module.imported_modules
    assert "__global__" in kernels.get_source()
    assert kernels.get_source("cu") == kernels.get_source()
    assert kernels.type_key == "cuda"
    assert kernels.binary is not None
    with pytest.raises(UserError, match="no 'ptx' form"):
        kernels.get_source("ptx")
    assert module.resources["main_kernel"].registers > 0
    assert compile_function(ADD, "opencl").imported_modules[0].type_key == "opencl"


def test_several_functions_share_a_module(dev: Device) -> None:
    other = Function(
        "twice", *(lambda f: (f.params, f.body))(p.elementwise(100, ["float32"], lambda a: a * 2.0, "float32"))
    )
    module = compile_functions((ADD, other), dev.kind)
    x, _, out = three(dev)
    module["twice"](x, out)
    np.testing.assert_array_equal(out.numpy(), 2 * np.arange(100))


def test_a_program_runs_after_it_was_pickled(dev: Device) -> None:
    program = compile_program((ADD,), Target(compile_function(ADD, dev.kind).program.target))
    args = three(dev)
    Module(pickle.loads(pickle.dumps(program)))(*args)
    np.testing.assert_array_equal(args[2].numpy(), 3 * np.arange(100))


def test_two_threads_call_one_module(dev: Device) -> None:
    module = compile_function(p.symbolic(), dev.kind)
    wrong: list[int] = []

    def work(size: int) -> None:
        x = np.arange(size, dtype="float32")
        a, b = array(x, dev), empty((size,), device=dev)
        for i in range(100):
            module(a, b)
            if i % 20 == 0 and not np.array_equal(b.numpy(), x + x[::-1]):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (50, 900)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# What is wrong with a call


def test_a_packed_function_calls_the_function_that_calls_it() -> None:
    """Each call has its own memory between kernels, and none waits for the other."""
    size = Var("n")
    a = te.placeholder((size,), name="A")
    inner = te.compute((size,), lambda i: a[i] + 1, name="inner")
    out = te.extern(
        (size,), [inner], lambda i, o: tir.call_packed("test.again", i[0], o[0], size), name="out", dtype="float32"
    )
    f = tw.build(te.create_schedule(out.op), [a, out], "llvm")

    def again(data: NDArray, made: NDArray, n: int) -> None:
        rest = empty((1,))
        if n > 1:
            f(array(np.full(1, 100, "float32")), rest)
        else:
            rest[:] = 5
        made[:] = data.numpy() + rest.numpy()[0]

    register_func("test.again", again, override=True)
    try:
        result = empty((2,))
        f(array(np.array([10, 20], "float32")), result)
    finally:
        remove_global_func("test.again")
    assert result.numpy().tolist() == [10 + 1 + 106, 20 + 1 + 106]


@pytest.mark.parametrize("kind", ["llvm", "c", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_of_16_bits_is_rounded_as_the_elements_are(kind: str, dtype: str) -> None:
    x, a = te.var("x", dtype), te.placeholder((4,), dtype, name="A")
    b = te.compute((4,), lambda i: a[i] * x, name="B")
    s = te.create_schedule(b.op)
    if kind == "opencl":
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    on = device("cpu" if kind != "opencl" else kind)
    f, made = tw.build(s, [a, x, b], kind), empty((4,), dtype, on)
    three = np.float32(3).astype(made.dtype.numpy)
    f(array(np.full(4, 3).astype(made.dtype.numpy), on), 0.1, made)
    assert (made.numpy() == three * np.float32(0.1).astype(made.dtype.numpy)).all()


def test_the_number_of_arguments(dev: Device) -> None:
    module = compile_function(ADD, dev.kind)
    for args in (three(dev)[:2], [*three(dev), 1], []):
        with pytest.raises(
            UserError, match=rf"main takes 3 arguments \(A0: float32\[100\], .*\), but {len(args)} were"
        ):
            module(*args)


def test_every_wrong_argument_is_named_with_what_it_is(dev: Device) -> None:
    module = compile_function(ADD, dev.kind)
    x, y, out = three(dev)
    module(x, y, out)  # so that the fast path is there
    cases = [
        (
            np.zeros(100, "float32"),
            rf"is a NumPy array of float32\[100\], not an NDArray\n  fix: .*: nd.array\(x, nd.{dev.kind}",
        ),
        (3, "is 3"),
        (None, "is None"),
        (empty((100,)), rf"is on cpu\(0\), but this module runs on {dev.kind}"),
        (
            empty((100,), "float64", dev),
            r"has type float64, but the program reads float32\n  fix: .*: nd.array\(x.numpy\(\).astype\('float32'\)",
        ),
        (empty((99,), device=dev), r"has shape \(99,\)"),
        (empty((100, 1), device=dev), r"has shape \(100, 1\)"),
    ]
    for bad, message in cases:
        for position, name in enumerate(("A0", "A1", "B")):
            args = [x, y, out]
            args[position] = bad
            with pytest.raises(UserError, match=rf"argument {position} of main \({name}: float32\[100\]\) {message}"):
                module(*args)
    module(x, y, out)


@pytest.mark.opencl
def test_the_error_points_at_the_callers_line() -> None:
    module = compile_function(ADD, "opencl")
    with pytest.raises(UserError) as caught:
        module(1, 2, 3)
    assert "test_module.py:" in caught.value.where


def test_symbolic_sizes_must_agree(dev: Device) -> None:
    module = compile_function(p.symbolic(), dev.kind)
    with pytest.raises(
        UserError, match=r"argument 1 of main \(B: float32\[n\]\) has shape \(9,\): extent 0 is 9, .* make it 8"
    ):
        module(empty((8,), device=dev), empty((9,), device=dev))
    with pytest.raises(UserError, match=r"argument 0 of main \(A: float32\[n\]\) has shape \(8, 1\)"):
        module(empty((8, 1), device=dev), empty((8,), device=dev))


def test_scalars_must_fit(dev: Device) -> None:
    n, f, flag, i = Var("n", "int8"), Var("f", "float32"), Var("flag", "bool"), Var("threadIdx.x")
    b = p.buf("B", 1)
    kernel = p.launch(p.put(b, 0, p.c(1.0)), threadIdx_x=(i, 1))
    module = compile_function(Function("main", (b, n, f, flag), kernel), dev.kind)
    out = empty((1,), device=dev)
    module(out, 3, 2, True)
    module(out, True, np.float64(2), np.True_)
    for args, message in (
        ((200, 1.0, True), r"argument 1 of main \(n: int8\) is 200, which does not fit"),
        ((1.5, 1.0, True), r"argument 1 of main \(n: int8\) is 1.5, of type float"),
        ((1, "x", True), r"argument 2 of main \(f: float32\) is 'x', of type str"),
        ((1, 1.0, 1), r"argument 3 of main \(flag: bool\) is 1, of type int"),
    ):
        with pytest.raises(UserError, match=message):
            module(out, *args)


def test_a_misaligned_array_is_refused_where_vectors_are_used() -> None:
    program = compile_program((p.vectors(64, 4),), Target("cuda"))
    assert [argument.align for argument in program.entries[0].arguments] == [16, 16]  # type: ignore[union-attr]


@pytest.mark.cuda
def test_a_slice_of_another_librarys_array_may_be_misaligned() -> None:
    torch = pytest.importorskip("torch")

    module = compile_function(p.vectors(64, 4), "cuda")
    whole = torch.zeros(65, device="cuda")
    out = torch.zeros(64, device="cuda")
    module(from_dlpack(whole[:64]), from_dlpack(out))
    with pytest.raises(
        UserError, match=r"argument 0 of main \(A\) starts at address 0x\w+, which is not a multiple of 16"
    ):
        module(from_dlpack(whole[1:]), from_dlpack(out))


# Timing


def test_time_evaluator_has_the_legacy_arguments_and_fields(dev: Device) -> None:
    module = compile_function(ADD, dev.kind)
    args = three(dev)
    result = module.time_evaluator(module.entry_name, dev, number=5, repeat=3)(*args)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max < 600
    assert result.min <= result.mean <= result.max
    assert result.std >= 0
    assert str(result).startswith("Execution time summary:\n  mean (ms) ")
    np.testing.assert_array_equal(args[2].numpy(), 3 * np.arange(100))
    assert module.entry_func.time_evaluator(dev, number=2)(*args).mean > 0
    assert module["main"].time_evaluator("main", dev, 2, 2)(*args).mean > 0
    assert module.time_evaluator("main", dev, number=600)(*args).mean > 0
    cold = module.time_evaluator("main", dev, number=2, repeat=2, cache_flush_bytes=1 << 20)(*args)
    assert len(cold.results) == 2


def test_the_number_of_runs_grows_to_the_minimum_time(dev: Device) -> None:
    module = compile_function(p.tiles(50), dev.kind)
    args = [array(np.ones((50, 50), "float32"), dev) for _ in range(3)]
    result = module.time_evaluator("main", dev, number=1, repeat=2, min_repeat_ms=2, cooldown_interval=1)(*args)
    assert 0 < result.mean < 600  # test_timing.py counts the runs


def test_timing_checks_its_arguments(dev: Device) -> None:
    module = compile_function(ADD, dev.kind)
    with pytest.raises(UserError, match="number=0: a whole number of at least 1"):
        module.time_evaluator("main", dev, number=0)
    with pytest.raises(UserError, match="f_preproc='nothing' is unknown"):
        module.time_evaluator("main", dev, f_preproc="nothing")
    with pytest.raises(UserError, match="takes 3 arguments"):
        module.time_evaluator("main", dev)(1)


def test_results_compute_their_statistics() -> None:
    result = BenchmarkResult((1.0, 2.0, 6.0))
    assert (result.mean, result.median, result.min, result.max) == (3.0, 2.0, 1.0, 6.0)
    assert result.std == pytest.approx(np.std([1, 2, 6]))


# Errors of the device


def test_a_block_too_large_for_the_device(dev: Device) -> None:
    """Allowed by the target's spelling, refused by the hardware: the error names the kernel and its extents."""
    b, tx, ty = p.buf("B", 1), Var("threadIdx.x"), Var("threadIdx.y")
    kernel = p.launch(p.put(b, 0, p.c(1.0)), threadIdx_x=(tx, 1024), threadIdx_y=(ty, 16))
    function = Function("main", (b,), kernel)
    target = f"{dev.kind} -max_threads_per_block=16384"
    if dev.kind == "cuda":
        pytest.skip("NVRTC refuses such launch bounds")
    with pytest.raises(TVMError, match=r"main_kernel with grid \(1, 1, 1\) and block \(1024, 16, 1\)"):
        compile_function(function, target)(empty((1,), device=dev))


@pytest.mark.cuda
def test_the_debug_mode_names_the_kernel_that_faults() -> None:
    """In a process of its own: a fault takes the GPU's context with it."""
    script = (
        "from tests.codegen import programs as p\n"
        "from tilewright.loops.nodes import Function\n"
        "from tilewright.expr.nodes import Var\n"
        "from tilewright.runtime.compile import compile_function\n"
        "from tilewright.runtime.array import empty\n"
        "from tilewright.runtime.device import cuda\n"
        "b, n = p.buf('B', 1), Var('n')\n"
        "f = Function('main', (b, n), p.launch(p.put(b, n, p.c(1.0)), 'bad_kernel', threadIdx_x=(Var('t'), 1)))\n"
        "compile_function(f, 'cuda')(empty((1,), device=cuda()), 2**30)\n"
    )
    root = Path(__file__).parents[2]

    environment = {**os.environ, "TILEWRIGHT_DEBUG": "1", "PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", script], cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    fault = r"kernel bad_kernel on cuda\(0\): cuCtxSynchronize: CUDA_ERROR_(ILLEGAL_ADDRESS|INVALID_ADDRESS_SPACE)"
    assert re.search(fault, done.stderr)


@pytest.mark.opencl
def test_the_cpu_takes_part_only_as_memory() -> None:
    module = compile_function(ADD, "opencl")
    with pytest.raises(UserError, match=r"is on cpu\(0\), but this module runs on opencl"):
        module(*three(cpu()))
    assert opencl(0).kind == "opencl"


@pytest.mark.cuda
def test_launches_go_to_the_stream_of_another_library() -> None:
    """Recorded into a graph of torch's, and run when that graph runs."""
    torch = pytest.importorskip("torch")
    dev = device("cuda")
    module = compile_function(ADD, "cuda")
    x, y, out = (torch.zeros(100, device="cuda") for _ in range(3))
    args = [from_dlpack(t) for t in (x, y, out)]
    module(*args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()), dev.use_stream(torch.cuda.current_stream()):
        module(*args)
    x += 1
    graph.replay()
    torch.cuda.synchronize()
    np.testing.assert_array_equal(out.cpu().numpy(), np.ones(100))


@pytest.mark.cuda
def test_each_thread_has_a_stream_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    dev, seen = device("cuda"), []
    with dev.use_stream(torch.cuda.Stream()):
        driver: Any = dev.driver
        thread = threading.Thread(target=lambda: seen.append(driver.gpu(0).stream))
        thread.start()
        thread.join()
        assert driver.gpu(0).stream != 0
    assert seen == [0]
    assert driver.gpu(0).stream == 0


@pytest.mark.cuda
def test_work_of_other_streams_is_waited_for_when_memory_is_shared() -> None:
    """Results are handed over on the consumer's stream, and taken after what the producer still computes."""
    torch = pytest.importorskip("torch")
    dev, module = device("cuda"), compile_function(p.symbolic(), "cuda")
    size = 1 << 22
    x, out = torch.zeros(size, device="cuda"), empty((size,), device=dev)
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()  # PyTorch's streams do not wait for the default one, on which `x` is set to 0
    for step in range(1, 20):
        with torch.cuda.stream(theirs):
            x.fill_(step)
            with dev.use_stream(ours):
                module(from_dlpack(x), out)
                back = torch.from_dlpack(out)
            total = back.sum().item()  # on the stream that it is computed on
        assert total == 2.0 * step * size


@pytest.mark.cuda
def test_a_fault_in_one_call_does_not_hang_the_process() -> None:
    script = (
        "from tests.codegen import programs as p\n"
        "from tilewright.core.errors import TVMError\n"
        "from tilewright.loops.nodes import Function\n"
        "from tilewright.expr.nodes import Var\n"
        "from tilewright.runtime.compile import compile_function\n"
        "from tilewright.runtime.array import empty\n"
        "from tilewright.runtime.device import cuda\n"
        "b, n = p.buf('B', 1), Var('n')\n"
        "f = Function('main', (b, n), p.launch(p.put(b, n, p.c(1.0)), threadIdx_x=(Var('t'), 1)))\n"
        "module, out = compile_function(f, 'cuda'), empty((1,), device=cuda())\n"
        "module(out, 2**30)\n"
        "for step in (out.numpy, cuda().sync, lambda: module(out, 0), lambda: empty((1,), device=cuda())):\n"
        "    try: step()\n"
        "    except TVMError as error: print(str(error).partition(':')[0])\n"
        "print('goes on')\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "goes on"
    assert len(done.stdout.splitlines()) >= 3


@pytest.mark.parametrize(
    "kind", [pytest.param("cuda", marks=pytest.mark.cuda), pytest.param("opencl", marks=pytest.mark.opencl)]
)
def test_a_call_costs_little_python(kind: str) -> None:
    """`benchmarks.calls` times it."""
    module, args = compile_function(ADD, kind), three(device(kind))
    module(*args)
    assert function_calls(lambda: module(*args)) <= 12


@pytest.mark.opencl
def test_opencl_has_no_streams_to_choose() -> None:
    with pytest.raises(UserError, match="no streams"):
        opencl(0).set_raw_stream(1)
