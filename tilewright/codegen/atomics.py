"""Atomic updates in CUDA and OpenCL C; updates without an instruction are compare-and-exchange loops.

A template is filled with the address and the value. The name of a helper function stands for a call of it.
"""

from __future__ import annotations

_CUDA = {
    "atomic_add": ("atomicAdd", "int32 uint32 uint64 float32 float64"),
    "atomic_sub": ("atomicSub", "int32 uint32"),
    "atomic_min": ("atomicMin", "int32 uint32 int64 uint64"),
    "atomic_max": ("atomicMax", "int32 uint32 int64 uint64"),
    "atomic_and": ("atomicAnd", "int32 uint32 uint64"),
    "atomic_or": ("atomicOr", "int32 uint32 uint64"),
    "atomic_xor": ("atomicXor", "int32 uint32 uint64"),
    "atomic_exchange": ("atomicExch", "int32 uint32 uint64 float32"),
}
_VALUES = {
    "atomic_add": "x + value",
    "atomic_sub": "x - value",
    "atomic_min": "value < x || value != value ? value : x",
    "atomic_max": "value > x || value != value ? value : x",
    "atomic_exchange": "value",
}
_UNSIGNED = "unsigned long long"


def cuda_atomic(name: str, dtype: str) -> str | None:
    """The template of an atomic update of elements in global or shared memory; None if CUDA has none."""
    function, types = _CUDA[name]
    if dtype in types.split():
        return f"{function}({{0}}, {{1}})"
    if dtype == "int64" and name in ("atomic_add", "atomic_and", "atomic_or", "atomic_xor", "atomic_exchange"):
        return f"(long long){function}(({_UNSIGNED}*)({{0}}), ({_UNSIGNED})({{1}}))"
    if name == "atomic_sub" and dtype in ("float32", "float64", "uint64"):
        return "atomicAdd({0}, -({1}))"
    return f"{name}_{dtype}" if f"{name}_{dtype}" in CUDA_HELPERS else None


def opencl_atomic(name: str, dtype: str, space: str) -> str | None:
    """The template of an atomic update of elements in `__global` or `__local` memory; None if OpenCL C has none."""
    if dtype in ("int32", "uint32") or (dtype == "float32" and name == "atomic_exchange"):
        return f"{name.replace('exchange', 'xchg')}({{0}}, {{1}})"
    helper = f"{name}_{dtype}_{space.strip(' _')}"
    return helper if helper in OPENCL_HELPERS else None


def _exchanging(head: str, kind: str, word: str, space: str, value: str, exchange: str, to: str, back: str) -> str:
    """Return a function that retries until no other update interferes; it returns the old value."""
    return (
        f"{kind} {head}({space}{kind}* place, {kind} value) {{\n"
        f"  volatile {space}{word}* const bits = (volatile {space}{word}*)place;\n"
        f"  {word} seen, found = *bits;\n"
        "  do {\n"
        "    seen = found;\n"
        f"    const {kind} x = {to}(seen);\n"
        f"    found = {exchange}(({space}{word}*)bits, seen, {back}({value}));\n"
        "  } while (found != seen);\n"
        f"  return {to}(found);\n}}"
    )


def _cuda_helpers() -> dict[str, str]:
    made = {}
    for name in ("atomic_min", "atomic_max", "atomic_exchange"):
        for dtype, kind, word, to, back in (
            ("float32", "float", "int", "__int_as_float", "__float_as_int"),
            ("float64", "double", "unsigned long long", "__longlong_as_double", "__double_as_longlong"),
        ):
            full = f"{name}_{dtype}"
            made[full] = _exchanging(full, kind, word, "", _VALUES[name], "atomicCAS", to, back)
    return made


def _opencl_helpers() -> dict[str, str]:
    made = {}
    for space in ("__global", "__local"):
        for name in ("atomic_add", "atomic_sub", "atomic_min", "atomic_max"):
            full = f"{name}_float32_{space.strip('_')}"
            value = _VALUES[name]
            made[full] = _exchanging(full, "float", "int", f"{space} ", value, "atomic_cmpxchg", "as_float", "as_int")
    return made


CUDA_HELPERS = _cuda_helpers()
OPENCL_HELPERS = _opencl_helpers()
