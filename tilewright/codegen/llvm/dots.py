"""VNNI: dot products of four bytes for 16 neighbouring sums, as LLVM's intrinsic of `vpdpbusd`.

The rows, columns and words of a tile are written out, sums outermost, so that each sum is loaded and stored once. LLVM
keeps data that several instructions load in registers.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Protocol

from ...arith.simplify import simplify
from ...expr.nodes import Expr, Load, Var
from ...expr.operators import const
from ...expr.traverse import substitute
from ...loops.nodes import Tensorized
from ..dots import DotIndices
from .expr import LLVMExprWriter
from .types import LLVMValue
from .writer import FunctionWriter

MOST_INSTRUCTIONS = 512
"""Instructions that one statement is written out to; of more, the loops run."""
_INTRINSIC = "llvm.x86.avx512.vpdpbusd.512"
_SUMS = "<16 x i32>"


class LLVMDotWriter(Protocol):
    """The interface of the function writer used here."""

    out: FunctionWriter
    expr: LLVMExprWriter


def write_dots(writer: LLVMDotWriter, stmt: Tensorized) -> bool:
    """Write the instructions of a statement; False if their loads or stores are not contiguous in memory."""
    atom = stmt.atom
    indices = DotIndices(stmt, atom.n)
    rows, columns, words = stmt.extents[0], stmt.extents[1] // atom.n, stmt.extents[2] // atom.k
    if rows * columns * words > MOST_INSTRUCTIONS or not _are_neighbours(stmt, indices):
        return False
    for row, column in product(range(rows), range(columns)):
        at = {stmt.row: row, stmt.column: column * atom.n}
        place = _address(writer, stmt.sums, at)
        total = writer.out.op(_SUMS, f"load {_SUMS}, {place}, align 4")
        for word in range(words):
            here = {**at, stmt.depth: word * atom.k}
            one = writer.out.op("i32", f"load i32, {_address(writer, stmt.a, here)}, align 1")
            terms = writer.out.splat(one, atom.n)
            vector = writer.out.op(_SUMS, f"load {_SUMS}, {_address(writer, stmt.b, here)}, align 1")
            pair = (terms, vector) if _dtype(stmt.a) == atom.operands else (vector, terms)
            total = writer.out.call(_INTRINSIC, _SUMS, [total, *pair])
        writer.out.do(f"store {total}, {place}, align 4")
    return True


def _are_neighbours(stmt: Tensorized, indices: DotIndices) -> bool:
    """Whether operands and sums have the instruction's order in memory, which arrays with strides may not have."""
    k, n = stmt.atom.k, stmt.atom.n
    return (
        all(indices.distance(stmt.a, {stmt.depth: i}) == i for i in range(k))
        and all(indices.distance(stmt.sums, {stmt.column: j}) == j for j in range(n))
        and all(
            indices.distance(stmt.b, {stmt.column: j, stmt.depth: i}) == j * k + i for j in range(n) for i in range(k)
        )
    )


def _dtype(load: Any) -> str:
    return str(load.dtype)


def _address(writer: LLVMDotWriter, load: Expr, at: dict[Var, int]) -> LLVMValue:
    """The address of an element of a tile."""
    assert isinstance(load, Load)
    source: Any = load.source
    index = simplify(substitute(load.indices[0], {var: const(value, var.dtype) for var, value in at.items()}))
    with writer.expr.scope():
        offset, pointer = writer.expr.index(index), writer.expr.pointer(source)
    kind = "i8" if source.dtype.bytes == 1 else "i32"
    return writer.out.op("ptr", f"getelementptr inbounds {kind}, {pointer}, {offset}", "at")
