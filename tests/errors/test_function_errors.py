"""Calls of functions, their registration, and the code that programs import: each mistake, and what it says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.contrib import cblas, clang
from tilewright.expr import op_registry
from tilewright.ir import register_intrin_lowering, register_op_attr
from tilewright.runtime.packed import get_global_func, register_func, remove_global_func

A = te.placeholder((8,), name="A")
BUFFER = tir.decl_buffer((8,), "float32", "B")


def values(value: Any, target: str = "llvm") -> Any:
    """The module of B[i] = value(A[i])."""
    B = te.compute((8,), lambda i: value(A[i]), name="B")
    s = te.create_schedule(B.op)
    if target != "llvm":
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    return tw.build(s, [A, B], target)


def statement(write: Any, target: str = "llvm") -> Any:
    """The module of an extern whose statement `write(builder, input, output)` emits."""

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        write(ib, ins[0], outs[0])
        return ib.get()

    B = te.extern((8,), [A], body, name="B", dtype="float32")
    return tw.build(te.create_schedule(B.op), [A, B], target)


@contextmanager
def registered(name: str) -> Iterator[None]:
    """Whatever is registered for an intrinsic meanwhile is forgotten after."""
    yield
    op_registry._OPS.pop(name, None)


def test_names_of_functions() -> None:
    with refused("call_extern", "'no name' is not the name of a function", fix="the type of the result comes first"):
        tir.call_extern("int32", "no name")
    with refused("call_llvm_pure_intrin", "'sinf' is not the name of an intrinsic of LLVM", fix="llvm.fabs"):
        tir.call_llvm_pure_intrin("float32", "sinf", 1.0)
    with refused("call_packed", "no function is given", fix="give its name"):
        tir.call_packed()
    with refused("call_packed", "the function is given as 3", fix="give its name"):
        tir.call_packed(3)
    with refused("call_intrin", "there is no intrinsic 'tir.nothing'", fix="atomic_add"):
        tir.call_intrin("float32", "tir.nothing", 1)


def test_arguments_of_functions() -> None:
    with refused("call_intrin", "tir.exp is called with nothing", fix="tir.exp"):
        tir.call_intrin("float32", "tir.exp")
    with refused("call_intrin", "tir.call_extern is called with 'int32'", fix="tir.call_extern"):
        tir.call_intrin("int32", "tir.call_extern")
    with refused("vload", "is accessed as float32x4 at []"):
        tir.decl_buffer((), "float32", "B").vload((), "float32x4")
    with refused("call_extern", "the argument None is not a value", fix="addresses of buffers"):
        tir.call_extern("int32", "f", None)
    with refused("address_of", "is not an element of a buffer", fix="address_of(B[i])"):
        tir.address_of(BUFFER)
    with refused("address_of", "a tensor has memory only in its own computation", fix="te.extern"):
        tir.address_of(A[0])
    with refused("access_ptr", "access_mask='x' of buffer 'B'", fix='"rw"'):
        BUFFER.access_ptr("x")
    with refused("access_ptr", "are not contiguous along its last dimension", fix="declare the last stride as 1"):
        tir.decl_buffer((8,), "float32", "B", strides=[2]).access_ptr("r", offset=1)
    with refused("vload", "is accessed as float32x4 at [0, 0]", fix="one index per dimension"):
        BUFFER.vload([0, 0], "float32x4")
    with refused("vstore", "is accessed as int32 at [0]", fix="float32"):
        BUFFER.vstore(0, tir.const(1, "int32"))


def test_atomic_updates() -> None:
    with refused("call_intrin", "atomic_add is given 1, 2", fix="tir.address_of"):
        tir.call_intrin("float32", "tir.atomic_add", 1, 2)
    with refused("call_intrin", "of type int32, on 'B' with elements of float32", fix='astype("float32")'):
        tir.call_intrin("float32", "tir.atomic_add", tir.address_of(BUFFER.vload(0)), te.var("x"))
    with refused("call_intrin", "atomic_or", fix="give an integer buffer"):
        tir.call_intrin("float32", "tir.atomic_or", tir.address_of(BUFFER.vload(0)), 1.0)


def test_functions_that_are_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    f = values(lambda x: tir.call_pure_extern("float32", "no_such_function", x))
    with refused("call_extern", "the program calls 'no_such_function'", fix="import_c"):
        f(tw.nd.empty((8,)), tw.nd.empty((8,)))
    assert capfd.readouterr().err == ""  # the linker says nothing of its own
    with refused("call_llvm_pure_intrin", "llvm.nothing", "which LLVM does not have", fix="language reference"):
        values(lambda x: tir.call_llvm_pure_intrin("float32", "llvm.nothing", x))
    with refused("call_llvm_pure_intrin", "calls an intrinsic of LLVM, but is compiled for cuda", fix='"llvm"'):
        values(lambda x: tir.call_llvm_pure_intrin("float32", "llvm.fabs", x), "cuda")


@pytest.mark.parametrize("target", ["cuda", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_functions_that_a_language_does_not_have(target: str) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_pure_extern("float32", "no_such_function", A[i]), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))

    def use() -> None:
        dev = tw.device(target)
        tw.build(s, [A, B], target)(tw.nd.empty((8,), device=dev), tw.nd.empty((8,), device=dev))

    says = f"the compiler of {target} refuses source that calls 'no_such_function'"
    with refused("call_extern", says, fix="functions that the language has"):
        use()
    s[B].pragma(B.op.axis[0], "import_llvm", "define i32 @f() { ret i32 1 }")
    with refused("pragma", f"the pragma import_llvm, in a program for {target}", fix="import_c"):
        use()


def test_registering_functions() -> None:
    with refused("register_func", "3 is not the name", fix="give text"):
        register_func(3)
    with refused("register_func", "4 is not a function", fix="a function of arrays"):
        register_func("tests.four", 4)  # type: ignore[arg-type]
    register_func("tests.taken", print, override=True)
    with refused("register_func", "'tests.taken' is registered already", fix="override=True"):
        register_func("tests.taken", print)
    remove_global_func("tests.taken")
    with refused("get_global_func", "no function is registered as 'tvm.contrib.cblas.matmull'", fix="did you mean"):
        get_global_func("tvm.contrib.cblas.matmull")
    f = statement(lambda ib, a, b: ib.emit(tir.call_packed("tests.absent", a, b)))
    with refused("call_packed", "'tests.absent', which is not registered", fix="@tvm.register_func('tests.absent')"):
        f(tw.nd.empty((8,)), tw.nd.empty((8,)))


def test_packed_functions_where_host_code_is_not() -> None:
    def in_kernel(ib: Any, a: Any, b: Any) -> None:
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 8)
        ib.emit(tir.call_packed("tests.f", a, b))

    with refused("call_packed", "'tests.f' is called inside a kernel", fix="outside of thread loops"):
        statement(in_kernel, "cuda")

    def under_a_value(ib: Any, a: Any, b: Any) -> None:
        with ib.if_scope(ib.buffer_ptr(a)[0] > 0):
            ib.emit(tir.call_packed("tests.f", a, b))

    with refused("call_packed", "is evaluated by host code", fix="decide in the packed function"):
        statement(under_a_value, "cuda")

    B = te.compute((8,), lambda i: tir.call_packed("tests.f", A[i]) + 1, name="B")
    s = te.create_schedule(B.op)
    with refused("call_packed", "'tests.f' is called inside a kernel", fix="build for llvm"):
        tw.build(s, [A, B], "cuda")
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    with refused("call_packed", "'tests.f' is called inside a kernel", fix="build for llvm"):
        tw.build(s, [A, B], "cuda")


@pytest.mark.parametrize("value", ["four", 2.5, [1, 2], 1 << 40])
def test_what_a_packed_function_returns(value: Any) -> None:
    register_func("tests.returns", lambda x: value, override=True)
    B = te.compute((8,), lambda i: tir.call_packed("tests.returns", i), name="B")
    f = tw.build(te.create_schedule(B.op), [B], "llvm")
    with refused("call_packed", "but the program expects a value of type int32", fix="tir.tvm_call_packed"):
        f(tw.nd.empty((8,), "int32"))
    remove_global_func("tests.returns")


def test_a_call_that_writes_is_a_whole_value() -> None:
    def nested(ib: Any, a: Any, b: Any) -> None:
        ib.buffer_ptr(b)[0] = tir.call_extern("float32", "f", a.access_ptr("w")) + 1

    with refused("call_extern", "which may write memory, is a part of", fix="ib.let"):
        statement(nested)


def imported(key: str, code: Any) -> Any:
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].pragma(B.op.axis[0], key, code)
    return tw.build(s, [A, B], "llvm")


def test_imported_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("pragma", "the pragma 'import_c' has the value 3", fix="the path of a file"):
        imported("import_c", 3)
    with refused("pragma", "LLVM does not take the code of a pragma import_llvm", fix="C by import_c"):
        imported("import_llvm", "this is\nnot IR")
    with refused("pragma", "cannot read nothing.c", fix="the path of a file"):
        imported("import_c", "nothing.c")
    for key in ("import_c", "import_llvm"):
        with refused("pragma", "the code is not text", fix="their own encoding"):
            imported(key, "int f(void); // \ud800")
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("CC", raising=False)
    with refused("pragma", "no C compiler is on the PATH", fix="apt-get install gcc"):
        imported("import_c", "int f_without_compiler(void) { return 1; }")
    with refused("create_llvm", "neither clang nor another C compiler", fix="clang"):
        clang.create_llvm("int f(void) { return 1; }")
    with refused("find_clang", "clang is not on the PATH", fix="import_c"):
        clang.find_clang()
    with refused("create_llvm", "inputs=['a', 'b'] is not C source", fix="give one text"):
        clang.create_llvm(["a", "b"])


@pytest.mark.skipif(not any(os.access(f"/usr/bin/{name}", os.X_OK) for name in ("cc", "gcc")), reason="no C compiler")
def test_c_that_does_not_compile() -> None:
    with refused("pragma", "does not compile the imported C code", "error:", fix="correct the code"):
        imported("import_c", "int f( { return 1; }")


def test_rules_for_intrinsics() -> None:
    with refused("register_op_attr", "'mylog' is not the name of an intrinsic", fix='begin with "tir."'):
        register_op_attr("mylog", "TCallEffectKind", 1)
    with refused("register_intrin_lowering", "the rule of tir.exp for cuda is 3", fix="give a function"):
        register_intrin_lowering("tir.exp", "cuda", f=3)  # type: ignore[arg-type]
    with refused("register_op_attr", "the attribute of tir.ours is called []", fix="give its name"):
        register_op_attr("tir.ours", [], 3)
    with refused("register_op_attr", "TCallEffectKind of tir.ours is 'pure'", fix="tir.CallEffectKind.Pure"):
        register_op_attr("tir.ours", "TCallEffectKind", "pure")
    with registered("ours"):
        register_op_attr("tir.ours", "TCallEffectKind", tir.CallEffectKind.Pure)
        with refused("register_op_attr", "tir.ours has TCallEffectKind at level 10 already", fix="level=11"):
            register_op_attr("tir.ours", "TCallEffectKind", tir.CallEffectKind.Opaque)
        call = lambda x: tir.call_intrin("float32", "tir.ours", x)
        with refused("register_intrin_lowering", "the intrinsic tir.ours has no rule for llvm", fix="register one"):
            values(call)
        register_intrin_lowering("tir.ours", "llvm", f=lambda op: 3)
        with refused("register_intrin_lowering", "returns 3 for", fix="the call's type"):
            values(call)


def test_products_by_blas() -> None:
    M, N = te.placeholder((2, 3), name="M"), te.placeholder((2, 3), name="N")
    with refused("matmul", "sums over 3 terms of 'M', but over 2 of 'N'", fix="transb=True"):
        cblas.matmul(M, N)
    with refused("matmul", "is not an operand of a product by BLAS", fix="two tensors of 2 dimensions"):
        cblas.matmul(M, te.placeholder((3, 2), "int32", "I"))
    with refused("batch_matmul", "is not an operand", fix="3 dimensions"):
        cblas.batch_matmul(M, N)


def test_vectors_as_arguments() -> None:
    def write(ib: Any, a: Any, b: Any) -> None:
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 1)
        ib.emit(tir.call_extern("int32", "f", a.vload(0, "float32x8")))

    with refused("call_extern", "a vector of 8 float32, is an argument of a function", fix="4, 2 elements"):
        statement(write, "cuda")
