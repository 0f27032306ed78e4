"""Files of every kind that modules are written as: each is what its name says, C calls it, Python loads it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target, spread
from tilewright import te, tir
from tilewright.codegen.c_compiler import c_compiler
from tilewright.codegen.exported import elf
from tilewright.codegen.exported.linker import run_compiler
from tilewright.contrib import cc, clang, nvcc, util, utils
from tilewright.runtime import load_module
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device
from tilewright.runtime.module import Module

needs_cc = pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")


def axpy(target: str, reverse: bool = True) -> Module:
    """y[i] = a x[n - 1 - i] + 1 for sizes that are multiples of 4, by an array in between."""
    n, a = te.var("n", multiple_of=4), te.var("a", "float32")
    x = te.placeholder((n,), name="x")
    scaled = te.compute((n,), lambda i: a * x[i], name="scaled")
    y = te.compute((n,), lambda i: scaled[n - 1 - i] + 1.0, name="y")
    s = te.create_schedule(y.op)
    spread(s, scaled, target)
    spread(s, y, target)
    return tw.build(s, [a, x, y], target, name="axpy")


def check(module: Module, target: str) -> None:
    """The module computes what it should, and checks its arguments."""
    on = device(module.target)
    x = np.arange(40, dtype="float32")
    y = empty((40,), device=on)
    module["axpy"](3.0, array(x, on), y)
    np.testing.assert_array_equal(y.numpy(), (3 * x + 1)[::-1])
    with pytest.raises(tw.UserError, match="declared to be a multiple of 4"):
        module(3.0, array(x[:5], on), empty((5,), device=on))


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


MAIN = """
#include "axpy.h"
#include <stdio.h>

static float x[1000], y[1000];

