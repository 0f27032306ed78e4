"""Hints for LLVM's loop unrolling: short loops completely, long ones in parts, so that compile times stay bounded."""

from __future__ import annotations

from ...core.architectures import LLVM_UNROLLED_STORES
from ...core.hardware import LoopKind
from ...expr.traverse import constant_value
from ...loops.nodes import Evaluate, For, Stmt, Store
from ...loops.walk import substatements

_FULL_UNROLL = 64
"""Iterations of a loop that LLVM unrolls completely, and copies of the body of a longer loop at most."""
_VECTOR_BYTES = 64
"""The bytes of a vector: a longer store counts as several."""


def unroll_hint(loop: For) -> str:
    """The metadata of LLVM for a marked loop."""
    extent = constant_value(loop.extent)
    if extent is not None and extent <= _FULL_UNROLL:
        return '"llvm.loop.unroll.full"'
    copies = max(1, min(_FULL_UNROLL, LLVM_UNROLLED_STORES // max(1, _stores(loop.body))))
    return f'"llvm.loop.unroll.count", i32 {copies}'


def _stores(stmt: Stmt) -> int:
    """How many vectors a statement stores, marked loops inside it written out."""
    if isinstance(stmt, Store):
        return -(-stmt.value.dtype.bytes // _VECTOR_BYTES)
    if isinstance(stmt, Evaluate):
        return 1
    times = (constant_value(stmt.extent) or 1) if isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED else 1
    return times * sum(_stores(child) for child in substatements(stmt))
