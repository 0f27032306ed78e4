"""CUDA C++ without headers: NVRTC knows the math functions, the vector types and the thread indices."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import ClassVar

from ..core.atoms import ATOMS, DOTS
from ..core.dtype import DType
from ..core.errors import InternalError
from ..core.hardware import MemoryScope, ThreadTag
from .atomics import CUDA_HELPERS, cuda_atomic
from .dialect import C_WORDS, MATH, OWNED, Dialect, KernelParameter, is_half, signature, storage_dtype
from .dots import dot_helpers
from .matrix_helpers import matrix_helpers
from .padded_loads import HELPERS as SETTLED
from .warpgroup_helpers import WARPGROUP_HELPERS

_MATRIX = r"(?:mma|ldmatrix|word_of|dp4a|swizzled|tf32|bf16|promote|add_low|shared_address|wgmma|fence_async)(?:_\w+)?"
"""The helper functions of matrix instructions."""
_HELPER = "static __device__ __forceinline__"


def _intrinsics() -> dict[str, str]:
    table: dict[str, str] = {}
    for name in (*MATH, "nearbyint"):
        table[f"{name}:float32"] = name + "f"
        table[f"{name}:float64"] = name
    table |= {
        "saturate:float32": "__saturatef",
        "saturate:float64": "fmin(fmax({0}, 0.0), 1.0)",
        "sigmoid:float64": "(1.0 / (1.0 + exp(-({0}))))",
        "exp2_normal:float64": "exp2",
        "min": "min",
        "max": "max",
        "isnan": "isnan",
        "isinf": "isinf",
        "isfinite": "isfinite",
    }
    for dtype in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64".split():
        # Values of fewer than 32 bits are exchanged as int, half floats as the float that they are computed in.
        wide = "(int)" if dtype == "bool" or dtype.endswith(("int8", "int16")) else ""
        for name, word in (("shuffle_down", "__shfl_down_sync"), ("shuffle", "__shfl_sync")):
            table[f"{name}:{dtype}"] = f"{word}(0xffffffffu, {wide}({{0}}), {{1}}, {{2}})"
    for bits in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            wide, ll = ("unsigned long long", "ll") if bits == 64 else ("unsigned", "")
            exact = {8: "unsigned char", 16: "unsigned short"}.get(bits, wide)
            spare = f" - {32 - bits}" if bits < 32 else ""
            table[f"popcount:{kind}{bits}"] = f"__popc{ll}(({exact})({{0}}))"
            table[f"clz:{kind}{bits}"] = f"(__clz{ll}(({exact})({{0}})){spare})"
    return table


def _extremes() -> dict[str, str]:
    """Min and max that return NaN if an operand is NaN; sm_80 and later have an instruction for it."""
    made = {}
    for name, sign in (("min", "<"), ("max", ">")):
        made[f"{name}_float32"] = (
            f"float {name}_float32(float a, float b) {{\n#if __CUDA_ARCH__ >= 800\n  float x;\n"
            f'  asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(a), "f"(b));\n  return x;\n'
            f"#else\n  return a {sign} b || a != a ? a : b;\n#endif\n}}"
        )
    return made


def _conversions() -> dict[str, str]:
    """Floats to integers by the hardware's own conversion, which saturates; NaN gives 0 of 32 bits alone."""
    made = {}
    words = {"int32": ("int", "int"), "uint32": ("uint", "unsigned int")}
    words |= {"int64": ("ll", "long long"), "uint64": ("ull", "unsigned long long")}
    for source, kind in (("float32", "float"), ("float64", "double")):
        for to, (word, result) in words.items():
            call = f"__{kind}2{word}_rz(x)"
            value = call if (source, to[-2:]) == ("float32", "32") else f"x == x ? {call} : 0"
            made[f"{source}_to_{to}"] = f"{result} {source}_to_{to}({kind} x) {{\n  return {value};\n}}"
    return made


def _pair(kind: str, letters: str) -> str:
    """Convert two floats to a word of two 16-bit floats, the first in the low half: one instruction since sm_80."""
    convert = f'asm("cvt.rn.{letters}x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));'
    if kind == "float16":
        each = 'asm("{ .reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; mov.b32 %0, {a, b}; }"'
        other = f'  {each} : "=r"(word) : "f"(low), "f"(high));'
    else:
        other = (
            "  unsigned int a = (unsigned int)__float_as_int(low), b = (unsigned int)__float_as_int(high);\n"
            "  a = low != low ? 0x7fff : (a + 0x7fff + (a >> 16 & 1)) >> 16;\n"
            "  b = high != high ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16;\n"
            "  word = a | b << 16;"
        )
    head = f"unsigned int {kind}_pair(float low, float high) {{\n  unsigned int word;\n#if __CUDA_ARCH__ >= 800\n"
    return f"{head}  {convert}\n#else\n{other}\n#endif\n  return word;\n}}"


