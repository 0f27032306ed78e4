"""mask_guarded_loops: if-conversion for the CPU. Short guarded loops run on vectors under a mask.

    for s in range(16):                              mask = i * 16 + ramp(16) < n
        if i * 16 + s < n:                =>         where mask:
            B[i * 16 + s] = A[i * 16 + s]                B[i * 16 : i * 16 + 16] = A[i * 16 : i * 16 + 16]

On a GPU, a guard or a branch that differs between lanes keeps a loop from running on vectors. Threads have no masks of
their own, and diverge cheaply. On a CPU, such a loop would run one element at a time.
"""

from __future__ import annotations

from typing import Any

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..core.hardware import LoopKind
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Broadcast, Expr, IfThenElse, IntImm, Load, Ramp, Var
from ..expr.operators import const, is_const
from ..expr.traverse import post_order, variables
from ..loops.nodes import Allocate, Evaluate, For, Function, If, Let, Stmt, Store, map_statements
from .vectorize_loops import on_vectors


def mask_guarded_loops(function: Function, target: Target, options: Options) -> Function:
    """Run short serial loops on vectors if a guard or branch in them depends on their variable.

    Only if no iteration needs the result of another, and memory is accessed in order: LLVM gets all other loops.
    """
    most = target.hardware.vector_bytes  # the lanes of a vector of bytes

    def visit(stmt: Stmt) -> Stmt:
        made = map_statements(stmt, visit)
        if isinstance(made, For) and made.kind is LoopKind.SERIAL and isinstance(made.extent, IntImm):
            lanes = made.extent.value
            return _masked(made, lanes) if 4 <= lanes <= most and lanes % 4 == 0 else made
        return made

    return function.with_body(visit(function.body))


def _masked(loop: For, lanes: int) -> Stmt:
    nodes = list(post_order(loop.body))
    differs = any(isinstance(at, (If, IfThenElse)) and loop.var in variables(at.condition) for at in nodes)
    if not differs or not _independent(nodes, loop.var, lanes):
        return loop
    made = on_vectors(loop.body, Ramp(loop.min, const(1, loop.var.dtype), lanes), loop.var, EMPTY, masks=True)
    if made is None or not all(_in_order(at) for at in post_order(made)):
        return loop
    return made


def _independent(nodes: list[Any], var: Var, lanes: int) -> bool:
    """Whether all iterations may run at once: no other iteration loads or stores the elements that one stores."""
    inner = {at.var for at in nodes if isinstance(at, (For, Let))}
    touched: dict[Any, list[Expr]] = {}
    stored: set[Any] = set()
    for at in nodes:
        if isinstance(at, (Allocate, Evaluate)):
            return False
        if isinstance(at, (Load, Store)):
            buffer: Any = at.source if isinstance(at, Load) else at.buffer
            if len(at.indices) != 1:
                return False
            touched.setdefault(buffer.memory, []).append(at.indices[0])
            if isinstance(at, Store):
                stored.add(buffer.memory)
    return all(_apart(touched[memory], var, lanes, inner) for memory in stored)


def _apart(indices: list[Expr], var: Var, lanes: int, inner: set[Var]) -> bool:
    """Whether accesses at these indices meet only within one iteration."""
    first = Affine.of(indices[0])
    if first.terms.get(var) != 1 or inner.intersection(variables(*indices)):
        return False
    if any(atom is not var and var in variables(atom) for atom in first.terms):
        return False
    for index in indices[1:]:
        away = Affine.of(index) - first
        if away.terms or (away.const != 0 and abs(away.const) < lanes):
            return False
    return True


def _in_order(node: Any) -> bool:
    """Whether a node accesses memory, if at all, by ascending vectors or one element for all lanes."""
    if not isinstance(node, (Load, Store)):
        return True
    return all(
        index.dtype.lanes == 1
        or isinstance(index, Broadcast)
        or (isinstance(index, Ramp) and is_const(index.stride, 1))
        for index in node.indices
    )
