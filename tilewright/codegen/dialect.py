"""The differences between C-like languages: types, qualifiers, literals, intrinsics, vectors.

A `Dialect` holds data and a few one-line spellings; how a kernel is written down is in `c_family.py`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.dtype import FLOAT32, DType
from ..core.errors import InternalError
from ..core.hardware import MemoryScope, ThreadTag

C_WORDS = frozenset(
    "auto bool break case char class const constexpr continue default delete do double else enum explicit "
    "extern false float for friend goto half if inline int long mutable namespace new operator private "
    "protected public register restrict return short signed sizeof static struct switch template this "
    "throw true try typedef typename union unsigned using virtual void volatile while min max abs NULL "
    "NAN INFINITY MAXFLOAT alignas alignof and and_eq asm bitand bitor char8_t char16_t char32_t compl concept "
    "consteval constinit const_cast co_await co_return co_yield decltype dynamic_cast export mutable noexcept not "
    "not_eq nullptr or or_eq reinterpret_cast requires signbit size_t static_assert static_cast thread_local typeid "
    "typeof wchar_t xor xor_eq ptrdiff_t intptr_t uintptr_t linux unix i386 defined printf assert".split()
)
OWNED = (
    r"[A-Z][A-Z0-9]*_[A-Z0-9_x]*|CLK_\w*",  # macros: CHAR_BIT, M_PI, CLK_LOCAL_MEM_FENCE
    r"(?:min|max|(?:safe)?(?:floor)?(?:div|mod)|floordiv|floormod)_(?:u?int|b?float)\d+",  # our helpers
    r"b?float\d+_(?:bits|value|round|odd|to_u?int\d+)",
)
"""Families of names that a C-like source may define or call, as regular expressions."""


MATH = (
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt tanh sin cos tan asin acos atan sinh cosh asinh acosh "
    "atanh erf floor ceil trunc round pow fmod atan2 hypot copysign nextafter ldexp fabs"
).split()
"""Functions that every dialect has under these names."""


@dataclass(frozen=True)
class KernelParameter:
    """One kernel parameter as it is declared; `pointee` says that it points to elements of `dtype`.

    `alone` says that nothing else points there; compilers may rely on it.
    """

    name: str
    dtype: DType
    pointee: bool
    constant: bool
    alone: bool = True


class Dialect(ABC):
    """A C-like kernel language."""

    name: ClassVar[str]
    types: ClassVar[Mapping[str, str]]
    literal_suffixes: ClassVar[Mapping[str, str]]
    reserved: ClassVar[frozenset[str]]
    """Words that no variable or kernel can be called."""
    owned: ClassVar[re.Pattern[str]]
    """Families of such words."""
    helper_prefix: ClassVar[str]
    """The qualifiers before a helper function's return type."""
    helpers: ClassVar[Mapping[str, str]]
    """Bodies of helper functions that differ from language to language, by name."""
    overloads: ClassVar[bool] = False
    """Whether functions of integers are overloaded, so that the argument's type chooses one."""
    has_matrix_instructions: ClassVar[bool] = False
    """Whether `matrix.py` writes matrix instructions in this language; without it, their loops run."""
    has_threads: ClassVar[bool] = True
    """Whether kernels run on a grid of threads with local memory."""
    branches_end_with_barriers: ClassVar[bool] = False
    """Whether a branch in which threads wait needs a barrier as its last statement."""
    intrinsics: ClassVar[Mapping[str, str]]
    """Function names by `name` or `name:dtype`; a `{0}` in one makes it a template over the arguments."""

    def scalar_type(self, dtype: DType) -> str:
        """The type of a value of one lane; a 16-bit float is held in a `float`, rounded."""
        found = self.types.get(FLOAT32 if is_half(dtype) else dtype.scalar)
        if found is None:
            raise InternalError(f"{self.name} has no values of type {dtype.scalar}")
        return found

    def storage_type(self, dtype: DType) -> str:
        """The type of an element in memory: a boolean takes one byte, a 16-bit float its bits."""
        return self.scalar_type(storage_dtype(dtype))

    def aliasing_type(self, dtype: DType) -> str:
        """`storage_type` for accesses to memory that others access as elements of other types."""
        return self.storage_type(dtype)

    def integer(self, value: int, dtype: DType) -> str:
        """A literal of an integer type or of bool."""
        if dtype.is_bool:
            return "true" if value else "false"
        if dtype == "int32":
            return str(value) if value > dtype.min_value else "(-2147483647 - 1)"
        suffix = self.literal_suffixes.get(dtype)
        if suffix is None:
            return f"({self.scalar_type(dtype)}){value}" if value >= 0 else f"({self.scalar_type(dtype)})({value})"
        if dtype == "int64" and value == dtype.min_value:
            return f"(-{-value - 1}{suffix} - 1)"
        return f"{value}{suffix}"

    def floating(self, value: float, dtype: DType) -> str:
        """A literal of a floating-point type: the shortest decimal that reads back as the same number."""
        self.scalar_type(dtype)
        if not math.isfinite(value):
            return self.not_finite(value, dtype)
        single = dtype.bits != 64
        text = str(np.float32(value)) if single else repr(float(value))
        return text + "f" if single else text

    @abstractmethod
    def not_finite(self, value: float, dtype: DType) -> str:
        """Infinity or not-a-number."""

    def vector_widths(self, dtype: DType) -> Sequence[int]:
        """The vector lengths of one access, widest first; a dialect without vectors has none."""
        return ()

    def vector_type(self, dtype: DType, lanes: int) -> str:
        """The vector of `lanes` elements (which `vector_widths` allows)."""
        raise self._no_vectors()

    def vector_value(self, dtype: DType, parts: Sequence[str]) -> str:
        """A vector made of scalars."""
        raise self._no_vectors()

    def vector_zeros(self, dtype: DType, lanes: int) -> str:
        """A vector of zeros."""
        raise self._no_vectors()

    def lane(self, vector: str, lane: int, dtype: DType, lanes: int) -> str:
        """An element, in its form in memory, of a vector variable with `lanes` lanes."""
        raise self._no_vectors()

    def vector_load(self, pointer: str, dtype: DType, lanes: int, space: str) -> str:
        """The vector that starts at `pointer`."""
        raise self._no_vectors()

    def vector_store(self, pointer: str, dtype: DType, lanes: int, space: str, value: str) -> str:
        """The statement that writes a vector at `pointer`."""
        raise self._no_vectors()

    def vector_needs_alignment(self) -> bool:
        """Whether a vector access must be aligned to the vector's size."""
        return False

    @abstractmethod
    def bits(self, dtype: DType, text: str) -> str:
        """The bits of a float of 32 or 64 bits as a signed integer, or the bits of such an integer as a float."""

    def rounding_to_odd(self, name: str) -> str:
        """A function: a float64 as a float32 that rounds on to a float16 as the float64 itself would.

        Of the two neighbours of an inexact value, it is the one with a set last bit. So the second rounding sees no
        false tie (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
        """
        kind, wide, word = (self.scalar_type(DType(name)) for name in ("float32", "float64", "int32"))
        bits, back = self.bits(FLOAT32, "near"), self.bits(DType("int32"), "word")
        return (
            f"{kind} {name}({wide} x) {{\n  const {kind} near = ({kind})x;\n  {word} word = {bits};\n"
            f"  if (({wide})near != x && x == x && !(word & 1)) {{\n"
            f"    word += (x > 0) == (({wide})near < x) ? 1 : -1;\n  }}\n  return {back};\n}}"
        )

    def _no_vectors(self) -> InternalError:
        return InternalError(f"{self.name} has no vectors")

    @abstractmethod
    def space(self, scope: MemoryScope) -> str:
        """The qualifier of a pointer into that memory."""

    @abstractmethod
    def array(self, scope: MemoryScope, dtype: DType, name: str, size: int, align: int) -> str:
        """The declaration of a shared or local array; `align` in bytes, 0 for the element's own."""

    @abstractmethod
    def barrier(self, scope: MemoryScope) -> str:
        """The statement at which all threads of a block wait."""

    def copy(self, size: int, guarded: bool, conditional: bool) -> str:
        """The helper function of an asynchronous copy of `size` bytes.

        A guarded one may bring zeros instead; a conditional one is made only if its first argument holds.
        """
        raise InternalError(f"{self.name} has no asynchronous copies")

    @abstractmethod
    def atomic(self, name: str, dtype: DType, scope: MemoryScope) -> str | None:
        """Return a template (address, value) that updates an element atomically, or a helper, or None."""

    def commit(self) -> str:
        """The statement that makes the copies issued since the last one a group."""
        raise InternalError(f"{self.name} has no asynchronous copies")

    def await_groups(self, pending: int) -> str:
        """The statement that waits for all but the latest groups of copies."""
        raise InternalError(f"{self.name} has no asynchronous copies")

    @abstractmethod
    def thread_index(self, tag: ThreadTag) -> str:
        """The expression of a hardware thread index."""

    @abstractmethod
    def header(self, name: str, parameters: Sequence[KernelParameter], threads: int | None, resident: int = 0) -> str:
        """The kernel's signature, up to its opening brace; `resident` blocks should fit a multiprocessor."""

    @abstractmethod
    def preamble(self, dtypes: frozenset[DType]) -> list[str]:
        """Return the lines at the top of a source that uses those types."""

    def intrinsic(self, name: str, dtype: DType, args: Sequence[str]) -> str | None:
        """Return the call of an intrinsic with a first argument of type `dtype`; None if there is none."""
        scalar = FLOAT32 if is_half(dtype) else dtype.scalar
        found = self.intrinsics.get(f"{name}:{scalar}") or self.intrinsics.get(f"{name}:{scalar.kind}")
        found = found or self.intrinsics.get(name)
        if found is None:
            return None
        return found.format(*args) if "{0}" in found else f"{found}({', '.join(args)})"


class PlainC(Dialect):
    """Spellings that C and OpenCL C share, unlike CUDA C++ without headers."""

    helper_prefix: ClassVar[str] = "static inline"

    def not_finite(self, value: float, dtype: DType) -> str:
        text = "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
        return text if dtype.bits != 64 else f"((double){text})"


def is_half(dtype: DType) -> bool:
    """Whether values are 16-bit floats: kept as such in memory, computed in float and rounded."""
    return dtype.is_float and dtype.bits == 16


def storage_dtype(dtype: DType) -> DType:
    """The integer type that keeps a boolean or a 16-bit float in memory; other types keep themselves."""
    return DType("uint8") if dtype.is_bool else DType("uint16") if is_half(dtype) else dtype.scalar


def signature(first: str, parameters: Sequence[str], last: str) -> str:
    """Return a declaration on one line; if it is too long, one parameter per line."""
    line = f"{first}({', '.join(parameters)}){last}"
    if len(line) <= 120:
        return line
    return f"{first}(\n    " + ",\n    ".join(parameters) + f"\n){last}"
