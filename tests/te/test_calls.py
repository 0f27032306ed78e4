"""Calls of functions that a program does not define: C functions, packed functions, LLVM intrinsics, a target's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.loops.running import floats, run
from tests.programs.harness import TARGETS, build, every_target, spread
from tilewright import te, tir
from tilewright.codegen.c_compiler import c_compiler
from tilewright.contrib import cblas, clang
from tilewright.runtime.packed import get_global_func, list_global_func_names, register_func, remove_global_func

needs_cc = pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")
TWICE = "int twice(float* out, const float* in, int n) { for (int i = 0; i < n; ++i) out[i] = 2 * in[i]; return 0; }"
TWICE_IR = """
define i32 @twice(ptr %out, ptr %in, i32 %n) {
entry:
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %after, %next ]
  %from = getelementptr float, ptr %in, i32 %i
  %to = getelementptr float, ptr %out, i32 %i
  %x = load float, ptr %from
  %y = fadd float %x, %x
  store float %y, ptr %to
  %after = add i32 %i, 1
  %more = icmp slt i32 %after, %n
  br i1 %more, label %next, label %done
done:
  ret i32 0
}
"""


def twice(out: np.ndarray, given: np.ndarray, n: int) -> None:
    """What the C function does."""
    out[:n] = 2 * given[:n]


@pytest.fixture
def double() -> Iterator[str]:
    """The name of a packed function that doubles an array, on whatever device it is."""
    name = "tests.double"

    @register_func(name)
    def run(source: Any, target: Any) -> None:
        assert source.shape == target.shape
        if target.device.kind == "cpu":
            np.from_dlpack(target)[...] = np.from_dlpack(source) * 2  # the same memory, without a copy
        else:
            target.copyfrom(source.numpy() * 2)

    yield name
    remove_global_func(name)


def called(shape: tuple[Any, ...] = (32,)) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """C = B + 1, where B is what the C function `twice` writes."""
    A = te.placeholder(shape, name="A")
    B = te.extern(
        shape,
        [A],
        lambda ins, outs: tir.call_extern("int32", "twice", outs[0].access_ptr("w"), ins[0].access_ptr("r"), shape[0]),
        name="B",
        dtype="float32",
    )
    C = te.compute(shape, lambda i: B[i] + 1, name="C")
    return te.create_schedule(C.op), A, B, C


def test_lower_prints_a_c_function_and_its_addresses() -> None:
    s, A, _, C = called()
    assert (
        'T.call_extern("int32", "twice", T.tvm_access_ptr(T.type_annotation("float32"), B_1.data, 0, 32, 2), '
        'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 32, 1), 32)' in str(tw.lower(s, [A, C]))
    )


def test_the_interpreter_calls_what_it_is_given() -> None:
    s, A, _, C = called()
    given, out = floats(32), np.zeros(32, np.float32)
    run(tw.lower(s, [A, C])["main"], given, out, functions={"twice": twice})
    np.testing.assert_allclose(out, 2 * given + 1)


@needs_cc
@pytest.mark.parametrize("pragma", [("import_c", TWICE), ("import_llvm", TWICE_IR)])
def test_imported_functions(pragma: tuple[str, str], tmp_path: Path) -> None:
    s, A, _, C = called()
    s[C].pragma(C.op.axis[0], *pragma)
    given = tw.nd.array(floats(32))
    built = tw.build(s, [A, C], "llvm")
    built.save(tmp_path / "module.tw")
    for module in (built, tw.runtime.load_module(tmp_path / "module.tw")):
        out = tw.nd.array(np.zeros(32, np.float32))
        module(given, out)
        np.testing.assert_allclose(out.numpy(), 2 * given.numpy() + 1)


@needs_cc
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize(("kind", "code"), [("import_c", TWICE), ("import_llvm", TWICE_IR)])
def test_of_two_definitions_the_last_counts(kind: str, code: str, target: str) -> None:
    """As where a stage is tensorized anew, whose functions an outer loop has brought before."""
    if (kind, target) == ("import_llvm", "c"):
        return
    s, A, _, C = called()
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    other = code.replace("out[i] = 2 * in[i]", "out[i] = 3 * in[i]").replace("fadd float %x, %x", "fadd float %x, 3.0")
    assert other != code
    s[C].pragma(outer, kind, other)
    s[C].pragma(inner, kind, code)
    given, out = tw.nd.array(floats(32)), tw.nd.empty((32,))
    tw.build(s, [A, C], target)(given, out)
    np.testing.assert_allclose(out.numpy(), 2 * given.numpy() + 1)


@needs_cc
def test_a_file_is_imported_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "twice.c"
    file.write_text(TWICE)
    s, A, _, C = called()
    s[C].pragma(C.op.axis[0], "import_c", str(file))
    given, out = tw.nd.array(floats(32)), tw.nd.empty((32,))
    tw.build(s, [A, C], "llvm")(given, out)
    np.testing.assert_allclose(out.numpy(), 2 * given.numpy() + 1)


@needs_cc
def test_c_goes_through_clang_or_another_compiler() -> None:
    s, A, _, C = called()
    s[C].pragma(C.op.axis[0], "import_llvm", clang.create_llvm(TWICE))
    given, out = tw.nd.array(floats(32)), tw.nd.empty((32,))
    tw.build(s, [A, C], "llvm")(given, out)
    np.testing.assert_allclose(out.numpy(), 2 * given.numpy() + 1)


@every_target
def test_pure_functions_of_the_target(target: str) -> None:
    name = {"llvm": "sinf", "opencl": "native_sin", "cuda": "__sinf"}[target]
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: tir.call_pure_extern("float32", name, A[i]) * 2, name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    f = tw.build(s, [A, B], target)
    dev = tw.device(target)
    given, out = tw.nd.array(floats(64), dev), tw.nd.empty((64,), device=dev)
    f(given, out)
    np.testing.assert_allclose(out.numpy(), 2 * np.sin(given.numpy()), rtol=1e-4, atol=1e-5)


def test_cuda_code_calls_device_functions() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: tir.call_pure_extern("float32", "__expf", A[i]), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, "cuda")
    assert "__expf(A[" in tw.build(s, [A, B], "cuda").imported_modules[0].get_source()


HALVED = {
    "cuda": "__device__ float halved(const float* x, int i) { return x[i] / 2; }",
    "opencl": "float halved(__global const float* x, int i) { return x[i] / 2; }",
    "llvm": "float halved(const float* x, int i) { return x[i] / 2; }",
}


@every_target
def test_functions_in_the_language_of_the_target(target: str) -> None:
    if target == "llvm" and c_compiler() is None:
        pytest.skip("no C compiler (cc, gcc, clang) is on the PATH")
    A = te.placeholder((64,), name="A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        b, i = ib.buffer_ptr(outs[0]), te.thread_axis("threadIdx.x")
        value = lambda at: tir.call_pure_extern("float32", "halved", ins[0].access_ptr("r"), at)
        if target == "llvm":
            with ib.for_range(0, 64) as j:
                b[j] = value(j)
        else:
            ib.scope_attr(i, "thread_extent", 64)
            b[i.var] = value(i.var)
        return ib.get()

    B = te.extern((64,), [A], write, name="B", dtype="float32")
    C = te.compute((64,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    spread(s, C, target)
    s[C].pragma(s[C].leaf_iter_vars[0], "import_c", HALVED[target])
    dev = tw.device(target)
    given, out = tw.nd.array(floats(64), dev), tw.nd.empty((64,), device=dev)
    tw.build(s, [A, C], target)(given, out)
    np.testing.assert_allclose(out.numpy(), given.numpy() / 2 + 1)


def test_device_functions_are_compiled_with_the_kernels() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: tir.call_pure_extern("float32", "twice_of", A[i]), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, "cuda")
    s[B].pragma(s[B].leaf_iter_vars[0], "import_c", "__device__ float twice_of(float x) { return 2 * x; }")
    source = tw.build(s, [A, B], "cuda").imported_modules[0].get_source()
    assert source.startswith("__device__ float twice_of(float x) { return 2 * x; }\n\n")


def test_llvm_intrinsics_with_and_without_their_types() -> None:
    A = te.placeholder((8,), name="A")

    def value(i: Any) -> Any:
        fused = tir.call_llvm_pure_intrin("float32", "llvm.fma", A[i], A[i], tir.const(1, "float32"))
        return fused + tir.call_llvm_pure_intrin("float32", "llvm.fabs.f32", tir.const(1, "uint32"), A[i])

    B = te.compute((8,), value, name="B")
    s = te.create_schedule(B.op)
    given, out = tw.nd.array(floats(8)), tw.nd.empty((8,))
    tw.build(s, [A, B], "llvm")(given, out)
    np.testing.assert_allclose(out.numpy(), given.numpy() ** 2 + 1 + abs(given.numpy()), rtol=1e-6)


def test_a_function_that_writes_is_called_in_every_iteration() -> None:
    """A vectorised loop around a call runs one element after the other."""
    A = te.placeholder((16,), name="A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        with ib.for_range(0, 16, kind="vectorized") as i:
            to, source = outs[0].access_ptr("w", offset=i), ins[0].access_ptr("r", offset=i)
            ib.emit(tir.call_extern("int32", "memcpy", to, source, tir.const(4, "int64")))
        return ib.get()

    B = te.extern((16,), [A], write, name="B", dtype="float32")
    s = te.create_schedule(B.op)
    given, out = tw.nd.array(floats(16)), tw.nd.empty((16,))
    tw.build(s, [A, B], "llvm")(given, out)
    np.testing.assert_array_equal(out.numpy(), given.numpy())


def test_texts_and_small_integers_reach_c() -> None:
    A = te.placeholder((1,), "int8", name="A")
    B = te.compute((1,), lambda i: tir.call_pure_extern("int32", "abs", A[i].astype("int32")), name="B")
    C = te.compute((1,), lambda i: B[i] + tir.call_pure_extern("int32", "atoi", "41"), name="C")
    s = te.create_schedule(C.op)
    out = tw.nd.empty((1,), "int32")
    tw.build(s, [A, C], "llvm")(tw.nd.array(np.array([-1], np.int8)), out)
    assert out.numpy()[0] == 42


# Packed functions.


def packed(name: str, shape: tuple[Any, ...] = (8,)) -> tuple[te.Tensor, te.Tensor]:
    A = te.placeholder(shape, name="A")
    call = lambda ins, outs: tir.call_packed(name, ins[0], outs[0])
    return A, te.extern(shape, [A], call, name="B", dtype="float32")


def test_lower_prints_a_packed_function_as_the_legacy_compiler_did() -> None:
    A, B = packed("user.double")
    assert (
        'T.call_packed("user.double", T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(8), 0, 1, T.float32(0.0), '
        "0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(8), 0, 1, T.float32(0.0), 0))"
        in str(tw.lower(te.create_schedule(B.op), [A, B]))
    )


@every_target
def test_packed_functions_between_kernels(target: str, double: str) -> None:
    A, B = packed(double, (4, 8))
    C = te.compute((4, 8), lambda i, j: B[i, j] + 1, name="C")
    D = te.extern((4, 8), [C], lambda i, o: tir.call_packed(double, i[0], o[0]), name="D", dtype="float32")
    s = te.create_schedule(D.op)
    spread(s, C, target)
    f, dev = build(s, [A, D], target), tw.device(target)
    given, out = tw.nd.array(floats(4, 8), dev), tw.nd.empty((4, 8), device=dev)
    f(given, out)
    np.testing.assert_allclose(out.numpy(), (2 * given.numpy() + 1) * 2)


def test_packed_functions_of_any_length_and_of_strided_arrays(double: str) -> None:
    n = te.size_var("n")
    A, B = packed(double, (n, 4))
    rows = tir.decl_buffer((n, 4), name="A", strides=[8, 1])
    f = tw.build(te.create_schedule(B.op), [A, B], "llvm", binds={A: rows})
    whole = tw.nd.array(floats(3, 8))
    out = tw.nd.empty((3, 4))
    f(whole.as_strided((3, 4), (8, 1)), out)
    np.testing.assert_allclose(out.numpy(), 2 * whole.numpy()[:, :4])


def test_a_packed_function_in_a_loop(double: str) -> None:
    """Host code runs the loop, and the memory that both sides use is its own."""
    A = te.placeholder((3, 4), name="A")
    seen: list[int] = []
    register_func("tests.note", lambda i: seen.append(i), override=True)

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 3, "i") as i:
            ib.emit(tir.call_packed("tests.note", i * 2))
            with ib.for_range(0, 4, "j") as j:
                b[i, j] = a[i, j] + 1
        return ib.get()

    B = te.extern((3, 4), [A], write, name="B", dtype="float32")
    given, out = tw.nd.array(floats(3, 4)), tw.nd.empty((3, 4))
    tw.build(te.create_schedule(B.op), [A, B], "llvm")(given, out)
    assert seen == [0, 2, 4]
    np.testing.assert_allclose(out.numpy(), given.numpy() + 1)
    remove_global_func("tests.note")


def test_the_interpreter_calls_packed_functions() -> None:
    A, B = packed("user.double", (2, 4))

    def double(source: np.ndarray, target: np.ndarray) -> None:
        assert source.shape == (2, 4)
        target[...] = 2 * source

    given, out = floats(2, 4), np.zeros((2, 4), np.float32)
    run(tw.lower(te.create_schedule(B.op), [A, B])["main"], given, out, functions={"user.double": double})
    np.testing.assert_allclose(out, 2 * given)


def test_registered_functions_are_found_by_name(double: str) -> None:
    assert double in list_global_func_names()
    found = get_global_func(double)
    assert found is not None
    given, out = tw.nd.array(floats(4)), tw.nd.empty((4,))
    found(given, out)
    np.testing.assert_allclose(out.numpy(), 2 * given.numpy())
    assert get_global_func("tests.nothing", allow_missing=True) is None


@pytest.mark.parametrize("target", TARGETS[:2])
@pytest.mark.parametrize(("transa", "transb"), [(False, False), (True, False), (False, True), (True, True)])
def test_cblas(target: str, transa: bool, transb: bool) -> None:
    m, n, k = 5, 6, 7
    A = te.placeholder((k, m) if transa else (m, k), name="A")
    B = te.placeholder((n, k) if transb else (k, n), name="B")
    C = cblas.matmul(A, B, transa, transb)
    D = te.compute(C.shape, lambda i, j: C[i, j] + 1, name="D")
    s = te.create_schedule(D.op)
    spread(s, D, target)
    dev = tw.device(target)
    a, b = floats(*map(int, A.shape)), floats(*map(int, B.shape))
    out = tw.nd.empty((m, n), device=dev)
    tw.build(s, [A, B, D], target)(tw.nd.array(a, dev), tw.nd.array(b, dev), out)
    np.testing.assert_allclose(out.numpy(), (a.T if transa else a) @ (b.T if transb else b) + 1, rtol=1e-5)


def test_batches_by_cblas() -> None:
    A, B = te.placeholder((2, 3, 4), "float64", "A"), te.placeholder((2, 5, 4), "float64", "B")
    C = cblas.batch_matmul(A, B, transb=True)
    a, b = floats(2, 3, 4).astype("float64"), floats(2, 5, 4).astype("float64")
    out = tw.nd.empty((2, 3, 5), "float64")
    tw.build(te.create_schedule(C.op), [A, B, C], "llvm")(tw.nd.array(a), tw.nd.array(b), out)
    np.testing.assert_allclose(out.numpy(), a @ b.swapaxes(1, 2))


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_c_function_answers_yes_or_no(target: str) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: te.if_then_else(tir.call_pure_extern("bool", "is_large", A[i]), 1.0, 2.0), name="B")
    s = te.create_schedule(B.op)
    code = "#include <stdbool.h>\nbool is_large(float x) { return x > 1.5f; }"
    s[B].pragma(B.op.axis[0], "import_c", code)
    made = tw.nd.empty((4,))
    tw.build(s, [A, B], target)(tw.nd.array(np.arange(4, dtype="float32")), made)
    assert made.numpy().tolist() == [2, 2, 1, 1]
