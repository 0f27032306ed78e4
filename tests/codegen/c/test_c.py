"""Functions of a CPU as C: what they compute, what the source is, and what happens without a compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.zoo import CONV1D, CONV2D, MATMUL, STENCIL
from tilewright import te, tir
from tilewright.codegen.c_compiler import c_compiler
from tilewright.core.dtype import DType
from tilewright.runtime import load_module

needs_cc = pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")


def run(module: Any, inputs: list[np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    out = tw.nd.empty(shape, dtype)
    module(*map(tw.nd.array, inputs), out)
    found: np.ndarray = out.numpy()
    return found


@needs_cc
@pytest.mark.parametrize(
    ("program", "dtype"),
    [(STENCIL, "float32"), (MATMUL, "float16"), (MATMUL, "int8"), (CONV1D, "bfloat16"), (CONV2D, "float64")],
    ids=lambda at: getattr(at, "name", at),
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_programs_compute_what_they_should(program: Any, dtype: str, symbolic: bool) -> None:
    sizes = {name: max(5, 13 - 3 * i) for i, name in enumerate(program.names)}
    tensors = program.declare({name: te.size_var(name) for name in sizes} if symbolic else sizes, dtype)
    s = te.create_schedule(tensors[-1].op)
    program.schedule(s, tensors, "llvm")
    inputs = program.inputs(sizes, dtype)
    wanted = program.expected(inputs, dtype)
    found = run(tw.build(s, tensors, "c"), inputs, wanted.shape, dtype)
    np.testing.assert_array_equal(found.astype("float64"), wanted.astype("float64"))


def elementwise(values: Any, dtype: str, count: int, target: str) -> Any:
    """A module that computes several functions of one array's elements."""
    A = te.placeholder((count,), dtype, name="A")
    made = te.compute((count,), lambda i: tuple(values(A[i])), name="B")
    return tw.build(te.create_schedule(made[0].op), [A, *made], target), [str(t.dtype) for t in made]


@needs_cc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_those_of_llvm(dtype: str) -> None:
    names = """exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh
        atanh erf sigmoid floor ceil trunc round nearbyint abs isnan isinf isfinite""".split()
    x = np.asarray([0.0, -0.0, 0.3, -0.7, 1.0, 1.5, 2.5, -2.5, 77.0, np.inf, -np.inf, np.nan], dtype)

    def values(v: Any) -> list[Any]:
        return [getattr(tir, name)(v) for name in names] + [te.max(v, v * 2), te.min(v, -v), v.astype("int8")]

    found: dict[str, list[np.ndarray]] = {}
    for target in ("c", "llvm"):
        module, kinds = elementwise(values, dtype, len(x), target)
        outs = [tw.nd.empty(x.shape, kind) for kind in kinds]
        module(tw.nd.array(x), *outs)
        found[target] = [out.numpy() for out in outs]
    for name, got, want in zip([*names, "max", "min", "int8"], found["c"], found["llvm"], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6 if dtype == "float32" else 1e-14, atol=1e-12, err_msg=name)


@needs_cc
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"])
def test_integers_are_those_of_llvm(dtype: str) -> None:
    ends = np.iinfo(dtype)
    x = np.asarray([0, 1, 2, 3, 5, 7, 100, ends.max, ends.max - 1, ends.min, ends.min + 1], dtype)

    def values(v: Any) -> list[Any]:
        three, zero = te.const(3, dtype), te.const(0, dtype)
        return [
            v + three, v * v, v // three, v % three, te.truncdiv(v, three), te.truncmod(v, three), v // (v - v),
            te.min(v, three), te.max(v, three), v & three, v | three, v ^ three, ~v, v << 2, v >> 1,
            tir.popcount(v), v.astype("float32"), v.astype("int16"), v > zero, tir.Select(v > three, v, three),
        ] + ([tir.clz(v)] if dtype in ("int32", "int64", "uint64") else [])  # fmt: skip

    found: dict[str, list[np.ndarray]] = {}
    for target in ("c", "llvm"):
        module, kinds = elementwise(values, dtype, len(x), target)
        outs = [tw.nd.empty(x.shape, kind) for kind in kinds]
        module(tw.nd.array(x), *outs)
        found[target] = [out.numpy() for out in outs]
    for got, want in zip(found["c"], found["llvm"], strict=True):
        np.testing.assert_array_equal(got, want)