int main(void) {
  for (int i = 0; i < 1000; ++i) x[i] = i;
  printf("%d ", axpy(3.0f, x, y, 1000));
  for (int i = 0; i < 1000; ++i)
    if (y[i] != 3.0f * (999 - i) + 1.0f) return 1;
  printf("%d %d %d", axpy(3.0f, x, y, 0), axpy(3.0f, x, y, 5), axpy(3.0f, x, y, -4));
  return 0;
}
"""


@needs_cc
@pytest.mark.parametrize("form", ["axpy.o", "axpy.so"])
def test_a_c_program_calls_a_module(form: str, tmp_path: Path) -> None:
    module = axpy("llvm")
    module.save(tmp_path / form)
    module.save(tmp_path / "axpy.h")
    (tmp_path / "main.c").write_text(MAIN)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wl,-rpath,."]
    run([str(c_compiler()), *flags, "main.c", form, "-lm", "-lpthread", "-o", "main"], tmp_path)
    for threads in ("1", "3", "64", "-2", "many"):
        assert run(["./main"], tmp_path, TILEWRIGHT_NUM_THREADS=threads) == "0 0 2 2"
    assert run(["./main"], tmp_path) == "0 0 2 2"


@needs_cc
@every_target
@pytest.mark.parametrize("form", ["axpy.o", "axpy.so", "axpy.tar", "axpy.tw"])
def test_what_is_written_is_what_the_name_says_and_loads(target: str, form: str, tmp_path: Path) -> None:
    module, path = axpy(target), tmp_path / form
    module.export_library(path)
    content = path.read_bytes()
    kind = {"o": 1, "so": 3}.get(path.suffix[1:])  # of an ELF file: relocatable, shared
    if kind is not None:
        assert content[:4] == elf.MAGIC
        assert int.from_bytes(content[16:18], "little") == kind
    elif path.suffix == ".tar":
        with tarfile.open(path) as archive:
            assert archive.getnames() == ["lib.o", "lib.h"]
    again = load_module(path)
    assert again.program == module.program
    check(again, target)
    module.export_library(tmp_path / "again")
    assert load_module(tmp_path / "again").program == module.program
    assert {file.name for file in tmp_path.iterdir()} == {form, "again"}


SOURCES = {
    "llvm": {"ll": "define", "s": ".text", "h": "int32_t axpy(float a, const float *x, float *y, int32_t n);"},
    "opencl": {"cl": "__kernel", "c": "clEnqueueNDRangeKernel", "h": "void *queue);"},
    "cuda": {"cu": "__global__", "c": "cuLaunchKernel", "h": "void *stream);"},
}


@pytest.mark.parametrize("target", SOURCES)
def test_source_is_written_as_source(target: str, tmp_path: Path) -> None:
    module = axpy(target)
    for form, part in SOURCES[target].items():
        module.save(tmp_path / f"axpy.{form}")
        assert part in (tmp_path / f"axpy.{form}").read_text()
        if form in ("h", "c"):
            assert module.get_source(form) == (tmp_path / f"axpy.{form}").read_text()
    if target == "cuda":
        module.save(tmp_path / "axpy.cubin")
        assert (tmp_path / "axpy.cubin").read_bytes() == module.program.binary
    if target == "llvm":
        module.save(tmp_path / "axpy.bc")
        assert (tmp_path / "axpy.bc").read_bytes()[:2] == b"BC"


def test_nothing_is_written_under_a_name_that_promises_something_else(tmp_path: Path) -> None:
    module = axpy("llvm")
    for name in ("m.dll", "m.a", "m.PTX", "m.cu", "m.cl", "m.cubin", "m.c"):
        with refused("save", "a module for llvm cannot be written as", fix="end the name in one of .tw, .so, .o"):
            module.save(tmp_path / name)
    with refused("export_library", "a module for cuda cannot be written as .ll", fix=".cubin"):
        axpy("cuda").export_library(tmp_path / "m.ll")
    with refused("save", "m.so has another ending than fmt='o'", fix='call it "m.o"'):
        module.save(tmp_path / "m.so", "o")
    with refused("save", "there is no format 'exe'", fix="give one of tw, so, o"):
        module.save(tmp_path / "m", "exe")
    assert not list(tmp_path.iterdir())
    module.save(tmp_path / "m", "o")
    assert (tmp_path / "m").read_bytes()[:4] == elf.MAGIC


def test_without_a_compiler_no_library_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with refused("export_library", "linking needs a C compiler", fix="install one"):
        axpy("llvm").export_library(tmp_path / "m.so")
    with refused("save", "compiling C needs a C compiler", fix="install one"):
        axpy("opencl").save(tmp_path / "m.o")
    assert not list(tmp_path.iterdir())
    axpy("llvm").save(tmp_path / "m.o")  # LLVM writes objects by itself
    check(load_module(tmp_path / "m.o"), "llvm")


def test_a_loaded_module_is_an_archive(tmp_path: Path) -> None:
    axpy("llvm").save(tmp_path / "m.o")
    loaded = load_module(tmp_path / "m.o")
    loaded.save(tmp_path / "m.tw")
    check(load_module(tmp_path / "m.tw"), "llvm")
    with refused("save", "loaded from a file cannot be written as .o", fix="tw.build(...).save"):
        loaded.save(tmp_path / "n.o")


def test_elf_files_that_hold_no_module(tmp_path: Path) -> None:
    axpy("llvm").save(tmp_path / "m.o")
    whole = (tmp_path / "m.o").read_bytes()
    other = whole.replace(b".tilewright", b".somethings")
    for content in (whole[:100], whole[:-40], whole[:4] + b"\x01" + whole[5:], other):
        (tmp_path / "n.o").write_bytes(content)
        with pytest.raises(tw.UserError, match="is not a saved module, or a damaged one"):
            load_module(tmp_path / "n.o")
    with tarfile.open(tmp_path / "n.tar", "w") as archive:
        archive.add(tmp_path / "m.o", "other.o")
    with pytest.raises(tw.UserError, match="is not a saved module, or a damaged one"):
        load_module(tmp_path / "n.tar")


@needs_cc
def test_sizes_strides_types_and_several_functions(tmp_path: Path) -> None:
    """Scalars of each kind, 16-bit floats, strides that the call gives, a size that stands in products alone."""
    m, stride, flag, h = te.size_var("m"), te.var("stride"), te.var("flag", "bool"), te.var("h", "float16")
    A = te.placeholder((m * 2,), "float16", name="A")
    B = te.compute((m * 2,), lambda i: te.if_then_else(flag, A[i] * h, A[i]), name="B")
    C = te.placeholder((m,), "int8", name="C")
    D = te.compute((m,), lambda i: C[i] + te.const(1, "int8"), name="D")
    rows = tir.decl_buffer((m,), "int8", "C", strides=[stride])
    first = tw.lower(te.create_schedule(B.op), [A, B, flag, h], name="main")
    second = tw.lower(te.create_schedule(D.op), [C, D], name="int", binds={C: rows})
    module = tw.build([first, second], target="llvm")
    head = module.get_source("h")
    assert "int32_t default_function(const uint16_t *A, uint16_t *B, uint8_t flag, float h, int32_t m);" in head
    assert "int32_t int_(const int8_t *C, int8_t *D, int32_t m, int32_t stride);" in head
    module.export_library(tmp_path / "both.so")
    library = ctypes.CDLL(str(tmp_path / "both.so"))
    a, b = np.arange(10, dtype="float16"), np.zeros(10, "float16")
    args = (ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(b.ctypes.data))
    assert library.default_function(*args, ctypes.c_uint8(1), ctypes.c_float(3), 5) == 0
    np.testing.assert_array_equal(b, 3 * a)
    c, d = np.arange(12, dtype="int8"), np.zeros(4, "int8")
    assert library.int_(ctypes.c_void_p(c.ctypes.data), ctypes.c_void_p(d.ctypes.data), 4, 3) == 0
    np.testing.assert_array_equal(d, c[::3] + 1)


@needs_cc
def test_reads_beyond_an_array_are_refused(tmp_path: Path) -> None:
    n, k = te.size_var("n"), te.size_var("k")
    A = te.placeholder((n,), name="A")
    B = te.compute((k,), lambda i: A[i + 1], name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], target="llvm", name="shift")
    module.export_library(tmp_path / "shift.so")
    library = ctypes.CDLL(str(tmp_path / "shift.so"))
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    at = [ctypes.c_void_p(each.ctypes.data) for each in (a, b)]
    assert [library.shift(*at, n, k) for n, k in ((8, 7), (8, 8), (0, 0))] == [0, 2, 0]
    np.testing.assert_array_equal(b[:7], a[1:])


@pytest.mark.opencl
@needs_cc
def test_an_opencl_library_is_called_without_python(tmp_path: Path) -> None:
    """By its C function, on objects of OpenCL's own."""
    cl = pytest.importorskip("pyopencl")
    with open("/proc/self/maps") as maps:
        loaders = [line.split()[-1] for line in maps if "libOpenCL" in line]
    if not loaders:
        pytest.skip("OpenCL is not loaded from a file called libOpenCL")
    ctypes.CDLL(loaders[0], ctypes.RTLD_GLOBAL)
    axpy("opencl").export_library(tmp_path / "axpy.so")
    library = ctypes.CDLL(str(tmp_path / "axpy.so"))
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    x, y = np.arange(100, dtype="float32"), np.zeros(100, "float32")
    flags = cl.mem_flags.READ_WRITE
    held = [cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=each) for each in (x, y)]
    at = [ctypes.c_void_p(each.int_ptr) for each in held]
    for _ in range(2):
        assert library.axpy(ctypes.c_float(3.0), *at, 100, ctypes.c_void_p(queue.int_ptr)) == 0
    cl.enqueue_copy(queue, y, held[1])
    np.testing.assert_array_equal(y, (3 * x + 1)[::-1])
    assert library.axpy(ctypes.c_float(3.0), *at, 101, ctypes.c_void_p(queue.int_ptr)) == 2
    assert library.axpy(ctypes.c_float(3.0), *at, 100, None) == 3


DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags) { return setvbuf(stdout, NULL, _IONBF, 0); }
int cuCtxGetCurrent(void **context) { *context = (void *)16; return 0; }
int cuModuleLoadData(void **module, const void *image) {
  printf("load %d\\n", memcmp(image, "\\177ELF", 4));
  *module = (void *)32;
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  printf("function %s\\n", name);
  *function = (void *)strdup(name);
  return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuMemAllocAsync(uint64_t *memory, size_t bytes, void *stream) {
  printf("allocate %zu\\n", bytes);
  *memory = 4096;
  return 0;
}
int cuMemFreeAsync(uint64_t memory, void *stream) { printf("free %llu\\n", (unsigned long long)memory); return 0; }
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
  printf("launch %s %u %u %u %u %u %u %u %p %p %p\\n", (char *)function, gx, gy, gz, bx, by, bz, shared, stream,
         *(void **)params[0], *(void **)params[1]);
  return 0;
}
"""


@needs_cc
def test_a_cuda_library_asks_the_driver_for_the_right_things(tmp_path: Path) -> None:
    """There is no GPU here: a driver that only notes what it is asked for."""
    module = axpy("cuda")
    module.export_library(tmp_path / "axpy.so")
    assert load_module(tmp_path / "axpy.so").program == module.program
    (tmp_path / "driver.c").write_text(DRIVER)
    cc.create_shared(tmp_path / "libcuda.so.1", [tmp_path / "driver.c"])
    program = (
        "import ctypes as c\nlibrary = c.CDLL('./axpy.so')\nx, y, stream = map(c.c_void_p, (256, 512, 64))\n"
        "print([library.axpy(c.c_float(2), x, y, n, stream) for n in (1000, 0, 6)], flush=True)"
    )
    said = run(["python3", "-c", program], tmp_path, LD_LIBRARY_PATH=str(tmp_path)).splitlines()
    first, second = (abi.name for abi in module.program.kernels)
    assert said[:4] == ["load 0", f"function {first}", f"function {second}", "allocate 4000"]
    launches = [line.split() for line in said if line.startswith("launch")]
    assert [launch[1] for launch in launches] == [first, second], "an empty grid launches nothing"
    assert launches[0][-2:] == ["0x100", "0x1000"]
    assert launches[0][-3] == "0x40"
    assert said.count("free 4096") == 2
    assert said[-1] == "[0, 0, 2]"
    gone = run(["python3", "-c", program], tmp_path, LD_LIBRARY_PATH="/nowhere").splitlines()
    assert gone[-1] in ("[3, 3, 2]", "[0, 0, 2]"), "no driver, or a real one"


@pytest.mark.cuda
@needs_cc
def test_a_cuda_library_runs_on_a_gpu(tmp_path: Path) -> None:
    axpy("cuda").export_library(tmp_path / "axpy.so")
    library = ctypes.CDLL(str(tmp_path / "axpy.so"))
    on = tw.cuda()
    x = np.arange(100, dtype="float32")
    held, y = array(x, on), empty((100,), device=on)
    at = [ctypes.c_void_p(int(each.handle)) for each in (held, y)]
    assert library.axpy(ctypes.c_float(3.0), *at, 100, None) == 0
    on.sync()
    np.testing.assert_array_equal(y.numpy(), (3 * x + 1)[::-1])


def test_what_no_library_can_hold(tmp_path: Path) -> None:
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda ins, outs: tir.call_packed("tests.exports.twice", ins[0], outs[0]), name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], target="llvm", name="packed")
    with refused("export_library", "can only run compiled loops", fix="tir.call_extern"):
        module.save(tmp_path / "m.o")
    with refused("save", "a module for llvm has no C source", fix="opt"):
        module.get_source("c")
    same = [tw.lower(te.create_schedule(x.op), [x], name=name) for x, name in ((A, "a.b"), (A, "a_b"))]
    with refused("export_library", "two functions would be called", fix="other names"):
        tw.build(same, target="llvm").save(tmp_path / "m.o")


# contrib


@needs_cc
def test_the_compiler_under_its_legacy_name(tmp_path: Path) -> None:
    axpy("llvm").export_library(tmp_path / "m.so", fcompile=cc.create_shared)
    check(load_module(tmp_path / "m.so"), "llvm")
    (tmp_path / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("here"); return 0; }\n')
    cc.create_executable(tmp_path / "main", str(tmp_path / "main.c"), ["-O1"])
    assert run(["./main"], tmp_path) == "here\n"
    assert cc.get_cc() == c_compiler()
    (tmp_path / "wrong.c").write_text("int main(void) { return }\n")
    with refused("create_executable", "expected expression", fix="correct"):
        cc.create_executable(tmp_path / "wrong", [tmp_path / "wrong.c"])
    with refused("create_shared", "cannot run nobody", fix="install one"):
        cc.create_shared(tmp_path / "wrong", [tmp_path / "wrong.c"], cc="nobody")
    with refused("create_shared", "[] is not a list of files", fix="lib.o"):
        cc.create_shared(tmp_path / "wrong", [])
    with refused("create_shared", "options=[3]", fix="-O2"):
        cc.create_shared(tmp_path / "wrong", ["a.o"], [3])
    with refused("create_shared", "options='-O2' is not a list of texts", fix="-O2"):
        cc.create_shared(tmp_path / "wrong", ["a.o"], "-O2")
    with refused("create_shared", "cc=1.5 is not a path", fix="/usr/bin/gcc"):
        cc.create_shared(tmp_path / "wrong", ["a.o"], cc=1.5)  # type: ignore[arg-type]
    with refused("create_shared", "output='a\\x00b' is not a path", fix="give a path"):
        cc.create_shared("a\0b", ["a.o"])
    with refused("create_llvm", "options=['\\ud800'] is not a list of texts", fix="-O2"):
        clang.create_llvm("int f;", options=["\ud800"])
    with refused("compile_cuda", "options=[1] is not a list of texts", fix="-O2"):
        nvcc.compile_cuda("", options=[1])
    with refused("create_llvm", "cc=1.5 is not a path", fix="give a path"):
        clang.create_llvm("int f;", cc=1.5)  # type: ignore[arg-type]
    with refused("export_library", "fcompile=3 is not a function", fix="create_shared"):
        axpy("llvm").export_library(tmp_path / "m.so", fcompile=3)


def test_a_compiler_has_the_temporary_folder_that_takes_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds another one where that of the environment is full; a compiler would not."""
    tempfile.gettempdir()
    monkeypatch.setenv("TMPDIR", "/nowhere")
    assert run_compiler(["sh", "-c", 'printf %s "$TMPDIR"'], "build").decode() == tempfile.gettempdir()


