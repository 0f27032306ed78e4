"""count_ring_slots: strength reduction of remainders that count a loop's iterations round and round.

The slot of an iteration in a ring of three is the remainder of its number by three. That is a multiplication, a shift
and a subtraction per iteration, which also hide the alignment of addresses from compilers. A counter that wraps to zero
takes one comparison instead:

    for i in range(n):           slot = 0
        ... ring[i % 3] ...  ->  for i in range(n):
                                     ... ring[slot] ...
                                     slot = slot + 1 if slot < 2 else 0

Remainders by powers of two are masks, and stay.
"""

from __future__ import annotations

from typing import Any

from ..arith.affine import Affine
from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, FloorMod, IntImm, Load, Select, Var
from ..expr.operators import add, const, floormod, less, subtract
from ..expr.traverse import post_order, substitute
from ..loops import uses
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, Let, Stmt, Store, map_statements, seq
from ..loops.walk import map_kernels


def count_ring_slots(function: Function, target: Target, options: Options) -> Function:
    """Count the slots of rings in shared memory, in every serial loop of a kernel that uses some."""
    return map_kernels(function, _in_kernel)


def _in_kernel(stmt: Launch) -> Stmt:
    touched = uses.read(stmt.body) | uses.written(stmt.body)
    sizes = {buffer.slices for buffer in touched if buffer.scope is MemoryScope.SHARED}
    counted = {size for size in sizes if size & (size - 1)}
    return map_statements(stmt, lambda child: _visit(child, counted)) if counted else stmt


def _visit(stmt: Stmt, sizes: set[int]) -> Stmt:
    made = map_statements(stmt, lambda child: _visit(child, sizes))
    if isinstance(made, For) and made.kind is LoopKind.SERIAL and made.var.dtype == "int32":
        for size in sorted(sizes):
            made = _counted(made, size) if isinstance(made, For) else made
    return made


def _counted(loop: For, size: int) -> Stmt:
    """The loop with a counter for the remainders of its variable by `size`, if it computes such remainders."""
    ahead = {node: by for node in post_order(loop.body) if (by := _ahead(node, loop.var, size)) is not None}
    if not ahead:
        return loop
    counter = Buffer(f"{loop.var.name}.slot", "int32", (const(1, "int32"),), MemoryScope.LOCAL, 4)
    zero = const(0, "int32")
    slot = Var(f"{loop.var.name}.slot", "int32")
    values: dict[Any, Expr] = {}
    for node, by in ahead.items():
        values[node] = slot if not by else Select(less(slot, size - by), add(slot, by), subtract(slot, size - by))
    following = Select(less(slot, size - 1), add(slot, 1), zero)
    body = seq(substitute(loop.body, values), Store(counter, (zero,), following))
    body = Let(slot, Load(counter, (zero,)), body)
    made = For(loop.var, loop.min, loop.extent, loop.kind, None, loop.pragmas, body)
    return Allocate(counter, seq(Store(counter, (zero,), floormod(loop.min, size)), made))


def _ahead(node: Any, var: Var, size: int) -> int | None:
    """How many slots after that of iteration `var` a remainder is, in [0, size); None for another expression."""
    if not (
        isinstance(node, FloorMod) and node.dtype == "int32" and isinstance(node.b, IntImm) and node.b.value == size
    ):
        return None
    form = Affine.of(node.a)
    return form.const % size if form.terms == {var: 1} else None
