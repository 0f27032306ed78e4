"""Instructions of one thread as source: sums of four products of bytes, each loaded as one word if possible.

A `Tensorized` of such an atom becomes loops around one instruction: over rows, columns and words of four terms. Their
extents are constant, and the compiler unrolls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Protocol

from ..arith.affine import Affine
from ..arith.facts import EMPTY, Facts
from ..arith.simplify import simplify
from ..core.atoms import Atom
from ..expr.nodes import Expr, IntImm, Known, Load, Var
from ..expr.operators import add, const, multiply, subtract
from ..expr.traverse import substitute
from ..loops.nodes import Tensorized
from ..passes.lower_divisions import lower_expression
from .kernel import root
from .vector_accesses import VectorAccesses
from .vectors import known_divisor


class DotWriter(Protocol):
    """The interface of the kernel writer used here."""

    names: Any
    expr: Any
    kernel: Any
    vectors: VectorAccesses

    def _line(self, text: str) -> None: ...
    def _block(self, head: str) -> AbstractContextManager[None]: ...
    def _access(self, buffer: Any, index: Expr) -> str: ...
    def _pointer(self, buffer: Any, index: Expr) -> str: ...


class DotIndices:
    """The indices of operands and sums, in terms of a row, a column and a word of `k` terms.

    `at` maps the variables of the statement to positions: new variables, or constants if there is one position.
    """

    def __init__(self, stmt: Tensorized, columns: int = 1) -> None:
        self.stmt = stmt
        counts = (stmt.extents[0], stmt.extents[1] // columns, stmt.extents[2] // stmt.atom.k)
        each = zip((stmt.row, stmt.column, stmt.depth), (1, columns, stmt.atom.k), counts, strict=True)
        self.loops: list[tuple[Var, int]] = []
        self.at: dict[Var, Expr] = {}
        facts: Facts = EMPTY
        for var, step, count in each:
            position: Expr = const(0, "int32")
            if count > 1:
                own = Var(var.name.rpartition(".")[2], "int32", Known(0, count - 1))
                self.loops.append((own, count))
                facts = facts.bind(own, IntImm(0, own.dtype), IntImm(count, own.dtype))
                position = multiply(own, step)
            self.at[var] = position
        self.facts = facts

    def of(self, load: Expr, further: Mapping[Var, int]) -> Expr:
        """The index of a load at the position, moved by `further` steps along variables of the statement."""
        assert isinstance(load, Load)
        at = {var: add(position, further.get(var, 0)) for var, position in self.at.items()}
        return lower_expression(simplify(substitute(load.indices[0], at), self.facts), self.facts)

    def distance(self, load: Expr, further: Mapping[Var, int]) -> int | None:
        """The distance of elements that are `further` steps apart; None if it is not constant."""
        form = Affine.of(simplify(subtract(self.of(load, further), self.of(load, {})), self.facts))
        return None if form.terms else form.const


def write_dots(writer: DotWriter, stmt: Tensorized) -> None:
    """Write the statement in a separate block."""
    indices = DotIndices(stmt)
    with writer._block(""), ExitStack() as around:
        writer._line(f"// {' x '.join(map(str, stmt.extents))} (rows, columns, depth) by {stmt.atom.instruction}")
        for var, count in indices.loops:
            name = writer.names(var)
            writer._line("#pragma unroll")
            around.enter_context(writer._block(f"for (int {name} = 0; {name} < {count}; ++{name})"))
        sums: Any = stmt.sums
        place = writer._access(sums.source, indices.of(sums, {}))
        a, b = (_word(writer, load, indices) for load in (stmt.a, stmt.b))
        writer._line(f"{place} = {writer.expr.helper(stmt.atom.name)}({a}, {b}, {place});")


def _word(writer: DotWriter, load: Any, indices: DotIndices) -> str:
    """Four neighbouring terms of an operand as one word."""
    depth, source = indices.stmt.depth, load.source
    first = indices.of(load, {})
    together = all(indices.distance(load, {depth: i}) == i for i in range(indices.stmt.atom.k))
    base = root(source)
    if together and known_divisor(first) % 4 == 0 and base.align % 4 == 0 and (source.byte_offset or 0) % 4 == 0:
        writer.vectors.aligned(source)
        read_only = base in writer.kernel.params and base not in writer.kernel.written
        return f"*({'const ' * read_only}int*)({writer._pointer(source, first)})"
    each = [writer._access(source, indices.of(load, {depth: i})) for i in range(indices.stmt.atom.k)]
    return f"(int){writer.expr.helper('word_of_4')}({', '.join(f'(unsigned char){byte}' for byte in each)})"


def dot_helpers(atoms: Mapping[str, Atom]) -> dict[str, str]:
    """The functions of `dp4a`, by the names of the atoms."""
    return {
        name: f"int {name}(int a, int b, int c) {{\n  int d;\n"
        f'  asm("{atom.instruction} %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));\n  return d;\n}}'
        for name, atom in atoms.items()
        if atom.target == "cuda"
    }
