"""Generated kernels compute what they say, on real devices, against NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.codegen import programs as p
from tilewright.codegen.program import compile_program
from tilewright.core.dtype import DType
from tilewright.core.hardware import MemoryScope
from tilewright.core.target import Target
from tilewright.expr import intrinsics
from tilewright.expr import operators as op
from tilewright.expr.nodes import Broadcast, Cast, Div, IfThenElse, Mod, Ramp, Select, Var
from tilewright.loops.nodes import Allocate, Buffer, Evaluate, For, Function, Let, LoopKind, seq
from tilewright.runtime.array import array
from tilewright.runtime.compile import compile_function
from tilewright.runtime.device import Device
from tilewright.runtime.module import Module

RNG = np.random.default_rng(7)


def poisoned(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What no kernel computes."""
    return (
        np.full(shape, 113, DType(dtype).numpy) if DType(dtype).is_int else np.full(shape, np.nan, DType(dtype).numpy)
    )


def run(function: Function, dev: Device, inputs: list[np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The function's output, its last argument. Each function here is also compiled for CUDA."""
    compile_program((function,), Target("cuda"))
    module = compile_function(function, dev.kind)
    return call(module, dev, inputs, shape, dtype)


def call(module: Module, dev: Device, inputs: list[np.ndarray], shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The output of a call, its last argument."""
    out = array(poisoned(shape, dtype), dev)
    module(*[array(x, dev) for x in inputs], out)
    return out.numpy()


def floats(*shape: int) -> np.ndarray:
    """Values in [-1, 1)."""
    return RNG.uniform(-1, 1, shape).astype("float32")


@pytest.mark.parametrize("size", [1, 64, 100, 127])
def test_a_guard_keeps_the_last_block_inside(dev: Device, size: int) -> None:
    x, y = floats(size), floats(size)
    function = p.elementwise(size, ["float32", "float32"], lambda a, b: a * b + 1.5, "float32")
    np.testing.assert_allclose(run(function, dev, [x, y], (size,), "float32"), x * y + 1.5, rtol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 1000), (3, 128)])
def test_a_reduction_through_shared_memory(dev: Device, rows: int, columns: int) -> None:
    x = floats(rows, columns)
    got = run(p.reduction(rows, columns), dev, [x], (rows,), "float32")
    np.testing.assert_allclose(got, x.astype("float64").sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [1, 31, 50])
def test_two_dimensional_blocks_with_local_tiles(dev: Device, size: int) -> None:
    a, b = floats(size, size), floats(size, size)
    got = run(p.tiles(size), dev, [a, b], (size, size), "float32")
    np.testing.assert_allclose(got, a.astype("float64") @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8", "uint16"])
@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16])
def test_vectors_through_shared_memory(dev: Device, dtype: str, lanes: int) -> None:
    size = lanes * 12
    x = RNG.integers(0, 20, size).astype(dtype)
    np.testing.assert_array_equal(run(p.vectors(size, lanes, dtype), dev, [x], (size,), dtype), 2 * x + x[0])


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_a_vector_whose_lanes_have_their_own_conditions(dev: Device, lanes: int) -> None:
    x = floats(64)
    np.testing.assert_array_equal(run(p.padded(64, lanes), dev, [x], (64,), "float32"), [0, *x[:-1]])


def test_a_vector_moved_over_itself_reads_before_it_writes(dev: Device) -> None:
    b = p.buf("B", 9)
    tx = Var("threadIdx.x")
    move = p.put(b, Ramp(p.c(1), p.c(1), 8), p.at(b, Ramp(p.c(0), p.c(1), 8)))
    function = Function("main", (b,), p.launch(move, threadIdx_x=(tx, 1)))
    out = array(np.arange(9, dtype="float32"), dev)
    compile_function(function, dev.kind)(out)
    np.testing.assert_array_equal(out.numpy(), [0, 0, 1, 2, 3, 4, 5, 6, 7])


def test_strided_and_scattered_vectors(dev: Device) -> None:
    """B[2 i] = A[i], B[2 i + 1] = 7, by ramps of stride 2 and a broadcast."""
    a, b = p.buf("A", 8), p.buf("B", 16)
    even, odd = Ramp(p.c(0), p.c(2), 8), Ramp(p.c(1), p.c(2), 8)
    body = seq(
        p.put(b, even, p.at(a, Ramp(p.c(0), p.c(1), 8))),
        p.put(b, odd, Broadcast(p.c(7.0), 8)),
        p.put(b, Ramp(p.c(0), p.c(1), 2), p.c(5.0)),
    )
    function = Function("main", (a, b), p.launch(body, threadIdx_x=(Var("threadIdx.x"), 1)))
    x = floats(8)
    expected = np.stack([x, np.full(8, 7, "float32")], 1).reshape(-1)
    expected[:2] = 5
    np.testing.assert_array_equal(run(function, dev, [x], (16,), "float32"), expected)


def test_scratch_memory_between_two_kernels_and_a_symbolic_size(dev: Device) -> None:
    module = compile_function(p.symbolic(), dev.kind)
    for size in (33, 1, 500, 0):
        x = floats(size)
        np.testing.assert_array_equal(call(module, dev, [x], (size,), "float32"), x + x[::-1])


def test_a_loop_on_the_host_around_a_kernel(dev: Device) -> None:
    x = floats(6, 32)
    np.testing.assert_allclose(run(p.scan(6, 32), dev, [x], (6, 32), "float32"), np.cumsum(x, 0), rtol=1e-5, atol=1e-6)


def _trunc_div(a: np.ndarray, b: int | np.ndarray) -> np.ndarray:
    return np.trunc(a / np.asarray(b, "float64")).astype(a.dtype)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_division_of_negative_numbers(dev: Device, dtype: str) -> None:
    x = np.arange(-50, 50).astype(dtype)
    values, expected = [], []
    for divisor in (1, 2, 3, 7, 8, -3, -4):
        by = op.const(divisor, dtype)
        values += [lambda a, by=by: a // by, lambda a, by=by: a % by]
        values += [lambda a, by=by: Div(a, by), lambda a, by=by: Mod(a, by)]
        expected += [x // divisor, x % divisor, _trunc_div(x, divisor), x - _trunc_div(x, divisor) * divisor]
    got = run(p.rows(100, [dtype], values, dtype), dev, [x], (len(values), 100), dtype)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_division_by_a_variable(dev: Device, dtype: str) -> None:
    info = np.iinfo(dtype)
    low = max(info.min, -60)
    x = RNG.integers(low, 60, 200).astype(dtype)
    y = RNG.integers(low, 60, 200).astype(dtype)
    y[y == 0] = 3
    values = [lambda a, b: a // b, lambda a, b: a % b]
    got = run(p.rows(200, [dtype, dtype], values, dtype), dev, [x, y], (2, 200), dtype)
    np.testing.assert_array_equal(got, [x // y, x % y])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap_in_their_own_type(dev: Device, dtype: str) -> None:
    info = np.iinfo(dtype)
    top = min(info.max, 2**31 - 1) if dtype == "int32" else info.max
    x = np.array([info.min, 0, 1, top // 2, top - 1, top], dtype)
    half = op.const(2, dtype)
    value = {  # signed 32-bit and wider overflow is undefined in C, so those stay in range
        True: lambda a: (a + a) // half,
        False: lambda a: (a // half) * half + op.const(1, dtype),
    }[np.dtype(dtype).itemsize < 4 or dtype[0] == "u"]
    with np.errstate(over="ignore"):
        one = np.asarray(1, dtype)
        expected = (x + x) // 2 if np.dtype(dtype).itemsize < 4 or dtype[0] == "u" else (x // 2) * 2 + one
    np.testing.assert_array_equal(run(p.elementwise(6, [dtype], value, dtype), dev, [x], (6,), dtype), expected)


UNARY = {
    "exp": np.exp, "exp2": np.exp2, "exp2_normal": np.exp2,
    "exp10": lambda x: 10.0**x, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh,
    "saturate": lambda x: np.clip(x, 0, 1), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": lambda x: np.arccosh(x + 1), "atanh": np.arctanh, "erf": np.vectorize(math.erf), "abs": np.abs,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}  # fmt: skip
SIGNED = "tanh saturate sigmoid sin cos tan asin acos atan sinh cosh asinh atanh erf abs".split()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_unary_function(dev: Device, dtype: str) -> None:
    """All in one kernel: B[k, i] = f_k(A[i]); `acosh` is asked at 1 + x, the rounding ones at 10 x."""
    missing = {*intrinsics.FLOAT_UNARY, *intrinsics.ROUNDING} - {*UNARY}
    assert not missing
    x = np.linspace(0.01, 0.99, 64).astype(dtype)
    x[::2] *= -1
    tx = Var("threadIdx.x")
    a, b = p.buf("A", 64, dtype=dtype), p.buf("B", len(UNARY), 64, dtype=dtype)
    stores, expected = [], []
    for row, (name, reference) in enumerate(UNARY.items()):
        value, at = p.at(a, tx), x.astype("float64")
        if name in intrinsics.ROUNDING:
            value, at = value * op.const(10.5, dtype), at * 10.5
        elif name not in SIGNED:
            value, at = intrinsics.absolute(value), np.abs(at)
        argument = value + op.const(1.0, dtype) if name == "acosh" else value
        stores.append(op.cast(dtype, intrinsics.TABLE[name](argument)))
        stores[-1] = p.Store(b, (p.c(row), tx), stores[-1])
        expected.append(reference(at))
    function = Function("main", (a, b), p.launch(seq(*stores), threadIdx_x=(tx, 64)))
    got = run(function, dev, [x], (len(UNARY), 64), dtype)
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    for name, row, want in zip(UNARY, got, expected, strict=True):
        np.testing.assert_allclose(row, want, rtol=tolerance * 4, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_binary_function(dev: Device, dtype: str) -> None:
    x, y = RNG.uniform(0.1, 5, 50).astype(dtype), RNG.uniform(-2, 2, 50).astype(dtype)
    table = {"pow": np.power, "fmod": np.fmod, "atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}
    assert set(table) == {*intrinsics.FLOAT_BINARY}
    function = p.rows(50, [dtype, dtype], [intrinsics.TABLE[name] for name in table], dtype)
    for name, row in zip(table, run(function, dev, [x, y], (len(table), 50), dtype), strict=True):
        want = table[name](x.astype("float64"), y.astype("float64"))
        np.testing.assert_allclose(row, want, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_not_a_number_and_infinity(dev: Device, dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -1.0], dtype)
    kinds = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
    function = p.rows(5, [dtype], [intrinsics.TABLE[name] for name in kinds], "bool")
    got = run(function, dev, [x], (3, 5), "bool")
    np.testing.assert_array_equal(got, [reference(x) for reference in kinds.values()])
    constants = (np.inf, -np.inf, np.nan)
    function = p.rows(5, [dtype], [lambda a, v=v: a + op.const(v, dtype) for v in constants], dtype)
    with np.errstate(invalid="ignore"):
        expected = [x + constant for constant in constants]
    np.testing.assert_array_equal(run(function, dev, [x], (3, 5), dtype), expected)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "float32", "float64"])
def test_minimum_and_maximum(dev: Device, dtype: str) -> None:
    x, y = RNG.integers(0, 100, 64).astype(dtype), RNG.integers(0, 100, 64).astype(dtype)
    function = p.elementwise(64, [dtype, dtype], lambda a, b: op.minimum(op.maximum(a, b), op.const(50, dtype)), dtype)
    np.testing.assert_array_equal(
        run(function, dev, [x, y], (64,), dtype), np.minimum(np.maximum(x, y), np.asarray(50, dtype))
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_bits(dev: Device, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([1, 2, 3, 5, 100, info.max, info.max // 3, info.min or 9], dtype)
    y = np.array([3, 1, 7, 2, 55, 1, info.max, 12], dtype)
    bits = [int(v) & ((1 << info.bits) - 1) for v in x]
    values, expected = zip(
        (lambda a, b: op.bitwise_and(a, b), x & y),
        (lambda a, b: op.bitwise_or(a, b), x | y),
        (lambda a, b: op.bitwise_xor(a, b), x ^ y),
        (lambda a, b: op.bitwise_not(a), ~x),
        (lambda a, b: op.shift_right(a, op.const(3, dtype)), x >> 3),
        (lambda a, b: op.shift_left(op.shift_right(a, op.const(4, dtype)), op.const(2, dtype)), (x >> 4) << 2),
        (lambda a, b: intrinsics.TABLE["popcount"](a), [v.bit_count() for v in bits]),
        (lambda a, b: intrinsics.TABLE["clz"](a), [info.bits - v.bit_length() for v in bits]),
        strict=True,
    )
    got = run(p.rows(8, [dtype, dtype], values, dtype), dev, [x, y], (8, 8), dtype)
    np.testing.assert_array_equal(got, np.asarray(expected, dtype))


@pytest.mark.parametrize("target", ["bool", "int8", "uint8", "int32", "int64", "float32", "float64"])
def test_casts(dev: Device, target: str) -> None:
    """From every type in one kernel."""
    sources = ["bool", "int8", "uint8", "int32", "int64", "uint32", "float32", "float64"]
    inputs = [np.array([0, 1, 2, 100, 127, 3.75, 0.25]).astype(source) for source in sources]
    kind = op.cast(target, p.c(0)).dtype
    values = [lambda *given, k=k: Cast(kind, given[k]) for k in range(len(sources))]
    got = run(p.rows(7, sources, values, target), dev, inputs, (len(sources), 7), target)
    np.testing.assert_array_equal(got, [x.astype(target) for x in inputs])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_floats_round_after_every_operation(dev: Device, dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, y = RNG.uniform(-4, 4, 500).astype(kind), RNG.uniform(0.5, 4, 500).astype(kind)
    half = op.const(0.1, dtype)
    values, expected = zip(
        (lambda a, b: a + b, x + y),
        (lambda a, b: a - b, x - y),
        (lambda a, b: a * b + half, x * y + np.asarray(0.1, kind)),
        (lambda a, b: a / b, x / y),
        (lambda a, b: op.maximum(a, b), np.maximum(x, y)),
        (lambda a, b: op.select(a < b, a, b), np.minimum(x, y)),
        (lambda a, b: op.cast(dtype, op.cast("float32", a) * 3.0), (x.astype("float32") * 3).astype(kind)),
        (lambda a, b: op.cast(dtype, op.cast("int32", a)), x.astype("int32").astype(kind)),
        strict=True,
    )
    got = run(p.rows(500, [dtype, dtype], values, dtype), dev, [x, y], (8, 500), dtype)
    np.testing.assert_array_equal(got.astype("float32"), np.asarray(expected, kind).astype("float32"))
    got = run(p.elementwise(500, [dtype], intrinsics.TABLE["exp"], dtype), dev, [x], (500,), dtype)
    np.testing.assert_allclose(got.astype("float64"), np.exp(x.astype("float64")), rtol=2e-2)
    with np.errstate(over="ignore"):
        special = np.array([np.inf, -np.inf, np.nan, 65504, 7e4, 6e-8, -0.0], "float32").astype(kind)
    got = run(p.elementwise(7, [dtype], lambda a: a, dtype), dev, [special], (7,), dtype)
    np.testing.assert_array_equal(got.astype("float32"), special.astype("float32"))
    for lanes in (2, 4, 8):
        small = RNG.integers(0, 9, 48).astype(kind)
        got = run(p.vectors(48, lanes, dtype), dev, [small], (48,), dtype)
        np.testing.assert_array_equal(got.astype("float32"), 2 * small.astype("float32") + float(small[0]))


def test_booleans(dev: Device) -> None:
    x, y = np.array([True, True, False, False]), np.array([True, False, True, False])
    function = p.elementwise(
        4,
        ["bool", "bool"],
        lambda a, b: op.logical_or(op.logical_and(a, b), op.logical_not(op.logical_or(a, b))),
        "bool",
    )
    np.testing.assert_array_equal(run(function, dev, [x, y], (4,), "bool"), x == y)


def test_choices_are_lazy(dev: Device) -> None:
    """The element that is not chosen lies far outside."""
    size = 16
    value = lambda a: IfThenElse(a.indices[0] < 8, a, p.at(a.source, a.indices[0] - 100_000_000))
    inside = p.elementwise(size, ["float32"], value, "float32", block=8, blocks=1)
    x = floats(size)
    got = run(inside, dev, [x], (size,), "float32")
    np.testing.assert_array_equal(got[:8], x[:8])
    chosen = p.elementwise(size, ["float32"], lambda a: Select(a < 0.0, -a, a), "float32", block=8)
    np.testing.assert_array_equal(run(chosen, dev, [x], (size,), "float32"), np.abs(x))


def test_zero_dimensional_buffers_and_scalar_arguments(dev: Device) -> None:
    a, b = p.buf("A"), p.buf("B")
    n, f, flag, wide = Var("n"), Var("f", "float32"), Var("flag", "bool"), Var("w", "int64")
    value = p.at(a) * f + op.cast("float32", n) + op.if_then_else(flag, p.c(1.0), p.c(2.0)) + op.cast("float32", wide)
    store = p.Store(b, (), value)
    function = Function("main", (a, n, f, flag, wide, b), p.launch(store, threadIdx_x=(Var("threadIdx.x"), 1)))
    out = array(np.zeros((), "float32"), dev)
    module = compile_function(function, dev.kind)
    module(array(np.float32(3), dev), 5, 0.5, True, 2**33, out)
    assert out.numpy() == np.float32(3 * 0.5 + 5 + 1 + 2**33)
    module(array(np.float32(3), dev), np.int64(5), np.float32(0.5), False, 0, out)
    assert out.numpy() == 3 * 0.5 + 5 + 2


def test_views_of_a_parameter_and_of_shared_memory(dev: Device) -> None:
    """A flat view of a parameter, and two buffers of different types in one shared pool."""
    a, b = p.buf("A", 4, 8), p.buf("B", 4, 8)
    flat_a, flat_b = (Buffer(x.name, "float32", (p.c(32),), alias_of=x) for x in (a, b))
    pool = p.buf("pool", 32, dtype="int32", scope="shared")
    view = Buffer("view", "float32", (p.c(32),), MemoryScope.SHARED, alias_of=pool)
    tx = Var("threadIdx.x")
    body = seq(
        p.put(view, tx, p.at(flat_a, tx)),
        p.put(flat_b, tx, p.at(view, tx) * 2.0),
    )
    function = Function("main", (a, b), p.launch(Allocate(pool, body), threadIdx_x=(tx, 32)))
    x = floats(4, 8)
    np.testing.assert_array_equal(run(function, dev, [x], (4, 8), "float32"), x * 2)


def test_names_that_the_language_reserves(dev: Device) -> None:
    a, b = p.buf("kernel", 8), p.buf("float", 8)
    i, half, value = Var("for"), Var("half"), Var("float4", "float32")
    body = For(
        i, p.c(0), p.c(8), LoopKind.SERIAL, None, (), Let(half, i + 0, Let(value, p.at(a, half), p.put(b, i, value)))
    )
    function = Function("def", (a, b), p.launch(seq(body, Evaluate(p.c(0)), body), "main", threadIdx_x=(Var("int"), 1)))
    x = floats(8)
    np.testing.assert_array_equal(run(function, dev, [x], (8,), "float32"), x)


def test_the_same_binding_twice_in_one_scope(dev: Device) -> None:
    a, b, local = p.buf("A", 1), p.buf("B", 2), p.buf("tmp", 1, scope="local")
    v = Var("v", "float32")
    first = Let(v, p.at(a, 0) + 1.0, Allocate(local, seq(p.put(local, 0, v), p.put(b, 0, p.at(local, 0)))))
    second = Let(v, p.at(a, 0) + 2.0, Allocate(local, seq(p.put(local, 0, v), p.put(b, 1, p.at(local, 0)))))
    function = Function("main", (a, b), p.launch(seq(first, second), threadIdx_x=(Var("threadIdx.x"), 1)))
    np.testing.assert_array_equal(run(function, dev, [np.zeros(1, "float32")], (2,), "float32"), [1, 2])


def test_more_shared_memory_than_a_block_has_unasked(dev: Device) -> None:
    """80,000 bytes: a dynamic allocation on a GPU that allows it."""
    size = 20_000
    b, shared, tx = p.buf("B", 1), p.buf("S", size, scope="shared"), Var("threadIdx.x")
    body = Allocate(shared, seq(p.put(shared, size - 1, p.c(4.0)), p.put(b, 0, p.at(shared, size - 1))))
    function = Function("main", (b,), p.launch(body, threadIdx_x=(tx, 1)))
    if dev.kind == "opencl":
        target = f"opencl -max_shared_memory_per_block={size * 4}"
    else:
        target = "cuda"
    out = array(np.zeros(1, "float32"), dev)
    compile_function(function, target)(out)
    assert out.numpy()[0] == 4