@needs_cc
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_sixteen_bit_float_goes_there_and_back(dtype: str) -> None:
    kind = DType(dtype).numpy
    halves = np.arange(1 << 16, dtype="uint16").view(kind)
    module, _ = elementwise(lambda v: [v.astype("float32"), v.astype("float32").astype(dtype)], dtype, 1 << 16, "c")
    wide, back = tw.nd.empty(halves.shape, "float32"), tw.nd.empty(halves.shape, dtype)
    module(tw.nd.array(halves), wide, back)
    np.testing.assert_array_equal(wide.numpy(), halves.astype("float32"))
    np.testing.assert_array_equal(back.numpy().astype("float32"), halves.astype("float32"))
    floats = np.random.default_rng(0).integers(0, 1 << 32, 1 << 16, dtype="uint32").view("float32")
    with np.errstate(invalid="ignore"):
        floats[::3] = halves.astype("float32")[::3] * np.float32(1.0003)  # near the middle between two
    narrow, _ = elementwise(lambda v: [v.astype(dtype), v], "float32", 1 << 16, "c")
    found = tw.nd.empty(halves.shape, dtype)
    narrow(tw.nd.array(floats), found, tw.nd.empty(halves.shape, "float32"))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(found.numpy().astype("float32"), floats.astype(kind).astype("float32"))


def scratch(n: Any, target: str = "c") -> Any:
    """Rows whose squares are computed to storage of each row, in parallel."""
    A = te.placeholder((4, n), name="A")
    B = te.compute((4, n), lambda i, j: A[i, j] * A[i, j], name="B")
    C = te.compute((4, n), lambda i, j: B[i, n - 1 - j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].parallel(C.op.axis[0])
    return tw.build(s, [A, C], target, name="rows")


@needs_cc
@pytest.mark.parametrize("n", [8, 8192, te.size_var("n")])
def test_storage_within_loops(n: Any) -> None:
    module = scratch(n)
    count = n if isinstance(n, int) else 100
    x = np.random.default_rng(1).random((4, count), "float32")
    np.testing.assert_array_equal(run(module, [x], x.shape, "float32"), (x * x)[:, ::-1] + np.float32(1))
    kernel = module.get_source().partition("rows_kernel(")[2]
    assert ("malloc" in kernel.partition("int32_t rows(")[0]) is (count != 8)


def test_the_source_is_whole(tmp_path: Path) -> None:
    module = scratch(te.size_var("n"))
    assert module.get_source() == module.get_source("c")
    assert "#pragma omp parallel for" in module.get_source()
    assert "int32_t rows(const float *A, float *C, int32_t n)" in module.get_source()
    assert module.type_key == "c"
    assert not module.imported_modules
    module.save(tmp_path / "rows.c")
    assert (tmp_path / "rows.c").read_text() == module.get_source()
    assert "def rows(A, C):" in module.get_source("host")
    with refused("", "a module for c has no form 'll'", fix="ask for one of c, h, host"):
        module.get_source("ll")


MAIN = """
#include "rows.h"
int main(void) {
  static float a[4][1000], c[4][1000];
  for (int i = 0; i < 4000; ++i) a[0][i] = i % 1000;
  if (rows(&a[0][0], &c[0][0], 1000)) return 1;
  for (int i = 0; i < 4000; ++i)
    if (c[0][i] != (float)(999 - i % 1000) * (999 - i % 1000) + 1.0f) return 2;
  return 0;
}
"""


@needs_cc
@pytest.mark.parametrize("options", [[], ["-fopenmp"]])
def test_the_source_compiles_anywhere(options: list[str], tmp_path: Path) -> None:
    module = scratch(te.size_var("n"))
    for name in ("rows.c", "rows.h"):
        module.save(tmp_path / name)
    (tmp_path / "main.c").write_text(MAIN)
    command = [str(c_compiler()), "-Wall", "-Wno-unknown-pragmas", *options, "main.c", "rows.c", "-lm", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if options and done.returncode:
        pytest.skip(f"the compiler has no OpenMP: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert subprocess.run(["./main"], cwd=tmp_path, check=False).returncode == 0


@needs_cc
@pytest.mark.parametrize("form", ["rows.so", "rows.o", "rows.tw"])
def test_a_library_of_c_loads(form: str, tmp_path: Path) -> None:
    module = scratch(8)
    module.export_library(tmp_path / form)
    again = load_module(tmp_path / form)
    assert again.program == module.program
    x = np.ones((4, 8), "float32")
    np.testing.assert_array_equal(run(again, [x], x.shape, "float32"), x * 2)


@needs_cc
def test_functions_of_others_are_declared() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_pure_extern("float32", "fmaf", A[i], A[i], te.const(1.0)), name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], "c")
    assert "extern float fmaf(float, float, float);" in module.get_source()
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(run(module, [x], (8,), "float32"), x * x + 1)


def test_without_a_compiler_there_is_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert not tw.runtime.enabled("c")
    module = scratch(8)
    assert "rows_kernel" in module.get_source()
    with refused("call", "no C compiler is on the PATH", fix="install one"):
        run(module, [np.ones((4, 8), "float32")], (4, 8), "float32")


def test_threads_of_a_grid_are_not_for_c() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    with refused("build", "but the c target has no hardware threads", fix="parallel"):
        tw.build(s, [A, B], "c")
