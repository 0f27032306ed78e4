"""OpenCL C 1.2, which every device and PoCL accept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from ..core.dtype import DType
from ..core.errors import InternalError
from ..core.hardware import MemoryScope, ThreadTag
from .atomics import OPENCL_HELPERS, opencl_atomic
from .dialect import C_WORDS, MATH, OWNED, KernelParameter, PlainC, signature, storage_dtype

OWN = [*MATH, *"isnan isinf isfinite popcount clz min max".split()]

_FAMILIES = (r"(?:as|async|atom|atomic|cl|convert|get|half|native|sub_group|work_group)_\w+", r"v(?:load|store)\w*")
"""Names of the built-in functions and macros of OpenCL C."""


_WIDEST_VECTOR = 32
"""Bytes of the widest vector that is written: with 64, PoCL does not come back on some processors with AVX-512."""


class OpenCl(PlainC):
    """The dialect of OpenCL drivers."""

    name: ClassVar[str] = "opencl"
    types: ClassVar[dict[str, str]] = {
        "bool": "bool",
        "int8": "char",
        "int16": "short",
        "int32": "int",
        "int64": "long",
        "uint8": "uchar",
        "uint16": "ushort",
        "uint32": "uint",
        "uint64": "ulong",
        "float32": "float",
        "float64": "double",
    }
    overloads: ClassVar[bool] = True
    # PoCL 3.0 miscompiles a branch with barriers in a loop: all threads get the values that only some threads compute
    # after the branch's last barrier.
    branches_end_with_barriers: ClassVar[bool] = True
    literal_suffixes: ClassVar[dict[str, str]] = {"int64": "L", "uint32": "u", "uint64": "UL"}
    # Bytes, which may alias everything: compilers assume that a ushort and a half never share memory.
    helpers: ClassVar[dict[str, str]] = {
        **OPENCL_HELPERS,
        "float16_value": "float float16_value(ushort bits) {\n"
        "  const uchar2 bytes = as_uchar2(bits);\n  return vload_half(0, (const half*)&bytes);\n}",
        "float16_bits": "ushort float16_bits(float x) {\n"
        "  uchar2 bytes;\n  vstore_half_rte(x, 0, (half*)&bytes);\n  return as_ushort(bytes);\n}",
        "bfloat16_value": "float bfloat16_value(ushort bits) {\n  return as_float((uint)bits << 16);\n}",
        "bfloat16_bits": "ushort bfloat16_bits(float x) {\n"
        "  uint bits = as_uint(x);\n"
        "  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n}",
    }
    intrinsics: ClassVar[dict[str, str]] = {
        **{name: name for name in OWN},
        "sigmoid:float32": "(1.0f / (1.0f + exp(-({0}))))",
        "sigmoid:float64": "(1.0 / (1.0 + exp(-({0}))))",
        "nearbyint": "rint",
        "exp2_normal": "exp2",
        "saturate:float32": "fmin(fmax({0}, 0.0f), 1.0f)",
        "saturate:float64": "fmin(fmax({0}, 0.0), 1.0)",
    }
    reserved: ClassVar[frozenset[str]] = C_WORDS | {
        *OWN,
        *(
            "kernel global local constant private read_only write_only half uchar ushort uint ulong "
            "size_t ptrdiff_t image2d_t image3d_t event_t sampler_t barrier rint fmin fmax clamp mix step "
            "dot cross length distance normalize select any all sign degrees radians vload vstore as_int "
            "as_float prefetch rotate mad fma"
        ).split(),
        *(
            f"{kind}{lanes}"
            for kind in "char uchar short ushort int uint long ulong float double half".split()
            for lanes in (2, 3, 4, 8, 16)
        ),
    }

    owned: ClassVar[re.Pattern[str]] = re.compile("|".join((*OWNED, *_FAMILIES)))

    def aliasing_type(self, dtype: DType) -> str:
        """Return a type that may alias: without barriers, compilers for CPUs take other types for other memory."""
        return f"{self.storage_type(dtype)} __attribute__((may_alias))"

    def bits(self, dtype: DType, text: str) -> str:
        single, double = ("float", "double") if dtype.is_int else ("int", "long")
        return f"as_{single if dtype.bits == 32 else double}({text})"

    def vector_widths(self, dtype: DType) -> Sequence[int]:
        return [lanes for lanes in (16, 8, 4, 2) if lanes * dtype.bytes <= _WIDEST_VECTOR]

    def vector_type(self, dtype: DType, lanes: int) -> str:
        return f"{self.types[storage_dtype(dtype)]}{lanes}"

    def vector_value(self, dtype: DType, parts: Sequence[str]) -> str:
        return f"({self.vector_type(dtype, len(parts))})({', '.join(parts)})"

    def vector_zeros(self, dtype: DType, lanes: int) -> str:
        return f"({self.vector_type(dtype, lanes)})(0)"

    def lane(self, vector: str, lane: int, dtype: DType, lanes: int) -> str:
        return f"{vector}.s{lane:x}"

    def vector_load(self, pointer: str, dtype: DType, lanes: int, space: str) -> str:
        return f"vload{lanes}(0, {pointer})"

    def vector_store(self, pointer: str, dtype: DType, lanes: int, space: str, value: str) -> str:
        return f"vstore{lanes}({value}, 0, {pointer});"

    def space(self, scope: MemoryScope) -> str:
        return {MemoryScope.GLOBAL: "__global ", MemoryScope.SHARED: "__local ", MemoryScope.LOCAL: ""}[scope]

    def array(self, scope: MemoryScope, dtype: DType, name: str, size: int, align: int) -> str:
        place = "__local " if scope is MemoryScope.SHARED else ""
        aligned = f" __attribute__((aligned({align})))" if align else ""
        return f"{place}{self.storage_type(dtype)} {name}[{size}]{aligned};"

    def barrier(self, scope: MemoryScope) -> str:
        if scope is MemoryScope.LOCAL:
            raise InternalError("a barrier on local memory orders nothing")
        fence = "CLK_LOCAL_MEM_FENCE" if scope is MemoryScope.SHARED else "CLK_GLOBAL_MEM_FENCE"
        return f"barrier({fence});"

    def atomic(self, name: str, dtype: DType, scope: MemoryScope) -> str | None:
        return opencl_atomic(name, dtype, self.space(scope))

    def thread_index(self, tag: ThreadTag) -> str:
        return f"get_{'group' if tag.is_block else 'local'}_id({tag.dimension})"

    def header(self, name: str, parameters: Sequence[KernelParameter], threads: int | None, resident: int = 0) -> str:
        return signature(f"__kernel void {name}", [self._declare(p) for p in parameters], "")

    def _declare(self, p: KernelParameter) -> str:
        if not p.pointee:  # a kernel argument cannot be a bool
            return f"{'uchar' if p.dtype.is_bool else self.scalar_type(p.dtype)} {p.name}"
        return f"__global {'const ' * p.constant}{self.storage_type(p.dtype)}*{' restrict' * p.alone} {p.name}"

    def preamble(self, dtypes: frozenset[DType]) -> list[str]:
        if any(dtype.scalar == "float64" for dtype in dtypes):
            return ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable"]
        return []
