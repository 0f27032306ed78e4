"""Buffers with dimensions of extent 1 that stand for every index, as in NumPy's broadcasting.

    decl_buffer((m, n), buffer_type="auto_broadcast")     A[i, j]  ->  A[0 if m == 1 else i, 0 if n == 1 else j]

The call decides: its arrays give the extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..bounds.call_checks import ReadCheck
from ..expr.nodes import Expr, IntImm, Load
from ..expr.operators import const, equal, logical_and, not_equal, select
from ..expr.traverse import rewrite
from .nodes import Stmt
from .storage import Buffer


class BroadcastBuffer(Buffer):
    """A buffer with dimensions that are read at 0 for every index if their extent is 1."""

    __slots__ = ()


def broadcast_reads(body: Stmt) -> Stmt:
    """The statement with each read of such a buffer at the place that the extents lead to."""

    def read(e: Any) -> Any:
        if not isinstance(e, Load) or not isinstance(e.source, BroadcastBuffer):
            return e
        return Load(e.source, tuple(map(_index, e.indices, e.source.shape)))

    made: Stmt = rewrite(body, read)
    return made


def _index(index: Expr, extent: Expr) -> Expr:
    zero = const(0, index.dtype)
    if isinstance(extent, IntImm):
        return zero if extent.value == 1 else index
    return select(equal(extent, 1), zero, index)


def broadcast_checks(checks: Iterable[ReadCheck], buffers: Mapping[str, BroadcastBuffer]) -> tuple[ReadCheck, ...]:
    """The checks of reads; tensors kept in `buffers` are checked only if an extent is not 1."""
    return tuple(_checked(check, buffers.get(check.tensor)) for check in checks)


def _checked(check: ReadCheck, buffer: BroadcastBuffer | None) -> ReadCheck:
    if buffer is None:
        return check
    return replace(check, outside=logical_and(not_equal(buffer.shape[check.dimension], 1), check.outside))
