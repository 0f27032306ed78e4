"""C11, with the extensions that GCC and clang share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from ...core.dtype import DType
from ...core.errors import InternalError
from ...core.hardware import MemoryScope, ThreadTag
from ..dialect import C_WORDS, MATH, OWNED, KernelParameter, PlainC, signature, storage_dtype

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_MATH = [name for name in MATH if name not in ("rsqrt", "exp10")]
_ATOMICS = {
    **{f"atomic_{name}": f"__atomic_fetch_{name}" for name in ("add", "sub", "and", "or", "xor")},
    "atomic_exchange": "__atomic_exchange_n",
}


def _intrinsics() -> dict[str, str]:
    found: dict[str, str] = {name: name for name in ("isnan", "isinf", "isfinite")}
    for suffix, dtype in (("f", "float32"), ("", "float64")):
        one = "1.0" + suffix
        found |= {f"{name}:{dtype}": f"{name}{suffix}" for name in _MATH}
        found[f"nearbyint:{dtype}"] = f"rint{suffix}"
        found[f"exp2_normal:{dtype}"] = f"exp2{suffix}"
        found[f"rsqrt:{dtype}"] = f"({one} / sqrt{suffix}({{0}}))"
        found[f"exp10:{dtype}"] = f"exp10{suffix}"
        found[f"sigmoid:{dtype}"] = f"({one} / ({one} + exp{suffix}(-({{0}}))))"
    for kind in _INTEGERS:
        bits = int(kind.lstrip("uint"))
        unsigned = f"uint{bits}_t"
        found[f"min:{kind}"], found[f"max:{kind}"] = f"tilewright_min_{kind}", f"tilewright_max_{kind}"
        found[f"popcount:{kind}"] = f"tilewright_popcount(({unsigned})({{0}}))"
        found[f"clz:{kind}"] = f"tilewright_clz(({unsigned})({{0}}), {bits})"
    return found


class C(PlainC):
    """The dialect of C compilers. Lanes are written one by one: the compiler makes vectors of them."""

    name: ClassVar[str] = "c"
    types: ClassVar[dict[str, str]] = {
        "bool": "bool",
        **{kind: f"{kind}_t" for kind in _INTEGERS},
        "float32": "float",
        "float64": "double",
        "handle": "void *",
    }
    has_threads: ClassVar[bool] = False
    literal_suffixes: ClassVar[dict[str, str]] = {"int64": "LL", "uint32": "u", "uint64": "ULL"}
    helpers: ClassVar[dict[str, str]] = {
        "saturate_float32": "float saturate_float32(float x) {\n  return x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;\n}",
        "saturate_float64": "double saturate_float64(double x) {\n  return x > 0.0 ? x < 1.0 ? x : 1.0 : 0.0;\n}",
        # Not by _Float16: its conversions are in a library of the compiler's, which a process may lack.
        "float16_value": "float float16_value(uint16_t half) {\n"
        "  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;\n"
        "  uint32_t bits = rest >= 0x7c00 ? 0x7f800000 | rest << 13 : (rest << 13) + 0x38000000;\n"
        "  float x = (float)rest * 5.9604644775390625e-8f;\n"
        "  if (rest < 0x400) memcpy(&bits, &x, sizeof bits);\n"
        "  bits |= sign;\n  memcpy(&x, &bits, sizeof x);\n  return x;\n}",
        "float16_bits": "uint16_t float16_bits(float x) {\n"
        "  uint32_t bits;\n  memcpy(&bits, &x, sizeof bits);\n"
        "  const uint32_t sign = bits >> 16 & 0x8000;\n  bits &= 0x7fffffff;\n"
        "  if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00);\n"
        "  if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00);\n"
        "  if (bits < 0x38800000) {\n"
        "    memcpy(&x, &bits, sizeof x);\n    x += 0.5f;\n    memcpy(&bits, &x, sizeof bits);\n"
        "    return (uint16_t)(sign | (bits - 0x3f000000));\n  }\n"
        "  return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13));\n}",
        "bfloat16_value": "float bfloat16_value(uint16_t half) {\n"
        "  const uint32_t bits = (uint32_t)half << 16;\n  float x;\n"
        "  memcpy(&x, &bits, sizeof x);\n  return x;\n}",
        "bfloat16_bits": "uint16_t bfloat16_bits(float x) {\n"
        "  uint32_t bits;\n  memcpy(&bits, &x, sizeof bits);\n"
        "  return x != x ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);\n}",
    }
    intrinsics: ClassVar[dict[str, str]] = _intrinsics()
    reserved: ClassVar[frozenset[str]] = C_WORDS | {
        *MATH,
        *(f"{name}f" for name in MATH),
        *(f"{kind}_t" for kind in _INTEGERS),
        *"isnan isinf isfinite rint rintf malloc free calloc memcpy memset status arguments main exit".split(),
    }
    owned: ClassVar[re.Pattern[str]] = re.compile(
        "|".join((*OWNED, r"tilewright_\w*", r"saturate_float\d+", r"_\w*", r"y[01n]|j[01n]|gamma"))
    )

    def space(self, scope: MemoryScope) -> str:
        return ""

    def bits(self, dtype: DType, text: str) -> str:
        whole, other = self.types[dtype], self.types[DType(f"{'float' if dtype.is_int else 'int'}{dtype.bits}")]
        return f"((union {{ {whole} of; {other} as; }}){{ {text} }}).as"

    def array(self, scope: MemoryScope, dtype: DType, name: str, size: int, align: int) -> str:
        return f"{self.storage_type(dtype)} {name}[{size}];"

    def barrier(self, scope: MemoryScope) -> str:
        raise InternalError("one thread waits for nobody")

    def atomic(self, name: str, dtype: DType, scope: MemoryScope) -> str | None:
        found = _ATOMICS.get(name) if dtype.is_int and dtype.bits >= 32 else None
        return f"{found}({{0}}, {{1}}, __ATOMIC_RELAXED)" if found else None

    def thread_index(self, tag: ThreadTag) -> str:
        raise InternalError("functions of a CPU have no thread indices")

    def header(self, name: str, parameters: Sequence[KernelParameter], threads: int | None, resident: int = 0) -> str:
        return signature(f"static int32_t {name}", [self._declare(p) for p in parameters] or ["void"], "")

    def _declare(self, p: KernelParameter) -> str:
        if not p.pointee:
            return f"{self.scalar_type(p.dtype)} {p.name}"
        return f"{'const ' * p.constant}{self.storage_type(storage_dtype(p.dtype))} *restrict {p.name}"

    def preamble(self, dtypes: frozenset[DType]) -> list[str]:
        lines = ["#define _GNU_SOURCE"]
        lines += [f"#include <{name}.h>" for name in ("math", "stdbool", "stddef", "stdint", "stdlib", "string")]
        lines.append("")
        for kind in _INTEGERS:
            for name, sign in (("min", "<"), ("max", ">")):
                head = f"static inline {kind}_t tilewright_{name}_{kind}({kind}_t a, {kind}_t b)"
                lines.append(f"{head} {{ return a {sign} b ? a : b; }}")
        lines += [  # the compiler's builtin may call a library function
            "static inline int32_t tilewright_popcount(uint64_t x) {",
            "  x -= x >> 1 & 0x5555555555555555ULL;",
            "  x = (x & 0x3333333333333333ULL) + (x >> 2 & 0x3333333333333333ULL);",
            "  return (int32_t)(((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL >> 56);",
            "}",
        ]
        lines.append("static inline int32_t tilewright_clz(uint64_t x, int32_t bits) {")
        lines += ["  return x ? __builtin_clzll(x) - (64 - bits) : bits;", "}"]
        return lines
