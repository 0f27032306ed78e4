"""The helper functions of instructions of a warpgroup in CUDA: products, and the begin and end of a group of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..core.atoms import Atom
from ..core.dtype import DType
from ..core.hardware import SWIZZLE_LINE

GROUP = 8 * SWIZZLE_LINE
"""The bytes of eight rows, from each such group to the next."""

_MATRIX = f"""unsigned long long wgmma_matrix(const void* p) {{
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(p);
  return 0x4000000000000000ull | {GROUP >> 4}ull << 32 | at >> 4 & 0x3fff;
}}"""
"""A matrix in shared memory: its address and the distance of groups of eight rows, in units of 16 bytes, and their
swizzle."""

_TURNED = f"""unsigned long long wgmma_turned(const void* p, const unsigned int apart) {{
  const unsigned int at = (unsigned int)__cvta_generic_to_shared(p);
  return 0x4000000000000000ull | {GROUP >> 4}ull << 32 | (unsigned long long)(apart >> 4) << 16 | at >> 4 & 0x3fff;
}}"""
"""A matrix with lines of 64 columns each: groups of eight terms, and `apart` bytes on the next 64 columns."""

WARPGROUP_HELPERS: Mapping[str, str] = {
    "wgmma_matrix": _MATRIX,
    "wgmma_turned": _TURNED,
    "fence_async": 'void fence_async() {\n  asm volatile("fence.proxy.async.shared::cta;" : : : "memory");\n}',
}


def spelling(atom: Atom, columns: int) -> str:
    """The instruction for `columns` columns, in PTX."""
    return atom.instruction.replace("nN", f"n{columns}")


def operand_bytes(atom: Atom) -> int:
    """The bytes of an element of an operand."""
    return DType(atom.operands).bytes


def registers(atom: Atom, columns: int) -> int:
    """The registers of 32 bits that hold a lane's sums of `columns` columns."""
    return columns // 4 if atom.accumulator == "float16" else columns // 2


def _sums(atom: Atom, columns: int) -> tuple[str, str, str]:
    """The type of the sums, a word of them as an operand, and its declaration."""
    count = registers(atom, columns)
    letter, kind = {"float32": ("f", "float"), "int32": ("r", "int"), "float16": ("r", "unsigned short")}[
        atom.accumulator
    ]
    half = atom.accumulator == "float16"
    word = "words" if half else "d"
    lines = []
    for first in range(0, count, 8):
        lines.append(", ".join(f'"+{letter}"({word}[{i}])' for i in range(first, min(first + 8, count))))
    declared = "  unsigned int* words = (unsigned int*)d;\n" if half else ""
    return kind, ",\n        ".join(lines), declared


@cache
def product(atom: Atom, columns: int, turned: bool = False) -> tuple[str, str]:
    """The name and the text of the function that adds a product of matrices to sums; the right one may be turned."""
    kind, sums, declared = _sums(atom, columns)
    count = registers(atom, columns)
    held = ", ".join(f"%{i}" for i in range(count))
    scales = {"float16": ", 1, 1, 0, 0", "bfloat16": ", 1, 1, 0, 0", "float32": ", 1, 1"}.get(atom.operands, "")
    name = f"{atom.name}_{columns}"
    if turned:
        scales, name = ", 1, 1, 0, 1", f"{name}_turned"
    return name, (
        f"void {name}({kind}* d, unsigned long long a, unsigned long long b) {{\n{declared}"
        '  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0; "\n'
        f'      "{spelling(atom, columns)} {{{held}}}, %{count}, %{count + 1}, p{scales}; }}"\n'
        f'      : {sums}\n      : "l"(a), "l"(b) : "memory");\n}}'
    )


@cache
def edge(atom: Atom, columns: int, ends: bool) -> tuple[str, str]:
    """The name and the text of the function that begins a group of products, or ends it and waits for the sums.

    It takes the sums, so that no access to them moves into the group.
    """
    kind, sums, declared = _sums(atom, columns)
    name = f"wgmma_{'end' if ends else 'begin'}_{atom.accumulator}_{columns}"
    text = "wgmma.wait_group.sync.aligned 0;" if ends else "wgmma.fence.sync.aligned;"
    return name, f'void {name}({kind}* d) {{\n{declared}  asm volatile("{text}"\n      : {sums} : : "memory");\n}}'
