"""The helper functions of matrix instructions in CUDA: products of fragments, loads of them, conversions."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.atoms import Atom

SINGLE: Mapping[str, str] = {"3xtf32": "tf32", "3xtf32_one": "tf32", "bf16x6": "bfloat16"}
"""For an atom of several products, the atom with the instruction of a single product."""

_UP = "1.00032552f"
"""1 + 2**-10 / 3. Tensor cores ignore the bits of a float32 beyond the 11 significant ones of tf32, so they round
towards zero. This factor first moves numbers away from zero, on average by half a unit of the last of those bits. So
high parts are as often too large as too small. Numbers of at most 11 bits are unchanged."""


def _product(atom: Atom) -> str:
    """The function that adds a product of fragments to sums; two sums of 16 bits are a register."""
    letter, kind = {"float32": ("f", "float"), "int32": ("r", "int"), "float64": ("d", "double")}.get(
        atom.accumulator, ("r", "unsigned short")
    )
    half = atom.accumulator == "float16"
    word, register = ("double", "d") if atom.word == 8 else ("unsigned int", "r")
    sums, left, right = 2 * atom.halves // (1 + half), atom.halves * atom.words, atom.words
    numbers = iter(range(sums + left + right))
    groups = ["{" + ", ".join(f"%{next(numbers)}" for _ in range(count)) + "}" for count in (sums, left, right)]
    out = ", ".join(f'"+{letter}"({"words" if half else "d"}[{i}])' for i in range(sums))
    into = ", ".join(f'"{register}"({x}[{i}])' for x, count in (("a", left), ("b", right)) for i in range(count))
    words = "  unsigned int* words = (unsigned int*)d;\n" * half
    return (
        f"void mma_{atom.name}({kind}* d, const {word}* a, const {word}* b) {{\n{words}"
        f'  asm volatile("{atom.instruction} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};"\n'
        f"      : {out}\n      : {into});\n}}"
    )


def _split_products() -> dict[str, str]:
    """Several products of parts of operands, and their addition to sums in float32.

    Tensor cores truncate their sums, so a few terms are summed by themselves and then added. The products with a low
    part count only if their sum is finite. An infinite operand times a low part may be NaN, or infinite with the wrong
    sign. The product of the high parts has the right value.

    Truncation reduces sums by a `loss` that is known on average, so the code adds it back. Without low parts it does
    not: the products of short operands have short sums, which are exact.
    """
    words = "const unsigned int*"
    made = {
        "mma_3xtf32": f"void mma_3xtf32(float* high, float* low, {words} a_high, {words} a_low,\n"
        f"                {words} b_high, {words} b_low) {{\n"
        "  mma_tf32(low, a_low, b_high);\n  mma_tf32(low, a_high, b_low);\n  mma_tf32(high, a_high, b_high);\n}",
        "mma_bf16x6": f"void mma_bf16x6(float* high, float* low, {words} a_high, {words} a_middle,\n"
        f"                {words} a_low, {words} b_high, {words} b_middle, {words} b_low) {{\n"
        "  mma_bfloat16(low, a_low, b_high);\n  mma_bfloat16(low, a_high, b_low);\n"
        "  mma_bfloat16(low, a_middle, b_middle);\n  mma_bfloat16(low, a_middle, b_high);\n"
        "  mma_bfloat16(low, a_high, b_middle);\n  mma_bfloat16(high, a_high, b_high);\n}",
    }
    made["mma_3xtf32_one"] = (
        f"void mma_3xtf32_one(float* sums, {words} a_high, {words} a_low, {words} b_high, {words} b_low) {{\n"
        "  mma_tf32(sums, a_low, b_high);\n  mma_tf32(sums, a_high, b_low);\n  mma_tf32(sums, a_high, b_high);\n}"
    )
    made["promote"] = (
        "void promote(float* d, float* sums) {\n  #pragma unroll\n"
        "  for (int i = 0; i < 4; ++i) {\n    d[i] += sums[i];\n    sums[i] = 0.0f;\n  }\n}"
    )
    made["add_low"] = (
        "void add_low(float* d, const float* low, float loss) {\n  #pragma unroll\n  for (int i = 0; i < 4; ++i) {\n"
        "    const float lost = loss > 0.0f ? d[i] * loss : 0.0f;\n"
        "    d[i] += low[i] != 0.0f && isfinite(low[i]) ? lost + low[i] : 0.0f;\n  }\n}"
    )
    return made


def _bf16_split() -> str:
    """Split two float32 exactly into three bfloat16 each.

    The high part is truncated, so that no number overflows to infinity; the two others are rounded.
    """
    lines = ["  float a = __int_as_float((int)x), b = __int_as_float((int)y);"]
    for part, way in (("high", "rz"), ("middle", "rn"), ("low", "rn")):
        lines.append(f'  asm("cvt.{way}.bf16x2.f32 %0, %1, %2;" : "=r"({part}) : "f"(b), "f"(a));')
        if part != "low":
            lines.append(f"  a -= __int_as_float((int)({part} << 16));")
            lines.append(f"  b -= __int_as_float((int)({part} & 0xffff0000u));")
    out = "unsigned int& high, unsigned int& middle, unsigned int& low"
    return f"void bf16_split(unsigned int x, unsigned int y, {out}) {{\n" + "\n".join(lines) + "\n}"


def _ldmatrix(count: int, transposed: bool) -> str:
    suffix, trans = ("_trans", ".trans") if transposed else ("", "")
    registers = ", ".join(f"%{i}" for i in range(count))
    out = ", ".join(f'"=r"(words[{i}])' for i in range(count))
    return (
        f"void ldmatrix_x{count}{suffix}(unsigned int* words, unsigned int at) {{\n"
        f'  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%{count}];"\n'
        f'               : {out} : "r"(at) : "memory");\n}}'
    )


def matrix_helpers(atoms: Mapping[str, Atom]) -> dict[str, str]:
    """The helper functions of matrix instructions, by name."""
    made = {f"mma_{name}": _product(atom) for name, atom in atoms.items() if atom.products == 1}
    made |= _split_products()
    for count in (2, 4):
        for suffix, transposed in (("", False), ("_trans", True)):
            made[f"ldmatrix_x{count}{suffix}"] = _ldmatrix(count, transposed)
    for count, bits in ((2, 16), (4, 8)):
        parts = [f"x{i}" for i in range(count)]
        value = " | ".join(f"{x} << {bits * i}" if i else x for i, x in enumerate(parts))
        given = ", ".join(f"unsigned int {x}" for x in parts)
        made[f"word_of_{count}"] = f"unsigned int word_of_{count}({given}) {{\n  return {value};\n}}"
    made["shared_address"] = (
        "unsigned int shared_address(const void* p) {\n  return (unsigned int)__cvta_generic_to_shared(p);\n}"
    )
    # Adds half a unit of the last bit of tf32 to the magnitude. As the tensor core then cuts, the result is rounded.
    # A sum of integers would do for numbers; with two float instructions, infinities and NaN stay, too.
    made["tf32_round"] = (
        "unsigned int tf32_round(unsigned int word) {\n"
        "  const float power = __int_as_float((int)(word & 0xff800000u));\n"
        "  return (unsigned int)__float_as_int(__fmaf_rn(power, 4.8828125e-4f, __int_as_float((int)word)));\n}"
    )
    for bits in range(7, 16):  # `swizzle_storage` exchanges pieces of 16 bytes
        name = f"swizzled_{1 << bits}"
        made[name] = f"unsigned int {name}(unsigned int at) {{\n  return at ^ (at >> {bits - 4} & 0x70);\n}}"
    made["bf16_split"] = _bf16_split()
    made["tf32_split"] = (
        "void tf32_split(unsigned int word, unsigned int& high, unsigned int& low) {\n"
        "  const float x = __int_as_float((int)word);\n"
        f"  high = (unsigned int)__float_as_int(x * {_UP}) & 0xffffe000u;\n"
        "  low = (unsigned int)__float_as_int(x - __int_as_float((int)high));\n}"
    )
    return made
