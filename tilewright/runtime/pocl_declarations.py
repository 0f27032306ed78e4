"""Declarations of the built-in functions that an OpenCL program calls, for PoCL's compiler.

PoCL puts Clang's header of all built-in functions before every program. It preprocesses these 18,000 lines at each
build, and parses them at each build that its cache does not know. Generated code calls a handful of them. With these
declared here and the header left out, a build of a small kernel takes a seventh of the processor time.

Each name is declared as the header declares it, for every type that it has there, so that no call can mean something
else. A program that calls any other function, computes in `half`, or uses the preprocessor's feature tests gets the
header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

WITHOUT_HEADER = "-D_OPENCL_H_\t-fno-caret-diagnostics"
"""Options that leave out Clang's header, but not the header of base types. If a program does not build without the
header, it is built again with the header. So the second option keeps Clang from printing the number of errors. PoCL
does not know the second option. It splits options at spaces only, and Clang splits them at tabs, too."""

_CONST, _PURE, _CONVERGENT, _ACTS = "const", "pure", "convergent", ""
_LANES = ("", "2", "3", "4", "8", "16")
_FLOATS = ("float", "double")
_INTS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
_SPACES = ("__constant", "__global", "__local", "__private")
_ATOMIC = ("int", "unsigned int")

# A form is a result and parameters. `T` is each type at each number of lanes, `S` the type of a lane of a vector `V`,
# and `I` int at the same number of lanes.
_FORMS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "acos acosh asin asinh atan atanh ceil cos cosh erf exp exp10 exp2 fabs floor log log10 log1p log2 rint round "
    "rsqrt sin sinh sqrt tan tanh trunc": (_CONST, _FLOATS, ("T (T)",)),
    "atan2 copysign fmod hypot nextafter pow": (_CONST, _FLOATS, ("T (T, T)",)),
    "ldexp": (_CONST, _FLOATS, ("T (T, I)", "V (V, int)")),
    "max min": (_CONST, (*_FLOATS, *_INTS), ("T (T, T)", "V (V, S)")),
    "clz popcount": (_CONST, _INTS, ("T (T)",)),
}
_FIXED: dict[str, tuple[str, tuple[str, ...]]] = {
    "get_global_id get_global_size get_group_id get_local_id get_local_size get_num_groups": (
        _CONST,
        ("size_t (uint)",),
    ),
    "barrier": (_CONVERGENT, ("void (cl_mem_fence_flags)",)),
    "vload_half": (_PURE, tuple(f"float (size_t, const {space} half*)" for space in _SPACES)),
    "vstore_half_rte": (
        _ACTS,
        tuple(f"void ({kind}, size_t, {space} half*)" for kind in _FLOATS for space in _SPACES[1:]),
    ),
    "atomic_add atomic_and atomic_max atomic_min atomic_or atomic_sub atomic_xor": (
        _ACTS,
        tuple(f"{k} (volatile {space} {k}*, {k})" for k in _ATOMIC for space in ("__global", "__local")),
    ),
    "atomic_xchg": (
        _ACTS,
        tuple(f"{k} (volatile {space} {k}*, {k})" for k in (*_ATOMIC, "float") for space in ("__global", "__local")),
    ),
    "atomic_cmpxchg": (
        _ACTS,
        tuple(f"{k} (volatile {space} {k}*, {k}, {k})" for k in _ATOMIC for space in ("__global", "__local")),
    ),
}
# Words before a parenthesis that call nothing, and macros of the header that stays.
_NO_CALLS = re.compile(
    r"if|for|while|switch|return|sizeof|aligned|may_alias|__attribute__|reqd_work_group_size|"
    r"as_(?:u?(?:char|short|int|long)|float|double)(?:2|3|4|8|16)?"
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_DEFINED = re.compile(r"^\w[\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
_ASKS = re.compile(
    r"^[ \t]*#(?![ \t]*pragma (?:unroll|OPENCL EXTENSION cl_khr_fp64 : enable))|\bhalf(?!\*|\w)|\bhalf\d", re.M
)


def declarations(source: str) -> str | None:
    """Return the declarations that replace the header for a program; None if the program needs the header.

    Parameters
    ----------
    source : str
        A program in OpenCL C 1.2.
    """
    if _ASKS.search(source):
        return None
    own = {*_DEFINED.findall(source)}
    called = sorted({name for name in _CALLED.findall(source) if name not in own and not _NO_CALLS.fullmatch(name)})
    doubles = "double" in source
    lines: list[str] = []
    for name in called:
        found = [line for line in _declare(name) if doubles or "double" not in line]
        if not found:
            return None
        lines += found
    return "".join(f"{line}\n" for line in lines)


def _declare(name: str) -> Iterator[str]:
    """Yield all declarations of a function; none if the table lacks it."""
    attribute, forms = _table().get(name, ("", ()))
    marks = f"overloadable, {attribute}" if attribute else "overloadable"
    for form in forms:
        result, _, parameters = form.partition(" (")
        yield f"{result} __attribute__(({marks})) {name}({parameters};"


@cache
def _table() -> dict[str, tuple[str, Sequence[str]]]:
    """Each function's attribute and all of its forms."""
    table: dict[str, tuple[str, Sequence[str]]] = {}
    for names, fixed in _FIXED.items():
        table.update(dict.fromkeys(names.split(), fixed))
    for names, (mark, kinds, forms) in _FORMS.items():
        made = [_of(form, kind, n) for form in forms for kind in kinds for n in _LANES if n or "V" not in form]
        table.update(dict.fromkeys(names.split(), (mark, made)))
    answers = zip(_FLOATS, ("int", "long"), strict=True)  # a test of one lane gives an int
    tests = [f"{answer if n else 'int'}{n} ({kind}{n})" for kind, answer in answers for n in _LANES]
    table.update(dict.fromkeys(("isfinite", "isinf", "isnan"), (_CONST, tests)))
    every = (*_FLOATS, *_INTS)
    for n in _LANES[1:]:
        table[f"vload{n}"] = _PURE, [f"{k}{n} (size_t, const {space} {k}*)" for k in every for space in _SPACES]
        table[f"vstore{n}"] = _ACTS, [f"void ({k}{n}, size_t, {space} {k}*)" for k in every for space in _SPACES[1:]]
    return table


def _of(form: str, kind: str, lanes: str) -> str:
    """Fill in a form for a type and a number of lanes."""
    words = {"T": kind + lanes, "V": kind + lanes, "S": kind, "I": f"int{lanes}"}
    return re.sub(r"\b[TVSI]\b", lambda found: words[found[0]], form)