def _copies() -> dict[str, str]:
    """Asynchronous copies; copies of 16 bytes bypass the first-level cache, which keeps data that is read again.

    Distances in bytes from the two addresses are part of the instruction, so that several share the addresses. The
    conditional ones are predicated, since the compiler makes no predicates of branches around assembly.
    """
    made = {}
    for size in (4, 8, 16):
        for zeros, conditional in itertools.product((False, True), (False, True)):
            name = f"copy_{size}{'_or_zeros' * zeros}{'_where' * conditional}"
            parameters = "bool runs, " * conditional + "bool present, " * zeros + "void* to, const void* from"
            operands = ['"r"((unsigned int)__cvta_generic_to_shared(to))', '"l"(from)', '"n"(to_by)', '"n"(from_by)']
            operands += [f'"r"(present ? {size} : 0)'] * zeros + ['"r"((int)runs)'] * conditional
            way = "cg" if size == 16 else "ca"
            text = f"cp.async.{way}.shared.global [%0 + %2], [%1 + %3], {size}{', %4' * zeros};"
            if conditional:
                text = f"{{ .reg .pred p; setp.ne.b32 p, %{4 + zeros}, 0; @p {text} }}"
            head = f"template <int to_by = 0, int from_by = 0>\n{_HELPER} void {name}({parameters}) {{"
            made[name] = f'{head}\n  asm volatile("{text}"\n      : : {", ".join(operands)} : "memory");\n}}'
    return made


_UNMERGED = f"""template <typename T>
{_HELPER} T unmerged(T value) {{
  if constexpr (sizeof(T) <= 4) {{
    union {{ T whole; unsigned int word; }} parts = {{value}};
    asm("" : "+r"(parts.word));
    return parts.whole;
  }} else if constexpr (sizeof(T) == 8) {{
    union {{ T whole; unsigned long long word; }} parts = {{value}};
    asm("" : "+l"(parts.word));
    return parts.whole;
  }} else {{
    union {{ T whole; unsigned long long words[2]; }} parts = {{value}};
    asm("" : "+l"(parts.words[0]), "+l"(parts.words[1]));
    return parts.whole;
  }}
}}"""
"""The same value, which the compiler can no longer trace to the load: see `merged_loads.py`."""


