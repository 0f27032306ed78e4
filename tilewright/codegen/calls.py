"""Calls of functions that a C-like language has, or that it does not know: its own functions, and atomics."""

from __future__ import annotations

from typing import Protocol

from ..core.dtype import DType
from ..core.errors import UserError
from ..expr import nodes as n
from ..loops.calls import ATOMICS, EXTERN, FOREIGN, LLVM, PURE_EXTERN, PURE_LLVM, called_function, refuse_packed
from ..loops.storage import AddressOf
from .dialect import Dialect


class Writer(Protocol):
    """What calls need of the writer of expressions."""

    dialect: Dialect
    dtypes: set[DType]

    def write(self, e: n.Expr, at_least: int = 0) -> str: ...
    def helper(self, name: str) -> str: ...


OUTSIDE = frozenset((*FOREIGN, *ATOMICS))
"""The calls that this file writes."""


def write_call(writer: Writer, e: n.Call) -> str:
    """The text of a call."""
    refuse_packed(e)
    writer.dtypes.add(e.dtype)
    if e.name in (EXTERN, PURE_EXTERN):
        return f"{called_function(e)}({', '.join(writer.write(arg) for arg in e.args[1:])})"
    if e.name in (LLVM, PURE_LLVM):
        raise UserError(
            f"`{e}` calls an intrinsic of LLVM, but is compiled for {writer.dialect.name}",
            primitive=e.name,
            fix='build for "llvm", or call a function of that language: call_pure_extern("float32", "name", x)',
        )
    address, value = e.args
    assert isinstance(address, AddressOf)
    element = address.buffer.dtype
    name = writer.dialect.atomic(e.name, element, address.buffer.scope)
    if name is None:
        raise UserError(
            f"{e.name} of {element} in {address.buffer.scope.value} memory, which {writer.dialect.name} does not have",
            primitive="call_intrin",
            fix="keep what is updated as int32, or build for another target",
        )
    args = writer.write(address), writer.write(value)
    return name.format(*args) if "{0}" in name else f"{writer.helper(name)}({', '.join(args)})"
