"""swizzle_storage: rewrite accesses to swizzled buffers to the elements' actual places; see `storage_swizzle`.

    A.shared[i]     ->     A.shared[i ^ (i >> 5 & 7) << 2]         # of float32, in lines of 128 bytes

The exchange permutes the elements of a buffer, so every pass before this one may treat indices as places. Disjoint
indices stay disjoint, and neighbours within a piece stay neighbours. The operands of matrix instructions keep their
indices: code generation reads their strides, and then exchanges the pieces itself.
"""

from __future__ import annotations

from typing import Any

from ..arith.affine import Affine
from ..arith.modular import modular
from ..core.errors import UserError
from ..core.hardware import SWIZZLE_PIECE
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Broadcast, Expr, IntImm, Load, Ramp
from ..expr.operators import add, bitwise_and, bitwise_xor, const, shift_left, shift_right
from ..expr.traverse import rewrite_from
from ..loops import uses
from ..loops.nodes import Buffer, Function, Launch, Stmt, Store, Tensorized, map_statements
from ..loops.storage import AddressOf


def swizzle_storage(function: Function, target: Target, options: Options) -> Function:
    """Rewrite the indices of swizzled buffers within kernels.

    Raises UserError for a vector that is not within one piece of 16 bytes, and if a function receives an address.
    """
    # Allocations do not tell: buffers that share memory have none, or lie in an arena of bytes.
    if not any(buffer.layout.swizzle for buffer in uses.written(function.body)):
        return function

    def kernels(stmt: Stmt) -> Stmt:
        made: Stmt = rewrite_from(stmt, _swizzled) if isinstance(stmt, Launch) else map_statements(stmt, kernels)
        return made

    return function.with_body(kernels(function.body))


def _swizzled(before: Any, node: Any) -> Any:
    if isinstance(node, AddressOf) and node.buffer.layout.swizzle:
        raise _given_away(node.buffer)
    if isinstance(before, Tensorized):  # the operands keep their indices
        *operands, _ = (getattr(before, name) for name in before.FIELDS)
        made: Any = type(before)
        return made(*operands, node.body)
    if isinstance(node, Load) and isinstance(node.source, Buffer) and node.source.layout.swizzle:
        return Load(node.source, (_exchanged(node.source, node.indices[0]),))
    if isinstance(node, Store) and node.buffer.layout.swizzle:
        return node.with_parts((_exchanged(node.buffer, node.indices[0]),), node.value)
    return node


def _given_away(buffer: Buffer) -> UserError:
    name = buffer.note or buffer.name
    return UserError(
        f"a function is given the address of {name!r}, but storage_swizzle exchanges its pieces",
        primitive="storage_swizzle",
        fix=f"leave storage_swizzle of {name!r} out, or pad its rows instead: storage_align",
    )


def _exchanged(buffer: Buffer, index: Expr) -> Expr:
    """The place of an element, or of a vector within a piece."""
    base = index.base if isinstance(index, Ramp) else index
    together = SWIZZLE_PIECE // buffer.dtype.bytes
    if isinstance(index, (Ramp, Broadcast)) or index.dtype.lanes > 1:
        lanes, apart = index.dtype.lanes, getattr(index, "stride", None)
        known = modular(base)
        whole = together % lanes == 0 and known.coeff % lanes == 0 and known.base % lanes == 0
        if not (isinstance(index, Ramp) and isinstance(apart, IntImm) and apart.value == 1 and whole):
            raise UserError(
                f"a vector of {lanes} elements of {buffer.note or buffer.name!r} at `{index}` is not within one piece "
                f"of {SWIZZLE_PIECE} bytes, which storage_swizzle moves",
                primitive="storage_swizzle",
                fix=f"vectorize by at most {together} elements, or pad the rows instead: storage_align",
            )
    line, pieces = buffer.layout.swizzle // buffer.dtype.bytes, together.bit_length() - 1
    groups, rest = _whole_groups(base, 8 * line)
    number = bitwise_and(shift_right(rest, line.bit_length() - 1), 7)
    place = add(groups, bitwise_xor(rest, shift_left(number, pieces)))
    return Ramp(place, const(1, place.dtype), index.dtype.lanes) if isinstance(index, Ramp) else place


def _whole_groups(index: Expr, group: int) -> tuple[Expr, Expr]:
    """The index as whole groups of eight lines, which change no line's number modulo 8, and the rest.

    Terms that move by whole groups, such as the slot of a ring, then stay outside of the exchange.
    """
    form = Affine.of(index)
    moving = {atom: k for atom, k in form.terms.items() if k % group == 0}
    if not moving and not form.const >= group:
        return const(0, index.dtype), index
    kept = {atom: k for atom, k in form.terms.items() if atom not in moving}
    apart = form.const - form.const % group
    return Affine(moving, apart, form.dtype).to_expr(), Affine(kept, form.const - apart, form.dtype).to_expr()