def test_temporary_folders(tmp_path: Path) -> None:
    assert util is utils
    with utils.tempdir() as folder:
        (folder / "a").write_text("x")
        assert folder.listdir() == ["a"]
        assert folder.relpath("a") == os.path.join(folder.temp_dir, "a") == str(folder.path / "a")
        with refused("relpath", "3 is not a name", fix="lib.so"):
            folder.relpath(3)
    assert not folder.path.exists()
    kept = utils.tempdir(tmp_path / "kept", keep_for_debug=True)
    kept.remove()
    assert kept.path.exists()


def test_temporary_folders_delete_what_they_have_made(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    utils.tempdir(tmp_path).remove()
    assert (tmp_path / "mine").exists()
    folder = utils.tempdir(tmp_path / "deep" / "new")
    with patch("os.getpid", return_value=-1):  # a fork, which holds the same object
        folder.remove()
    assert folder.path.exists()
    folder.remove()
    assert not folder.path.exists()
    with refused("tempdir", "mine cannot be made: File exists", fix="that can be written"):
        utils.tempdir(tmp_path / "mine")


SOURCE = 'extern "C" __global__ void one(float* a) { a[threadIdx.x] = 1.0f; }'


def test_cuda_source_is_compiled_without_a_toolkit(tmp_path: Path) -> None:
    assert nvcc.compile_cuda(SOURCE)[:4] == elf.MAGIC
    made = nvcc.compile_cuda(SOURCE, "ptx", "sm_80", ["-DX=1"], str(tmp_path / "one.ptx"))
    assert b".target sm_80" in made == (tmp_path / "one.ptx").read_bytes()
    with tw.target.Target("cuda -arch=sm_86"):
        assert b".target sm_86" in nvcc.compile_cuda(SOURCE, "ptx")
        assert nvcc.get_target_compute_version() == "8.6"
    assert nvcc.parse_compute_version("9.0") == (9, 0)
    assert nvcc.get_cuda_version() >= (12, 0)
    assert [f("7.5") for f in (nvcc.have_fp16, nvcc.have_int8, nvcc.have_bf16)] == [True, True, False]


def test_what_the_cuda_compiler_refuses() -> None:
    with refused("compile_cuda", "NVRTC refuses the source for sm_90", "error", fix="correct the source"):
        nvcc.compile_cuda("nothing")
    with refused("compile_cuda", "the code is 3", fix="CUDA source"):
        nvcc.compile_cuda(3)
    with refused("compile_cuda", "target_format='fatbin' is not known", fix="cubin"):
        nvcc.compile_cuda(SOURCE, "fatbin")
    with refused("compile_cuda", "arch='sm_1'", fix="sm_90"):
        nvcc.compile_cuda(SOURCE, arch="sm_1")
    with refused("parse_compute_version", "compute_version is 'x'", fix="9.0"):
        nvcc.parse_compute_version("x")
    with refused("get_target_compute_version", "llvm is not a CUDA target", fix="cuda"):
        nvcc.get_target_compute_version("llvm")
