"""decl_tensor_intrin with statements: what takes the place of loops, and that it computes what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.loops.running import run
from tests.programs.harness import every_target
from tilewright import te, tir
from tilewright.codegen.c_compiler import c_compiler
from tilewright.contrib import clang
from tilewright.loops.nodes import Buffer
from tilewright.schedule.tensor_intrin import TensorIntrin

needs_cc = pytest.mark.skipif(c_compiler() is None, reason="no C compiler (cc, gcc, clang) is on the PATH")
GEMV = """
int gemv_update(float* cc, const float* aa, const float* bb, int m, int l, int stride) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < l; ++j) cc[i] += aa[j] * bb[i * stride + j];
  return 0;
}
int gemv_reset(float* cc, int m) {
  for (int i = 0; i < m; ++i) cc[i] = 0;
  return 0;
}
int gemv(float* cc, const float* aa, const float* bb, int m, int l, int stride) {
  gemv_reset(cc, m);
  return gemv_update(cc, aa, bb, m, l, stride);
}
"""


def gemv_reset(c: np.ndarray, m: int) -> None:
    c[:m] = 0


def gemv_update(c: np.ndarray, a: np.ndarray, b: np.ndarray, m: int, length: int, stride: int) -> None:
    for i in range(m):
        c[i] += a[:length] @ b[i * stride : i * stride + length]


def gemv(c: np.ndarray, a: np.ndarray, b: np.ndarray, m: int, length: int, stride: int) -> None:
    gemv_reset(c, m)
    gemv_update(c, a, b, m, length, stride)


FUNCTIONS = {"gemv": gemv, "gemv_reset": gemv_reset, "gemv_update": gemv_update}


def by_calls(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Any, Any, Any]:
    """The three statements as calls of C functions."""
    (aa, bb), (cc,) = ins, outs
    m, length = map(int, bb.shape)

    def call(name: str, *more: Any) -> Any:
        return tir.call_extern("int32", name, cc.access_ptr("rw"), *more)

    operands = (aa.access_ptr("r"), bb.access_ptr("r"), m, length, bb.strides[0])
    return call("gemv", *operands), call("gemv_reset", m), call("gemv_update", *operands)


def by_loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> tuple[Any, Any, Any]:
    """The three statements as loops."""
    m, length = map(int, ins[1].shape)

    def write(reset: bool, update: bool) -> Any:
        ib = tir.ir_builder.create()
        a, b, c = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, m, "i") as i:
            if reset:
                c[i] = 0.0
            if update:
                with ib.for_range(0, length, "j") as j:
                    c[i] = c[i] + a[j] * b[i, j]
        return ib.get()

    return write(True, True), write(True, False), write(False, True)


def gemv_intrin(m: int, length: int, statements: Any, parts: int = 3) -> TensorIntrin:
    """c[m] = sum of a[length] * b[m, length], on buffers of any strides and places."""
    a, b = te.placeholder((length,), name="a"), te.placeholder((m, length), name="b")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
    Ab = tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def made(ins: Any, outs: Any) -> Any:
        found = statements(ins, outs)
        return found if parts == 3 else found[0] if parts == 1 else (found[0], None, found[2])

    intrin = te.decl_tensor_intrin(c.op, made, "gemv", binds={a: Ab, b: Bb, c: Cb})
    assert isinstance(intrin, TensorIntrin)
    return intrin


class Product:
    """C[n, m] = A[n, l] · B[m, l]ᵀ, with the loops of C split for an intrinsic of `factor` rows of B."""

    def __init__(self, n: int = 12, m: int = 16, length: int = 10, factor: int = 8, depth: int = 0) -> None:
        self.A, self.B = te.placeholder((n, length), name="A"), te.placeholder((m, length), name="B")
        k = te.reduce_axis((0, length), name="k")
        self.C = te.compute((n, m), lambda i, j: te.sum(self.A[i, k] * self.B[j, k], axis=k), name="C")
        self.s = te.create_schedule(self.C.op)
        self.x, y = self.C.op.axis
        self.yo, self.yi = self.s[self.C].split(y, factor=factor)
        if depth:
            self.ko, ki = self.s[self.C].split(k, factor=depth)
            self.s[self.C].reorder(self.x, self.yo, self.ko, self.yi, ki)
        else:
            self.s[self.C].reorder(self.x, self.yo, self.yi, k)

    @property
    def args(self) -> list[te.Tensor]:
        return [self.A, self.B, self.C]

    def values(self) -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        return [rng.integers(-8, 8, tuple(map(int, t.shape))).astype("float32") for t in (self.A, self.B)]

    def interpreted(self, **options: Any) -> np.ndarray:
        out = np.full(tuple(map(int, self.C.shape)), 77, np.float32)
        run(tw.lower(self.s, self.args)["main"], *self.values(), out, **options)
        return out

    def run_on(self, target: str) -> np.ndarray:
        dev = tw.device(target)
        out = tw.nd.array(np.full(tuple(map(int, self.C.shape)), 77, np.float32), dev)
        tw.build(self.s, self.args, target)(*(tw.nd.array(v, dev) for v in self.values()), out)
        return out.numpy()

    @property
    def want(self) -> np.ndarray:
        a, b = self.values()
        return a @ b.T


CASES = [pytest.param(0, 3, id="whole"), pytest.param(5, 3, id="parts"), pytest.param(5, 2, id="no reset")]


@pytest.mark.parametrize(("depth", "parts"), CASES)
@pytest.mark.parametrize("statements", [by_calls, by_loops])
def test_the_interpreter_finds_what_the_loops_compute(depth: int, parts: int, statements: Any) -> None:
    """The nest without the intrinsic is its meaning."""
    plain = Product(depth=depth)
    np.testing.assert_array_equal(plain.interpreted(), plain.want)
    p = Product(depth=depth)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, depth or 10, statements, parts))
    np.testing.assert_array_equal(p.interpreted(functions=FUNCTIONS), plain.want)


@needs_cc
@pytest.mark.parametrize(("depth", "parts"), CASES)
@pytest.mark.parametrize("pragma", ["import_c", "import_llvm"])
def test_c_functions_on_llvm(depth: int, parts: int, pragma: str) -> None:
    p = Product(depth=depth)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, depth or 10, by_calls, parts))
    code = GEMV if pragma == "import_c" else clang.create_llvm(GEMV)
    p.s[p.C].pragma(p.x, pragma, code)
    np.testing.assert_array_equal(p.run_on("llvm"), p.want)


@every_target
@pytest.mark.parametrize(("depth", "parts"), CASES)
def test_loops_on_every_target(target: str, depth: int, parts: int) -> None:
    p = Product(depth=depth)
    if target != "llvm":
        p.s[p.C].bind(p.x, te.thread_axis("blockIdx.x"))
        p.s[p.C].bind(p.yo, te.thread_axis("threadIdx.x"))
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, depth or 10, by_loops, parts))
    if target == "opencl":
        tw.build(p.s, p.args, "cuda")
    np.testing.assert_array_equal(p.run_on(target), p.want)


def test_lower_prints_what_the_legacy_compiler_did() -> None:
    p = Product(64, 32, 16, 16)
    p.s[p.C].tensorize(p.yi, gemv_intrin(16, 16, by_calls))
    text = str(tw.lower(p.s, p.args))
    assert "for i, j_outer in T.grid(64, 2):" in text
    assert (
        'T.call_extern("int32", "gemv", T.tvm_access_ptr(T.type_annotation("float32"), C_1.data, i * 32 + j_outer '
        '* 16, 16, 3), T.tvm_access_ptr(T.type_annotation("float32"), A_1.data, i * 16, 16, 1), '
        'T.tvm_access_ptr(T.type_annotation("float32"), B_1.data, j_outer * 256, 256, 1), 16, 16, 16)' in text
    )


def test_the_reset_stands_before_the_reduction() -> None:
    p = Product(depth=5)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 5, by_calls))
    lines = [line.strip() for line in str(tw.lower(p.s, p.args)).splitlines() if "for " in line or "gemv" in line]
    assert [line.partition(", T.tvm")[0] for line in lines] == [
        "for i, j_outer in T.grid(12, 2):",
        'T.call_extern("int32", "gemv_reset"',
        "for k_outer in range(2):",
        'T.call_extern("int32", "gemv_update"',
    ]


def test_strides_of_padded_storage() -> None:
    """The rows of a stage that storage_align pads lie further apart, and the intrinsic is told."""
    p = Product()
    BS = p.s.cache_read(p.B, "global", [p.C])
    p.s[BS].storage_align(p.s[BS].op.axis[0], 16, 3)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_calls))
    assert "8, 10, 19)" in str(tw.lower(p.s, p.args))
    np.testing.assert_array_equal(p.interpreted(functions=FUNCTIONS), p.want)


def test_the_regions_of_stages_computed_inside() -> None:
    """Operands and results that are kept for a tile only begin where the tile does."""
    p = Product()
    CC = p.s.cache_write(p.C, "global")
    xo, yo, _, _ = p.s[p.C].tile(*p.s[p.C].op.axis, 4, 8)
    p.s[CC].compute_at(p.s[p.C], yo)
    AL = p.s.cache_read(p.A, "global", [CC])
    p.s[AL].compute_at(p.s[p.C], xo)
    p.s[CC].tensorize(p.s[CC].op.axis[1], gemv_intrin(8, 10, by_loops))
    np.testing.assert_array_equal(p.interpreted(), p.want)
    np.testing.assert_array_equal(p.run_on("llvm"), p.want)


def test_an_elementwise_intrinsic_on_vectors() -> None:
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] * 2 + 1, name="y")
    intrin = te.decl_tensor_intrin(
        y.op,
        lambda ins, outs: outs[0].vstore(
            0,
            ins[0].vload(0, "float32x4") * tir.Broadcast(tir.const(2, "float32"), 4)
            + tir.Broadcast(tir.const(1, "float32"), 4),
        ),
        default_buffer_params={"offset_factor": 4},
    )
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] * 2 + 1, name="B")
    s = te.create_schedule(B.op)
    _, ji = s[B].split(B.op.axis[1], factor=4)
    s[B].tensorize(ji, intrin)
    assert "B_1[i * 8 + j_outer * 4:i * 8 + j_outer * 4 + 4]" in str(tw.lower(s, [A, B]))
    values = np.random.default_rng(0).standard_normal((6, 8)).astype("float32")
    out = tw.nd.empty((6, 8))
    tw.build(s, [A, B], "llvm")(tw.nd.array(values), out)
    np.testing.assert_allclose(out.numpy(), values * 2 + 1, rtol=1e-6)


def test_a_convolution_by_dot_products_of_four() -> None:
    """An int8 dot product of four, as x86 and dp4a have it, by an inline expression; the reduction goes on outside."""
    a, b = te.placeholder((4,), "int8", "a"), te.placeholder((4,), "int8", "b")
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((1,), lambda i: te.sum(a[k].astype("int32") * b[k].astype("int32"), axis=k), name="c")

    def dot(ins: Any, outs: Any) -> Any:
        def write(first: bool) -> Any:
            ib = tir.ir_builder.create()
            products = [ins[0].vload(i).astype("int32") * ins[1].vload(i).astype("int32") for i in range(4)]
            total = products[0] + products[1] + products[2] + products[3]
            ib.emit(outs[0].vstore(0, total if first else outs[0].vload(0) + total))
            return ib.get()

        ib = tir.ir_builder.create()
        ib.emit(outs[0].vstore(0, 0))
        return write(True), ib.get(), write(False)

    intrin = te.decl_tensor_intrin(c.op, dot, "dot4", default_buffer_params={"offset_factor": 1})
    A, W = te.placeholder((3, 9, 8), "int8", "A"), te.placeholder((5, 3, 8), "int8", "W")
    r, ci = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 8), name="ci")
    C = te.compute(
        (3, 7, 5),
        lambda n, x, f: te.sum(A[n, x + r, ci].astype("int32") * W[f, r, ci].astype("int32"), axis=[r, ci]),
        name="C",
    )
    s = te.create_schedule(C.op)
    _, four = s[C].split(s[C].op.reduce_axis[1], factor=4)
    s[C].tensorize(four, intrin)
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-128, 128, shape).astype("int8") for shape in ((3, 9, 8), (5, 3, 8)))
    want = sum(np.einsum("nxc,fc->nxf", x[:, i : i + 7].astype(int), w[:, i].astype(int)) for i in range(3))
    out = tw.nd.empty((3, 7, 5), "int32")
    tw.build(s, [A, W, C], "llvm")(tw.nd.array(x), tw.nd.array(w), out)
    np.testing.assert_array_equal(out.numpy(), want)


def dp4a() -> Any:
    """A sum of four products of bytes by CUDA's own function, as the legacy operator library declares it."""
    x, y = te.placeholder((4,), "int8", "x"), te.placeholder((4,), "int8", "y")
    k = te.reduce_axis((0, 4), name="rc")
    z = te.compute((1,), lambda i: te.sum(x[k].astype("int32") * y[k].astype("int32"), axis=[k]), name="z")

    def instruction(ins: Any, outs: Any) -> Any:
        def write(first: bool) -> Any:
            ib = tir.ir_builder.create()
            words = [operand.vload(0, dtype="int8x4") for operand in ins]
            before = 0 if first else outs[0].vload(0)
            ib.emit(outs[0].vstore(0, tir.call_pure_extern("int32", "__dp4a", *words, before)))
            return ib.get()

        return write(True), outs[0].vstore(0, 0), write(False)

    binds = {
        t: tir.decl_buffer(t.shape, t.dtype, t.op.name, offset_factor=1 if t is z else 4, data_alignment=4)
        for t in (x, y, z)
    }
    return te.decl_tensor_intrin(z.op, instruction, binds=binds)


