"""CUDA source as C++ for the emulator: instructions of PTX become calls, shared arrays register themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHARED = re.compile(r"__shared__ ((?:__align__\(\d+\) )?[\w ]+?) (\w+)\[(\d+)\];")
_DYNAMIC = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?unsigned char (\w+)\[\];")
_KERNEL = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^)]*)\)')
_MMA = re.compile(r"mma\.sync\.aligned\.m(\d+)n8k(\d+)\.row\.col\.(\w+)\.(\w+)\.\4\.\3")
_GROUPED = re.compile(
    r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)\.\4 (\{.*\}, %\d+, %\d+, p)((?:, [01])*);"
)
_SUMS = {"f16": "SUM_F16", "f32": "SUM_F32", "s32": "SUM_S32", "f64": "SUM_F64"}


_PLAIN = {
    "wgmma.fence.sync.aligned": "emulated_wgmma_fence",
    "wgmma.commit_group.sync.aligned": "emulated_wgmma_commit",
    "wgmma.wait_group.sync.aligned": "emulated_wgmma_wait",
    "fence.proxy.async.shared::cta": "emulated_fence_async",
}


def translate(source: str) -> str:
    """The source as C++, with one function `run_NAME` for each kernel."""
    made = _DYNAMIC.sub(r"unsigned char* const \1 = (unsigned char*)emulated_dynamic_shared();", source)
    made = _SHARED.sub(r"static \1 \2[\3]; emulated_shared(\2, sizeof \2);", made)
    entries = "\n".join(_entry(name, parameters) for name, parameters in _KERNEL.findall(source))
    return f'#include "device.hpp"\n\n{"".join(_assembly(made))}\n\n{entries}\n'


def _entry(name: str, parameters: str) -> str:
    """A function that starts a grid, with the addresses of its arguments."""
    kinds = [re.sub(r"__restrict__|\w+$", "", part.strip()).strip() for part in parameters.split(",") if part.strip()]
    given = ", ".join(f"*({kind}*)arguments[{i}]" for i, kind in enumerate(kinds))
    return (
        f"EMULATED void start_{name}(void** arguments) {{ {name}({given}); }}\n"
        f'extern "C" __attribute__((visibility("default"))) int run_{name}(void** arguments, const unsigned* extents, '
        "size_t dynamic_bytes, const size_t* ranges, int range_count, unsigned seed, char* text, size_t size) {\n"
        f"  return emulated_run(start_{name}, arguments, extents, dynamic_bytes, ranges, range_count, seed, text, "
        "size);\n}"
    )


def _assembly(source: str) -> Iterator[str]:
    """The source with each `asm` statement translated."""
    at = 0
    for found in re.finditer(r"\basm(?: volatile)?\(", source):
        end = _closing(source, found.end() - 1)
        sections = _split(source[found.end() : end], ":")
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sections[0]))
        operands = [each for section in sections[1:3] for each in _split(section, ",") if each.strip()]
        yield source[at : found.start()]
        yield _instruction(text.strip(), [each[each.index("(") :].strip() for each in operands])
        at = source.index(";", end) + 1
    yield source[at:]


def _closing(text: str, at: int) -> int:
    """The place of the parenthesis that closes the one at a place."""
    depth, quoted = 0, False
    for i in range(at, len(text)):
        quoted ^= text[i] == '"'
        depth += 0 if quoted else (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and not quoted:
            return i
    raise AssertionError("a parenthesis is not closed")


def _split(text: str, by: str) -> list[str]:
    """The parts between separators that are in no parentheses and not quoted."""
    parts, depth, quoted = [""], 0, False
    for letter in text:
        quoted ^= letter == '"'
        depth += 0 if quoted else (letter in "([{") - (letter in ")]}")
        if letter == by and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _instruction(text: str, operands: list[str]) -> str:
    """One instruction; several of them are a predicate and what it guards, none keeps a compiler from moving loads."""
    if not text:
        return ";"
    guarded = re.fullmatch(r"\{ \.reg \.pred p; setp\.ne\.b32 p, %(\d+), 0; @p (.*) \}", text)
    if guarded:
        return f"if ({operands[int(guarded[1])]}) {{ {_instruction(guarded[2], operands)} }}"
    grouped = _GROUPED.search(text)
    if grouped:
        return _warpgroup(grouped, operands)
    opcode, _, rest = text.rstrip(";").partition(" ")
    given = [_operand(part.strip(), operands) for part in _split(rest, ",")] if "{ .reg" not in text else []
    made = (
        _copy(opcode, given)
        or _load(opcode, rest, operands)
        or _matrix(opcode, rest, operands)
        or _number(opcode, given)
    )
    return made or f'fail("no emulation of %s", "{text}");'


def _operand(part: str, operands: list[str]) -> str:
    return re.sub(r"%(\d+)", lambda found: operands[int(found[1])], part.strip("[] "))


def _load(opcode: str, rest: str, operands: list[str]) -> str:
    found = re.fullmatch(r"ld\.global\.nc(?:\.v(\d))?\.b32", opcode)
    if not found:
        return ""
    words = re.findall(r"%\d+", rest.partition("[")[0])
    assert len(words) == int(found[1] or 1)
    at = _operand(rest.rpartition("[")[2].rstrip("]"), operands)
    return " ".join(f"{_operand(word, operands)} = ((const unsigned*){at})[{i}];" for i, word in enumerate(words))


def _copy(opcode: str, given: list[str]) -> str:
    if opcode in _PLAIN:
        return f"{_PLAIN[opcode]}({', '.join(given)});"
    if opcode == "cp.async.commit_group":
        return "emulated_commit();"
    if opcode == "cp.async.wait_group":
        return f"emulated_wait({given[0]});"
    if opcode in ("cp.async.ca.shared.global", "cp.async.cg.shared.global"):
        to, at, size, *taken = given
        assert size in (("16",) if ".cg." in opcode else ("4", "8", "16")), f"{opcode} of {size} bytes"
        where, _, by = at.partition(" + ")
        place = f"(const char*){where} + {by or 0}"
        return f"emulated_copy((size_t)({to}), {place}, {size}, {taken[0] if taken else size});"
    return ""


def _matrix(opcode: str, rest: str, operands: list[str]) -> str:
    groups = [[_operand(each, operands) for each in _split(group, ",")] for group in re.findall(r"\{([^}]*)\}", rest)]
    loaded = re.fullmatch(r"ldmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.shared\.b16", opcode)
    if loaded:
        words = ", ".join(f"&{word}" for word in groups[0])
        at = _operand(rest.rpartition("[")[2].rstrip("]"), operands)
        transposed = "true" if loaded[2] else "false"
        return f"{{ unsigned* words_[] = {{{words}}}; emulated_ldmatrix({loaded[1]}, {transposed}, words_, {at}); }}"
    stored = re.fullmatch(r"stmatrix\.sync\.aligned\.m8n8\.x(\d)(\.trans)?\.shared\.b16", opcode)
    if stored:
        at = _operand(rest.partition("]")[0], operands)
        transposed = "true" if stored[2] else "false"
        return (
            f"{{ unsigned words_[] = {{{', '.join(groups[0])}}}; "
            f"emulated_stmatrix({stored[1]}, {transposed}, words_, {at}); }}"
        )
    found = _MMA.fullmatch(opcode)
    if not found:
        return ""
    sums, a, b, before = groups
    assert before == sums, "sums are added to others"
    raw = ["{" + ", ".join(f"emulated_raw({x})" for x in words) + "}" for words in (a, b)]
    places = ", ".join(f"(void*)&{x}" for x in sums)
    return (
        f"{{ Product product_ = {{{found[1]}, {found[2]}, {len(a)}, {len(b)}, {found[4].upper()}, {_SUMS[found[3]]}, "
        f"{{{places}}}, {raw[0]}, {raw[1]}}}; emulated_mma(&product_); }}"
    )


def _warpgroup(found: re.Match[str], operands: list[str]) -> str:
    """A product of a warpgroup: its sums, its two matrices, and the rest of the operands as they must be."""
    columns, terms, sums, kind = found[1], found[2], found[3], found[4]
    held, a, b, rest = _split(found[5], ",")
    assert rest.strip() == "p"
    assert found[6] in ("", ", 1, 1", ", 1, 1, 0, 0", ", 1, 1, 0, 1")
    turned = str(found[6].endswith("0, 1")).lower()
    words = [_operand(each, operands) for each in _split(held.strip(" {}"), ",")]
    places = ", ".join(f"(void*)&{word}" for word in words)
    given = ", ".join(_operand(each, operands) for each in (a, b))
    what = f"{columns}, {terms}, {kind.upper()}, {_SUMS[sums]}, {given}, {turned}"
    return f"{{ emulated_wgmma({{{what}, {{{places}}}}}); }}"


def _number(opcode: str, given: list[str]) -> str:
    halves = {"f16": "emulated_half_bits({})", "bf16": "emulated_bfloat_bits({}, false)"}
    match opcode.split("."):
        case ["cvt", "f32", "f16"]:
            value = f"emulated_half({given[1]})"
        case ["cvt", "rn", ("f16" | "bf16") as kind, "f32"]:
            value = halves[kind].format(given[1])
        case ["cvt", ("rn" | "rz") as way, ("f16x2" | "bf16x2") as kind, "f32"]:
            each = halves[kind[:-2]].replace("false", "true" if way == "rz" else "false")
            value = f"emulated_pair({each.format(given[2])}, {each.format(given[1])})"
        case ["ex2", "approx", "ftz", "f32"]:
            value = f"exp2f({given[1]})"
        case ["rcp", "approx", "ftz", "f32"]:
            value = f"1.0f / ({given[1]})"
        case [("min" | "max") as name, "NaN", "f32"]:
            value = f"emulated_extreme({given[1]}, {given[2]}, {'true' if name == 'max' else 'false'})"
        case ["dp4a", ("s32" | "u32") as kind, _]:
            byte = "signed char" if kind == "s32" else "unsigned char"
            value = f"emulated_dp4a<{byte}>({', '.join(given[1:])})"
        case _:
            return ""
    return f"{given[0]} = {value};"
