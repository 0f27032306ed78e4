"""Asynchronous copies as C-like source, in pieces of one instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Protocol

from ..arith.affine import Affine
from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr.traverse import post_order, reads_memory, substitute, uses_any
from ..loops.nodes import Commit, Copy, For, If, Let, Seq, Stmt, Tensorized, copied_load
from ..loops.walk import statements
from .c_expr import AND
from .vector_accesses import VectorAccesses
from .vectors import flat_index


@dataclass
class Pieces:
    """Instructions that were written aside at a depth of `indent`, to be spread over other work."""

    indent: int
    found: list[list[str]] = field(default_factory=list)


class CopyWriter(Protocol):
    """The interface of the kernel writer used here."""

    names: Any
    expr: Any
    dialect: Any
    kernel: Any
    copies_where: str
    held_back: list[Stmt]
    pieces: Pieces | None
    lines: list[str]
    indent: int
    vectors: VectorAccesses

    def _stmt(self, s: Stmt) -> None: ...
    def _line(self, text: str) -> None: ...
    def _block(self, head: str) -> AbstractContextManager[None]: ...
    def _pointer(self, buffer: Any, index: n.Expr) -> str: ...
    def _pointer_name(self, buffer: Any) -> str: ...


def write_sequence(writer: CopyWriter, stmts: Sequence[Stmt]) -> None:
    """Write statements in order, but the copies before a matrix product within it.

    The product first loads fragments from shared memory, during which its warp has nothing else to do. Copies for later
    iterations are issued meanwhile.
    """
    copies: list[Stmt] = []
    shared = any(isinstance(stmt, Tensorized) and (stmt.atom.by_warpgroup or shares_copies(stmt)) for stmt in stmts)
    for stmt in stmts:
        if isinstance(stmt, Commit) or (is_copying(stmt) and (shared or not tests_borders(stmt))):
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


def write_held_back(writer: CopyWriter) -> None:
    """Write the copies that were held back and are not written yet, if any."""
    for copy in take_held_back(writer):
        writer._stmt(copy)


def take_held_back(writer: CopyWriter) -> list[Stmt]:
    """Return the copies that were held back, and hold none back any more."""
    copies, writer.held_back = writer.held_back, []
    return copies


def shares_copies(product: Tensorized) -> bool:
    """Whether steps share copies that test borders: if several instructions make a product, and steps are many."""
    atom = product.atom
    return atom.products > 1 and atom.partial_sums != 1 and product.extents[2] // atom.k >= _MANY_STEPS


def tests_borders(s: Stmt) -> bool:
    """Whether a statement copies elements that may not be there: zeros take their place."""
    return any(isinstance(part, Copy) and copied_load(part.value) is not part.value for part in statements(s))


def is_copying(s: Stmt) -> bool:
    """Whether a statement does nothing but issue copies."""
    inside = list(statements(s))
    plain = all(
        type(part) in (Copy, For, Let, Seq) or (isinstance(part, If) and part.orelse is None) for part in inside
    )
    return plain and any(isinstance(part, Copy) for part in inside)


def _multiplies(writer: CopyWriter) -> bool:
    return any(
        isinstance(part, Tensorized) and not part.atom.by_thread for part in statements(writer.kernel.launch.body)
    )


def write_copies_where(writer: CopyWriter, s: If) -> bool:
    """Write a guard of only copies as a condition of each copy, without a branch; False for other guards.

    A branch would keep the compiler from interleaving the work of an iteration with the copies for a later one.
    Addresses are computed whether or not the condition holds.
    """
    if not is_copying(s):
        return False
    loads = [node for node in post_order(s) if isinstance(node, n.Load)]
    copied = [copied_load(part.value) for part in statements(s) if isinstance(part, Copy)]
    if not set(loads) <= set(copied) or any(reads_memory(index) for load in loads for index in load.indices):
        return False
    around, condition = writer.copies_where, writer.expr(s.condition, AND)
    name = writer.names.fresh("runs")
    writer._line(f"const bool {name} = {f'{around} && ' if around else ''}{condition};")
    writer.copies_where = name
    writer._stmt(s.then)
    writer.copies_where = around
    return True


def write_copy(writer: CopyWriter, copy: Copy) -> None:
    """Write the instructions of a copy."""
    _write(writer, copy, (), ())


_MANY_STEPS = 8
"""The least number of steps to distribute copies over."""
MOST_AT_ONCE = 32
"""Largest number of instructions that a loop of copies is written out to."""


def write_copy_loop(writer: CopyWriter, s: For) -> bool:
    """Write loops of constant extents around a copy as instructions that share two addresses; False for other loops.

    Only in kernels with matrix instructions, which have unrolled loops as well. In kernels with loops that the compiler
    may choose to unroll, straight-line copies kept it from unrolling the work of the iteration.
    """
    loops: list[For] = []
    names: list[Let] = []
    inner: Stmt = s
    while isinstance(inner, (For, Let)):
        if isinstance(inner, Let):
            names.append(inner)
        elif isinstance(inner.min, n.IntImm) and isinstance(inner.extent, n.IntImm):
            loops.append(inner)
        else:
            return False
        inner = inner.body
    count = prod(int(loop.extent) for loop in loops)
    if not isinstance(inner, Copy) or not 0 < count <= MOST_AT_ONCE or not _multiplies(writer):
        return False
    counted = {*(loop.var for loop in loops), *(let.var for let in names)}
    for form in map(Affine.of, map(_first, _places(inner))):
        own = {loop.var for loop in loops}
        if any(atom not in own and uses_any(atom, counted) for atom in form.terms):
            return False
    _write(writer, inner, tuple(loops), tuple(names))
    return True


def _write(writer: CopyWriter, copy: Copy, loops: tuple[For, ...], names: tuple[Let, ...]) -> None:
    """Write the instructions of a copy in all iterations of the loops around it; `names` are the variables its guard
    reads.

    The hardware ignores the address of absent elements.
    """
    load = copied_load(copy.value)
    if load is None:
        raise InternalError(f"a copy to {copy.buffer.name} stores a value that is not a load")
    source: Any = load.source
    element = copy.buffer.dtype.bytes
    for buffer in (copy.buffer, source) if copy.size > element else ():
        writer.vectors.aligned(buffer)
    guard = None if load is copy.value else copy.value.condition  # type: ignore[attr-defined]
    counted = [*(loop.var for loop in loops), *(let.var for let in names)]
    alike = guard is None or not uses_any(guard, counted)
    where = [writer.copies_where] if writer.copies_where else []
    helper = writer.expr.helper(writer.dialect.copy(copy.size, guard is not None, bool(where)))
    if guard is not None and alike:
        where.append(writer.names.fresh("present"))
        writer._line(f"const bool {where[-1]} = {writer.expr(guard)};")
    forms = [Affine.of(_first(index)) for index in _places(copy)]
    start = {loop.var: loop.min for loop in loops}
    bases = [substitute(_first(index), start) if loops else _first(index) for index in _places(copy)]
    to, at = (writer._pointer(buffer, base) for buffer, base in zip((copy.buffer, source), bases, strict=True))
    lanes = range(0, load.dtype.lanes * element, copy.size)
    if len(lanes) * prod(int(loop.extent) for loop in loops) > 1:
        shared = [writer.names.fresh(name) for name in ("copy_to", "copy_from")]
        writer._line(f"void* const {shared[0]} = {to};")
        writer._line(f"const void* const {shared[1]} = {at};")
        to, at = shared

    def write(by: tuple[int, ...], conditions: list[str]) -> None:
        constants = f"<{', '.join(map(str, by))}>" if any(by) else ""
        writer._line(f"{helper}{constants}({', '.join([*conditions, to, at])});")

    for iteration in product(*(range(int(loop.extent)) for loop in loops)):
        moved = [_distance(form, loops, iteration) * element for form in forms]
        instructions = [tuple(distance + piece for distance in moved) for piece in lanes]
        with _piece(writer):
            if alike:
                for by in instructions:
                    write(by, where)
                continue
            values = {
                loop.var: n.IntImm(int(loop.min) + i, loop.var.dtype) for loop, i in zip(loops, iteration, strict=True)
            }
            with writer._block(""):
                for let in names:
                    kind = writer.dialect.scalar_type(let.var.dtype)
                    value = writer.expr(substitute(let.value, values))
                    writer._line(f"const {kind} {writer.names(let.var)} = {value};")
                for by in instructions:
                    write(by, [*where, writer.expr(substitute(guard, values))])


def _distance(form: Affine, loops: tuple[For, ...], iteration: tuple[int, ...]) -> int:
    """The distance, in elements, of an iteration's address from the first iteration's address."""
    return sum(form.terms.get(loop.var, 0) * i for loop, i in zip(loops, iteration, strict=True))


@contextmanager
def _piece(writer: CopyWriter) -> Iterator[None]:
    """Collect the lines written meanwhile as one piece, if pieces are gathered at this depth."""
    before = len(writer.lines)
    yield
    if writer.pieces is not None and writer.pieces.indent == writer.indent:
        writer.pieces.found.append(writer.lines[before:])
        del writer.lines[before:]


def gathered(writer: CopyWriter, stmts: Sequence[Stmt]) -> list[list[str]]:
    """Write the preparation of statements that issue copies, such as addresses; return the instructions, in pieces.

    The pieces are to be written in that order, in the scope in which they were gathered.
    """
    writer.pieces = pieces = Pieces(writer.indent)
    for stmt in stmts:
        if isinstance(stmt, Commit):
            with _piece(writer):
                writer._stmt(stmt)
        else:
            writer._stmt(stmt)
    writer.pieces = None
    return pieces.found


def write_pieces(writer: CopyWriter, pieces: Sequence[list[str]], deeper: int) -> None:
    """Write pieces in a scope `deeper` levels deeper than they were gathered in."""
    for piece in pieces:
        writer.lines += ["  " * deeper + line for line in piece]


def _places(copy: Copy) -> tuple[n.Expr, n.Expr]:
    """The positions of the copied elements, in the order: to, from."""
    load: Any = copied_load(copy.value)
    return flat_index(copy.buffer, copy.indices), flat_index(load.source, load.indices)


def _first(index: n.Expr) -> n.Expr:
    return index.base if isinstance(index, n.Ramp) else index