@pytest.mark.parametrize("target", ["compiled", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_words_of_bytes_reach_the_functions_of_cuda(target: str) -> None:
    n = 64
    A, B = te.placeholder((n, n), "int8", "A"), te.placeholder((n, n), "int8", "B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))
    _, four = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].tensorize(four, dp4a())
    f = tw.build(s, [A, B, C], "cuda")
    assert "__dp4a(*(const int*)(A + " in f.imported_modules[0].get_source()
    if target == "cuda":
        a, b = (np.random.default_rng(i).integers(-128, 128, (n, n)).astype("int8") for i in range(2))
        out = tw.nd.empty((n, n), "int32", tw.cuda())
        f(tw.nd.array(a, tw.cuda()), tw.nd.array(b, tw.cuda()), out)
        np.testing.assert_array_equal(out.numpy(), a.astype("int32") @ b.astype("int32").T)


def test_operands_in_the_other_order_and_stencils() -> None:
    """A product commutes; loads of one tensor at several places are one region."""
    a = te.placeholder((6,), name="a")
    b = te.compute((4,), lambda i: a[i] + a[i + 2], name="b")

    def add(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4) as i:
            y[i] = x[i + 2] + x[i]
        return ib.get()

    intrin = te.decl_tensor_intrin(b.op, add, default_buffer_params={"offset_factor": 1})
    A = te.placeholder((10,), name="A")
    B = te.compute((8,), lambda i: A[i + 2] + A[i], name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].tensorize(inner, intrin)
    given, out = np.arange(10, dtype="float32"), np.zeros(8, np.float32)
    run(tw.lower(s, [A, B])["main"], given, out)
    np.testing.assert_array_equal(out, given[2:] + given[:-2])
