"""What generated source looks like."""

from __future__ import annotations

import pytest

from tests.codegen import programs as p
from tilewright.codegen.program import compile_program, generate
from tilewright.core.errors import InternalError
from tilewright.core.target import Target
from tilewright.expr import operators as op
from tilewright.expr.nodes import Call, Expr, FloorDiv, FloorMod, Load, Ramp, Var
from tilewright.loops.nodes import Function, LoopKind, seq

CUDA, OPENCL = Target("cuda"), Target("opencl")


def source(function: Function, target: Target = CUDA) -> str:
    """The kernels' source."""
    return generate((function,), target)[0].source


def expression(value: Expr, *variables: Var) -> str:
    """The text of an expression of scalar parameters, as it stands in a CUDA kernel."""
    b = p.buf("B", 1, dtype=value.dtype)
    kernel = p.launch(p.put(b, 0, value), threadIdx_x=(Var("threadIdx.x"), 1))
    text = source(Function("main", (b, *variables), kernel))
    return text.split("B[0] = ")[1].split(";\n")[0]


REDUCTION = """\
// B: B = sum(A, axis=1)
extern "C" __global__ void __launch_bounds__(128) main_kernel(const float* __restrict__ A, float* __restrict__ B) {
  const int blockIdx_x = blockIdx.x;
  const int threadIdx_x = threadIdx.x;
  __shared__ float B_shared[128];
  float B_local[1];
  B_local[0] = 0.0f;
  for (int k = 0; k < 8; ++k) {
    if (k * 128 + threadIdx_x < 1000) {
      B_local[0] = B_local[0] + A[blockIdx_x * 1000 + k * 128 + threadIdx_x];
    }
  }
  B_shared[threadIdx_x] = B_local[0];
  __syncthreads();
  for (int step = 0; step < 7; ++step) {
    if (threadIdx_x < (64 >> step)) {
      B_shared[threadIdx_x] = B_shared[threadIdx_x] + B_shared[threadIdx_x + (64 >> step)];
    }
    __syncthreads();
  }
  if (threadIdx_x == 0) {
    B[blockIdx_x] = B_shared[0];
  }
}
"""


def test_a_whole_kernel_reads_like_one_written_by_hand() -> None:
    assert source(p.reduction(7, 1000)) == REDUCTION


def test_opencl_differs_in_qualifiers_and_indices_only() -> None:
    text = source(p.reduction(7, 1000), OPENCL)
    assert text.startswith("// B: B = sum(A, axis=1)\n__kernel void main_kernel(__global const float* restrict A, ")
    for line in ("int blockIdx_x = get_group_id(0);", "__local float B_shared[128];", "barrier(CLK_LOCAL_MEM_FENCE);"):
        assert line in text


def test_vector_accesses_are_vector_types() -> None:
    cuda, opencl = source(p.vectors(64, 4)), source(p.vectors(64, 4), OPENCL)
    assert "__shared__ __align__(16) float A_shared[64];" in cuda
    assert "*(float4*)(A_shared + threadIdx_x * 4) = *(const float4*)(A + threadIdx_x * 4);" in cuda
    assert "vstore4(vload4(0, A + threadIdx_x * 4), 0, A_shared + threadIdx_x * 4);" in opencl
    assert source(p.vectors(64, 8)).count("*(const float4*)") == 2


def test_a_vector_of_unknown_alignment_is_read_by_element() -> None:
    """CUDA needs aligned vectors: base `3 i` of four floats is not."""
    a, b, i = p.buf("A", 99), p.buf("B", 99), Var("threadIdx.x")
    ramp = Ramp(i * 3, p.c(1), 4)
    text = source(Function("main", (a, b), p.launch(p.put(b, ramp, p.at(a, ramp)), threadIdx_x=(i, 3))))
    assert "float4" not in text
    assert "B[threadIdx_x * 3 + 3] = A[threadIdx_x * 3 + 3];" in text


def test_the_host_asks_for_alignment_where_vectors_need_it() -> None:
    program, _ = generate((p.vectors(64, 4),), CUDA)
    assert "if A.handle & 15: misaligned(A, 0)" in program.entries[0].source
    program, _ = generate((p.vectors(64, 4),), OPENCL)
    assert "misaligned" not in program.entries[0].source


def test_only_buffers_that_are_never_written_are_const() -> None:
    b = p.buf("B", 4)
    i = Var("threadIdx.x")
    text = source(Function("main", (b,), p.launch(p.put(b, i, p.at(b, i) + 1.0), threadIdx_x=(i, 4))))
    assert "(float* __restrict__ B)" in text


def test_unrolled_loops_are_left_to_the_compiler() -> None:
    text = source(p.tiles(50))
    assert text.count("#pragma unroll") == 3


x, y, z = Var("x"), Var("y"), Var("z")
f, g = Var("f", "float32"), Var("g", "float32")
w = Var("w", "int64")
small = Var("s", "int8")

