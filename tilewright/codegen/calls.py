"""Calls in a C-like language: of its functions, of functions that it does not know, and of atomics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.hardware import MemoryScope
from ..expr import nodes as n
from ..expr.effects import ATOMICS, EXTERN, LLVM, PURE_EXTERN, PURE_LLVM
from ..loops.calls import FOREIGN, called_function, refuse_packed
from ..loops.storage import AddressOf
from .dialect import Dialect
from .vectors import lane_of


class CallWriter(Protocol):
    """The interface of the expression writer that calls use."""

    dialect: Dialect
    dtypes: set[DType]

    vector: Callable[[n.Expr], str]

    def write(self, e: n.Expr, at_least: int = 0) -> str: ...
    def helper(self, name: str) -> str: ...


OUTSIDE = frozenset((*FOREIGN, *ATOMICS))
"""The calls that this file writes."""


def vector_argument(vectors: Any, e: n.Expr) -> str:
    """A vector as an argument: four bytes are a word, as instructions on packed bytes take them; others are vectors.

    `vectors` writes the vector accesses of the kernel.
    """
    dtype, lanes = e.dtype.scalar, e.dtype.lanes
    dialect: Dialect = vectors.by.dialect
    if dtype.bits == 8 and lanes == 4 and dialect.name == "cuda":
        kind = "unsigned int" if dtype.kind == "uint" else "int"
        if isinstance(e, n.Load) and vectors.width(e.source, vectors.index(e)) == lanes:
            loaded: str = vectors.load(e, 0, lanes)
            return loaded.replace(f"{dialect.vector_type(dtype, lanes)}*)", f"{kind}*)", 1)
        parts = [f"(unsigned int)({vectors.by.expr.write(lane_of(e, i, {}))} & 0xff)" for i in range(lanes)]
        shifted = " | ".join(f"{part} << {8 * i}" if i else part for i, part in enumerate(parts))
        return f"({kind})({shifted})"
    if lanes not in dialect.vector_widths(dtype):
        raise UserError(
            f"`{e}`, a vector of {lanes} {dtype}, is an argument of a function, and {dialect.name} has no such vectors",
            primitive="call_extern",
            fix=f"give vectors of {', '.join(map(str, dialect.vector_widths(dtype)))} elements, or an address",
        )
    text: str = vectors.value(e, 0, lanes, dtype, {})
    return text


def write_call(writer: CallWriter, e: n.Call) -> str:
    """The text of a call."""
    refuse_packed(e)
    writer.dtypes.add(e.dtype)
    if e.name in (EXTERN, PURE_EXTERN):
        args = [writer.vector(arg) if arg.dtype.lanes > 1 else writer.write(arg) for arg in e.args[1:]]
        return f"{called_function(e)}({', '.join(args)})"
    if e.name in (LLVM, PURE_LLVM):
        raise UserError(
            f"`{e}` calls an intrinsic of LLVM, but is compiled for {writer.dialect.name}",
            primitive=e.name,
            fix='build for "llvm", or call a function of that language: call_pure_extern("float32", "name", x)',
        )
    address, value = e.args
    assert isinstance(address, AddressOf)
    element, scope = address.buffer.dtype, address.buffer.scope
    if scope is MemoryScope.LOCAL and writer.dialect.has_threads:
        raise UserError(
            f"{e.name} of {address.buffer.name!r} in local memory, but each thread has its own local memory",
            primitive="call_intrin",
            fix="load and store it: no other thread sees it; or keep common data in shared or global memory",
        )
    name = writer.dialect.atomic(e.name, element, scope)
    if name is None:
        raise UserError(
            f"{e.name} of {element} in {scope.value} memory, which {writer.dialect.name} does not have",
            primitive="call_intrin",
            fix="keep the updated elements as int32, or build for another target",
        )
    place, new = writer.write(address), writer.write(value)
    return name.format(place, new) if "{0}" in name else f"{writer.helper(name)}({place}, {new})"
