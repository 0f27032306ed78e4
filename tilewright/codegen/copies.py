"""Asynchronous copies as C-like source, in pieces of one instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Protocol

from ..arith.affine import Affine
from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr.traverse import post_order, substitute, uses_any
from ..loops.nodes import Commit, Copy, For, If, Seq, Stmt, Tensorized, copied_load
from ..loops.walk import statements
from .c_expr import AND
from .vectors import flat_index


class Writer(Protocol):
    """What is needed of the writer of a kernel."""

    names: Any
    expr: Any
    dialect: Any
    kernel: Any
    copies_where: str
    held_back: list[Stmt]

    def _stmt(self, s: Stmt) -> None: ...
    def _line(self, text: str) -> None: ...
    def _aligned(self, buffer: Any) -> None: ...
    def _pointer(self, buffer: Any, index: n.Expr) -> str: ...
    def _pointer_name(self, buffer: Any) -> str: ...


def write_sequence(writer: Writer, stmts: Sequence[Stmt]) -> None:
    """Write statements in order, but the copies before a matrix product within it.

    The product first loads fragments from shared memory, during which its warp has nothing else to do. Copies for later
    iterations are issued meanwhile.
    """
    copies: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Commit) or is_copying(stmt):
            copies.append(stmt)
            continue
        if isinstance(stmt, Tensorized) and not stmt.atom.by_thread:
            writer.held_back, copies = copies, []
        for copy in copies:
            writer._stmt(copy)
        copies = []
        writer._stmt(stmt)
        write_held_back(writer)
    for copy in copies:
        writer._stmt(copy)


def write_held_back(writer: Writer) -> None:
    """Write the copies that were held back, if any were and they are not written yet."""
    copies, writer.held_back = writer.held_back, []
    for copy in copies:
        writer._stmt(copy)


def is_copying(s: Stmt) -> bool:
    """Whether a statement does nothing but issue copies."""
    inside = list(statements(s))
    plain = all(type(part) in (Copy, For, Seq) or (isinstance(part, If) and part.orelse is None) for part in inside)
    return plain and any(isinstance(part, Copy) for part in inside)


def _multiplies(writer: Writer) -> bool:
    return any(
        isinstance(part, Tensorized) and not part.atom.by_thread for part in statements(writer.kernel.launch.body)
    )


def write_copies_where(writer: Writer, s: If) -> bool:
    """Write a guard around nothing but copies without a branch, as a condition of each; False for another one.

    A branch would keep the compiler from interleaving the work of an iteration with the copies for a later one.
    Addresses are computed whether or not the condition holds.
    """
    if not is_copying(s):
        return False
    loads = [node for node in post_order(s) if isinstance(node, n.Load)]
    copied = [copied_load(part.value) for part in statements(s) if isinstance(part, Copy)]
    if not set(loads) <= set(copied) or any(_reads(index) for load in loads for index in load.indices):
        return False
    around, condition = writer.copies_where, writer.expr(s.condition, AND)
    name = writer.names.fresh("runs")
    writer._line(f"const bool {name} = {f'{around} && ' if around else ''}{condition};")
    writer.copies_where = name
    writer._stmt(s.then)
    writer.copies_where = around
    return True


def _reads(e: n.Expr) -> bool:
    return any(isinstance(node, n.Load) for node in post_order(e))


def write_copy(writer: Writer, copy: Copy) -> None:
    """Write the instructions of a copy."""
    _write(writer, copy, ())


MOST_AT_ONCE = 32
"""Largest number of instructions that a loop of copies is written out to."""


def write_copy_loop(writer: Writer, s: For) -> bool:
    """Write loops of constant extents around a copy as instructions that share two addresses; False for other loops.

    Only in kernels with matrix instructions, whose loops are written out too. In kernels whose loops the compiler may
    choose to unroll, straight-line copies kept it from unrolling the work of the iteration.
    """
    loops: list[For] = []
    inner: Stmt = s
    while isinstance(inner, For) and isinstance(inner.min, n.IntImm) and isinstance(inner.extent, n.IntImm):
        loops.append(inner)
        inner = inner.body
    count = prod(int(loop.extent) for loop in loops)
    if not loops or not isinstance(inner, Copy) or not 0 < count <= MOST_AT_ONCE or not _multiplies(writer):
        return False
    counted = [loop.var for loop in loops]
    indices = [_first(index) for index in _places(inner)]
    for form in map(Affine.of, indices):
        if any(atom not in counted and uses_any(atom, counted) for atom in form.terms):
            return False
    if isinstance(inner.value, (n.IfThenElse, n.Select)) and uses_any(inner.value.condition, counted):
        return False
    _write(writer, inner, tuple(loops))
    return True


def _write(writer: Writer, copy: Copy, loops: tuple[For, ...]) -> None:
    """Write the instructions of a copy in all iterations of the loops directly around it."""
    load = copied_load(copy.value)
    if load is None:
        raise InternalError(f"a copy to {copy.buffer.name} stores what is not a load")
    source: Any = load.source
    element = copy.buffer.dtype.bytes
    for buffer in (copy.buffer, source) if copy.size > element else ():
        writer._aligned(buffer)
    guarded, where = load is not copy.value, writer.copies_where
    helper = writer.expr.helper(writer.dialect.copy(copy.size, guarded, bool(where)))
    conditions = f"{where}, " if where else ""
    present = writer.names.fresh("present") if guarded else ""
    if guarded:
        writer._line(f"const bool {present} = {writer.expr(copy.value.condition)};")  # type: ignore[attr-defined]
        conditions += f"{present}, "
    forms = [Affine.of(_first(index)) for index in _places(copy)]
    start = {loop.var: loop.min for loop in loops}
    bases = [substitute(_first(index), start) if loops else _first(index) for index in _places(copy)]
    to, at = (writer._pointer(buffer, base) for buffer, base in zip((copy.buffer, source), bases, strict=True))
    if guarded:  # what is not there has no address either
        at = f"{present} ? {at} : {writer._pointer_name(source)}"
    distances = list(_distances(forms, loops, range(0, load.dtype.lanes * element, copy.size), element))
    if len(distances) > 1:
        names = [writer.names.fresh(name) for name in ("copy_to", "copy_from")]
        writer._line(f"void* const {names[0]} = {to};")
        writer._line(f"const void* const {names[1]} = {at};")
        to, at = names
    for by in distances:
        constants = f"<{', '.join(map(str, by))}>" if any(by) else ""
        writer._line(f"{helper}{constants}({conditions}{to}, {at});")


def _distances(forms: list[Affine], loops: tuple[For, ...], pieces: range, element: int) -> Iterator[tuple[int, ...]]:
    """For each instruction, how many bytes behind the first one's its two addresses are."""
    for steps in product(*(range(int(loop.extent)) for loop in loops)):
        moved = [
            element * sum(form.terms.get(loop.var, 0) * step for loop, step in zip(loops, steps, strict=True))
            for form in forms
        ]
        for piece in pieces:
            yield tuple(distance + piece for distance in moved)


def _places(copy: Copy) -> tuple[n.Expr, n.Expr]:
    """The positions of what is copied, in the order: to, from."""
    load: Any = copied_load(copy.value)
    return flat_index(copy.buffer, copy.indices), flat_index(load.source, load.indices)


def _first(index: n.Expr) -> n.Expr:
    return index.base if isinstance(index, n.Ramp) else index