EXPRESSIONS = [
    ((x + y) + z, "x + y + z"),
    (x + (y + z), "x + y + z"),
    (f + (g + f), "f + (g + f)"),
    (x - (y - z), "x - (y - z)"),
    ((x + y) * z, "(x + y) * z"),
    (x * (y * z), "x * (y * z)"),
    (FloorDiv(x, p.c(8)), "(x >> 3)"),
    (FloorMod(x + y, p.c(8)) * z, "(x + y & 7) * z"),
    (FloorDiv(x, p.c(6)), "floordiv_int32(x, 6)"),
    (op.truncdiv(x, p.c(6)) + op.truncmod(x, p.c(6)), "x / 6 + x % 6"),
    (op.truncdiv(x, y) + op.truncmod(x, y), "safediv_int32(x, y) + safemod_int32(x, y)"),
    (op.cast("int8", f + g), "float32_to_int8(f + g)"),
    (w + op.const(1, "int64"), "w + 1LL"),
    (op.const(-(2**31), "int32") + x, "(-2147483647 - 1) + x"),
    (f * 0.1, "f * 0.1f"),
    (op.cast("float32", x + y), "(float)(x + y)"),
    (small + small, "(signed char)(s + s)"),
    (op.maximum(f, g), "max_float32(f, g)"),
    (op.maximum(x, y), "max(x, y)"),
    (op.if_then_else(x < y, x, y + 1), "x < y ? x : y + 1"),
    (op.if_then_else(op.all_of(x < y, y < z), x, y), "x < y && y < z ? x : y"),
    (op.if_then_else(op.any_of(op.all_of(x < y, y < z), x < z), x, y), "(x < y && y < z) || x < z ? x : y"),
    (op.if_then_else(op.logical_not(op.likely(x < y)), x, y), "!(x < y) ? x : y"),
    (-f, "-0.0f - f"),
    (op.const(float("inf"), "float32") * f, "__int_as_float(0x7f800000) * f"),
]


@pytest.mark.parametrize(("value", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions_have_the_parentheses_they_need(value: Expr, text: str) -> None:
    assert expression(value, x, y, z, f, g, w, small) == text


def test_two_kernels_of_one_name_and_reserved_names() -> None:
    b, i = p.buf("B", 4), Var("threadIdx.x")
    one = p.launch(p.put(b, i, p.c(1.0)), "main", threadIdx_x=(i, 4))
    two = p.launch(p.put(b, i, p.c(2.0)), "main", threadIdx_x=(i, 4))
    program, _ = generate((Function("main", (b,), seq(one, two)),), OPENCL)
    assert [kernel.name for kernel in program.kernels] == ["main_1", "main_2"]


def test_sixteen_bit_floats_are_bits_in_memory_and_floats_in_registers() -> None:
    text = source(p.elementwise(64, ["float16", "float32"], lambda a, b: a * a + op.cast("float16", b), "float16"))
    assert "const unsigned short* __restrict__ A0" in text
    assert "= float16_bits(float16_round(float16_value(A0[" in text
    assert text.count('asm("cvt') == 2


def test_what_no_pass_should_leave_behind_is_our_fault() -> None:
    b, i = p.buf("B", 4), Var("i")
    loop = p.loop(i, 4, p.put(b, i, p.c(1.0)), LoopKind.VECTORIZED)
    with pytest.raises(InternalError, match="vectorized loop over i"):
        source(Function("main", (b,), p.launch(loop, threadIdx_x=(Var("t"), 1))))
    unknown = Call("frobnicate", (f,), f.dtype)
    with pytest.raises(InternalError, match="frobnicate"):
        expression(unknown, f)
    inner = p.launch(p.put(b, 0, p.c(1.0)), threadIdx_x=(Var("t"), 1))
    with pytest.raises(InternalError, match="launched within"):
        source(Function("main", (b,), p.launch(inner, threadIdx_x=(Var("t"), 1))))


@pytest.mark.parametrize("target", ["cuda", "cuda -arch=sm_75", "cuda -arch=sm_120"])
def test_cuda_compiles_for_every_architecture(target: str) -> None:
    program = compile_program((p.tiles(50),), Target(target))
    assert program.binary is not None
    assert program.binary.startswith(b"\x7fELF")
    found = program.resources["main_kernel"]
    assert found.registers > 8
    assert found.spill_store_bytes == found.spill_load_bytes == 0


def test_loads_of_a_buffer_that_only_the_loops_know() -> None:
    class Tensor:
        name, dtype, alias_of, shape = "T", f.dtype, None, (p.c(1),)

    with pytest.raises(InternalError, match="a load from"):
        expression(Load(Tensor(), (p.c(0),)))


def test_parts_that_a_large_expression_reads_often_are_computed_once() -> None:
    """Horner's rule reads its argument once per term; written out, a target's compiler has to find that again."""
    x = Var("x", "float32")
    argument, terms = x * x - 0.5, op.const(1.0, "float32")
    for _ in range(20):
        terms = terms * argument + 0.25
    b = p.buf("B", 1)
    kernel = p.launch(p.put(b, 0, terms), threadIdx_x=(Var("threadIdx.x"), 1))
    text = source(Function("main", (b, x), kernel))
    assert "const float part = x * x - 0.5f;" in text
    assert text.count("x * x") == 1
    assert text.count("* part + 0.25f") == 19  # 1 times the argument is the argument


def test_a_small_expression_stays_whole() -> None:
    x = Var("x", "float32")
    argument = x * x - 0.5
    assert expression(argument * argument + argument * 2.0 + argument, x).count("x * x") == 4