class Cuda(Dialect):
    """The dialect of NVRTC."""

    name: ClassVar[str] = "cuda"
    types: ClassVar[dict[str, str]] = {
        "bool": "bool",
        "int8": "signed char",
        "int16": "short",
        "int32": "int",
        "int64": "long long",
        "uint8": "unsigned char",
        "uint16": "unsigned short",
        "uint32": "unsigned int",
        "uint64": "unsigned long long",
        "float32": "float",
        "float64": "double",
    }
    literal_suffixes: ClassVar[dict[str, str]] = {"int64": "LL", "uint32": "u", "uint64": "ULL"}
    has_matrix_instructions: ClassVar[bool] = True
    helper_prefix: ClassVar[str] = _HELPER
    helpers: ClassVar[dict[str, str]] = {
        **_extremes(),
        **_conversions(),
        **_copies(),
        **CUDA_HELPERS,
        # One instruction; exp2f takes three more for results that are not normal numbers.
        "exp2_normal_float32": "float exp2_normal_float32(float x) {\n"
        '  float y;\n  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));\n  return y;\n}',
        # 1 / (1 + 2**(-x log2 e)) by one reciprocal and one exponential, which are off by 2**-23 and 2**-22. So it is
        # within 2e-7 of the sigmoid, and within 2e-6 of it relatively for |x| <= 16. A result that is not normal is 0.
        "sigmoid_float32": "float sigmoid_float32(float x) {\n  float power, y;\n"
        '  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.442695041f));\n'
        '  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(1.0f + power));\n  return y;\n}',
        "float16_value": "float float16_value(unsigned short bits) {\n"
        '  float x;\n  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));\n  return x;\n}',
        "float16_bits": "unsigned short float16_bits(float x) {\n"
        '  unsigned short bits;\n  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));\n  return bits;\n}',
        "bfloat16_value": "float bfloat16_value(unsigned short bits) {\n  return __int_as_float((int)bits << 16);\n}",
        "bfloat16_bits": "unsigned short bfloat16_bits(float x) {\n#if __CUDA_ARCH__ >= 800\n"
        '  unsigned short bits;\n  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));\n  return bits;\n#else\n'
        "  unsigned int bits = (unsigned int)__float_as_int(x);\n"
        "  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n#endif\n}",
        **matrix_helpers(ATOMS),
        **dot_helpers(DOTS),
        **WARPGROUP_HELPERS,
        "unmerged": _UNMERGED,
        **SETTLED,
        **{f"{kind}_pair": _pair(kind, letters) for kind, letters in (("float16", "f16"), ("bfloat16", "bf16"))},
    }
    intrinsics: ClassVar[dict[str, str]] = _intrinsics()
    reserved: ClassVar[frozenset[str]] = C_WORDS | {
        *(name + tail for name in (*MATH, "nearbyint") for tail in ("", "f")),
        *"threadIdx blockIdx blockDim gridDim warpSize dim3 isnan isinf isfinite asm signbit".split(),
        *"j0 j1 y0 y1 jn yn".split(),
        *(f"{kind}{lanes}" for kind in "char short int long longlong float double".split() for lanes in (1, 2, 3, 4)),
        *(f"u{kind}{lanes}" for kind in "char short int long longlong".split() for lanes in (1, 2, 3, 4)),
    }

    owned: ClassVar[re.Pattern[str]] = re.compile(
        "|".join(
            (
                *(*OWNED, r"make_\w+", "unmerged", "exp2_normal_float32", "sigmoid_float32", r"atomic\w+"),
                *(r"copy_\d+(?:_or_zeros)?(?:_where)?", r"settled_\d", _MATRIX),
            )
        )
    )

    def not_finite(self, value: float, dtype: DType) -> str:
        if dtype.bits != 64:
            bits = "0x7fffffff" if math.isnan(value) else "0x7f800000" if value > 0 else "0xff800000"
            return f"__int_as_float({bits})"
        bits = (
            "0x7fffffffffffffff" if math.isnan(value) else "0x7ff0000000000000" if value > 0 else "0xfff0000000000000"
        )
        return f"__longlong_as_double({bits}LL)"

    def bits(self, dtype: DType, text: str) -> str:
        single, double = (
            ("int_as_float", "longlong_as_double") if dtype.is_int else ("float_as_int", "double_as_longlong")
        )
        return f"__{single if dtype.bits == 32 else double}({text})"

    def vector_widths(self, dtype: DType) -> Sequence[int]:
        if is_half(dtype):
            return (8, 4, 2)
        return [lanes for lanes in (4, 2) if lanes * dtype.bytes <= 16]

    def vector_type(self, dtype: DType, lanes: int) -> str:
        if is_half(dtype):  # words of two: no vector type has eight elements
            return {8: "uint4", 4: "uint2", 2: "unsigned int"}[lanes]
        stem = {"int8": "char", "int16": "short", "int32": "int", "int64": "longlong"}
        stem |= {"u" + key: "u" + text for key, text in stem.items()}
        stem |= {"float32": "float", "float64": "double"}
        return f"{stem[storage_dtype(dtype)]}{lanes}"

    def vector_value(self, dtype: DType, parts: Sequence[str]) -> str:
        if is_half(dtype):
            return parts[0] if len(parts) == 1 else f"make_uint{len(parts)}({', '.join(parts)})"
        return f"make_{self.vector_type(dtype, len(parts))}({', '.join(parts)})"

    def vector_zeros(self, dtype: DType, lanes: int) -> str:
        return self.vector_value(dtype, ["0"] * (lanes // 2 if is_half(dtype) else lanes))

    def lane(self, vector: str, lane: int, dtype: DType, lanes: int) -> str:
        if is_half(dtype):
            word = f".{'xyzw'[lane // 2]}" if lanes > 2 else ""
            return f"(unsigned short)({vector}{word}{' >> 16' * (lane % 2)})"
        return f"{vector}.{'xyzw'[lane]}"

    def vector_load(self, pointer: str, dtype: DType, lanes: int, space: str) -> str:
        return f"*({space}{self.vector_type(dtype, lanes)}*)({pointer})"

    def vector_store(self, pointer: str, dtype: DType, lanes: int, space: str, value: str) -> str:
        return f"*({space}{self.vector_type(dtype, lanes)}*)({pointer}) = {value};"

    def vector_needs_alignment(self) -> bool:
        return True

    def space(self, scope: MemoryScope) -> str:
        return ""

    def array(self, scope: MemoryScope, dtype: DType, name: str, size: int, align: int) -> str:
        place = "__shared__ " if scope is MemoryScope.SHARED else ""
        aligned = f"__align__({align}) " if align else ""
        return f"{place}{aligned}{self.storage_type(dtype)} {name}[{size}];"

    def barrier(self, scope: MemoryScope) -> str:
        if scope is MemoryScope.LOCAL:
            raise InternalError("a barrier on local memory orders nothing")
        return "__syncthreads();"

    def copy(self, size: int, guarded: bool, conditional: bool) -> str:
        return f"copy_{size}{'_or_zeros' * guarded}{'_where' * conditional}"

    def atomic(self, name: str, dtype: DType, scope: MemoryScope) -> str | None:
        return cuda_atomic(name, dtype)

    def commit(self) -> str:
        return 'asm volatile("cp.async.commit_group;" : : : "memory");'

    def await_groups(self, pending: int) -> str:
        return f'asm volatile("cp.async.wait_group {pending};" : : : "memory");'

    def thread_index(self, tag: ThreadTag) -> str:
        return tag.value

    def header(self, name: str, parameters: Sequence[KernelParameter], threads: int | None, resident: int = 0) -> str:
        bounds = f"__launch_bounds__({threads}{f', {resident}' * (resident > 0)}) " if threads else ""
        return signature(f'extern "C" __global__ void {bounds}{name}', [self._declare(p) for p in parameters], "")

    def _declare(self, p: KernelParameter) -> str:
        if not p.pointee:
            return f"{self.scalar_type(p.dtype)} {p.name}"
        return f"{'const ' * p.constant}{self.storage_type(p.dtype)}* __restrict__ {p.name}"

    def preamble(self, dtypes: frozenset[DType]) -> list[str]:
        return []
