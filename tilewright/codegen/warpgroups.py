"""Instructions of a warpgroup as source: products of tiles in shared memory, issued together, then awaited.

    barrier                      // what was copied is there, for the hardware too: fence_async
    begin; product of each step; commit
    copies for later iterations  // while the hardware multiplies
    end                          // the sums are there, and the tiles have been read

So a statement is complete when it ends, as its body is: no other pass has to know that the instruction is asynchronous.
Each thread fences its own stores, and copies that it awaited, before the barrier behind which a warpgroup reads them
(`fence_async`). The instruction reads memory by another path than threads.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.hardware import SWIZZLE_LINE, ThreadTag
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import const, subtract
from ..expr.traverse import substitute
from ..loops.nodes import Tensorized
from .copies import write_held_back
from .kernel import Kernel
from .matrix import MatrixKernelWriter
from .warpgroup_helpers import edge, operand_bytes, product, spelling

_SERIALIZED = re.compile(r"\(C75(?:08|1[0-7])\)[^\n]*")
"""Notes of ptxas on products that it serializes, or that are not awaited correctly."""


def architecture(kernels: Sequence[Kernel], target: Target) -> str:
    """The architecture of compilation: with instructions that only one generation has, that generation alone."""
    return (
        f"{target.arch}a" if any(kernel.warpgroups for kernel in kernels) and target.arch[-1].isdigit() else target.arch
    )


def check_overlap(log: str) -> None:
    """Raise UserError if ptxas makes products of a warpgroup wait for each other."""
    found = _SERIALIZED.search(log)
    if found:
        raise UserError(
            f"the products of a warpgroup do not run asynchronously: {found[0]}",
            primitive="tensorize",
            fix="compute fewer columns in a warpgroup: the sums and the addresses of copies have to fit in registers",
        )


def write_warpgroup(writer: MatrixKernelWriter, stmt: Tensorized) -> None:
    """Write a `Tensorized` of a warpgroup, and the copies that were held back between its issue and its end."""
    writer.has_matrices = True
    atom = stmt.atom
    _, columns, depth = stmt.extents
    width = atom.width(columns)
    with writer._block(""):
        shape = " x ".join(map(str, stmt.extents))
        spelled = spelling(atom, width)
        writer._line(f"// {shape} (rows, columns, depth) for each of four warps by {spelled}")
        apart = _turned(stmt)
        a, b = _named(writer, stmt, stmt.a, "a"), _named(writer, stmt, stmt.b, "b", apart)
        pieces = [(at, _sums(writer, stmt, at)) for at in range(0, columns, width)]
        for _, sums in pieces:
            writer._line(f"{_helper(writer, edge(atom, width, ends=False))}({sums});")
        function, size = _helper(writer, product(atom, width, apart is not None)), operand_bytes(atom)
        for step in range(0, depth, atom.k):
            for at, sums in pieces:
                further = step * (size if apart is None else SWIZZLE_LINE)
                further += at * SWIZZLE_LINE if not apart else at * size // SWIZZLE_LINE * apart
                writer._line(f"{function}({sums}, {_further(a, step * size)}, {_further(b, further)});")
        writer._line('asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");')
        write_held_back(writer)
        for _, sums in pieces:
            writer._line(f"{_helper(writer, edge(atom, width, ends=True))}({sums});")


def _named(writer: MatrixKernelWriter, stmt: Tensorized, operand: Expr, letter: str, apart: int | None = None) -> str:
    """The name of an operand's matrix, which is declared."""
    name: str = writer.names.fresh(f"{letter}_matrix")
    writer._line(f"const unsigned long long {name} = {_matrix(writer, stmt, operand, apart)};")
    return name


def _turned(stmt: Tensorized) -> int | None:
    """The bytes from 64 columns of the right operand to the next 64, if neighbours are columns; else None."""
    assert isinstance(stmt.b, Load)
    index, size = stmt.b.indices[0], operand_bytes(stmt.atom)
    line = SWIZZLE_LINE // size

    def distance(of: Var, by: int) -> int:
        ends = [substitute(index, dict.fromkeys((stmt.column, stmt.depth), const(0, "int32")) | {of: const(n, "int32")})
                for n in (by, 0)]  # fmt: skip
        found = simplify(subtract(*ends))
        return found.value if isinstance(found, IntImm) else 0

    if distance(stmt.depth, 1) != line:
        return None
    return distance(stmt.column, line) * size if stmt.extents[1] > line else 0


def _helper(writer: MatrixKernelWriter, made: tuple[str, str]) -> str:
    """The name of a helper function that is made for the widths in use."""
    name, text = made
    writer.expr.helpers.setdefault(name, f"{writer.dialect.helper_prefix} {text}")
    return name


def _further(matrix: str, distance: int) -> str:
    """A matrix at a byte offset from another matrix."""
    return f"{matrix} + {distance >> 4}" if distance else matrix


def _matrix(writer: MatrixKernelWriter, stmt: Tensorized, operand: Expr, apart: int | None) -> str:
    """The matrix of a warpgroup: from the first row of its first warp on."""
    assert isinstance(operand, Load)
    zero = const(0, "int32")
    warp = next((var for tag, var, _ in writer.kernel.launch.threads if tag is ThreadTag.THREAD_Y), None)
    at = dict.fromkeys((stmt.row, stmt.column, stmt.depth), zero) | ({} if warp is None else {warp: zero})
    index = simplify(substitute(operand.indices[0], at))
    pointer = writer._pointer(operand.source, index)
    if apart is not None:
        return f"{writer.expr.helper('wgmma_turned')}({pointer}, {apart})"
    return f"{writer.expr.helper('wgmma_matrix')}({pointer})"


def _sums(writer: MatrixKernelWriter, stmt: Tensorized, column: int) -> str:
    """The sums of a lane from a column on."""
    assert isinstance(stmt.sums, Load)
    place = {stmt.row: const(0, "int32"), stmt.column: const(column, "int32")}
    index = simplify(substitute(stmt.sums.indices[0], place))
    if stmt.sums.dtype.bytes < 4:  # two sums share a register
        writer.aligned.add(stmt.sums.source.memory)  # type: ignore[attr-defined]
    return writer._pointer(stmt.sums.source, index)
