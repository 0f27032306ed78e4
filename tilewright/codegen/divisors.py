"""Divisors that are positive in every launch of a kernel: if a size is zero, nothing is launched."""

from __future__ import annotations

from ..arith.simplify import simplify
from ..expr import nodes as n
from ..expr.traverse import substitute, variables
from ..loops.nodes import Buffer
from .kernel import Kernel


def positive_in(kernel: Kernel) -> frozenset[n.Expr]:
    """Return the expressions that are positive in every launch of a kernel: extents of its grid and of the buffers it
    stores to.

    Sizes that are factors of such an extent are positive, too. An array that the kernel only reads may be empty.
    """
    stored = [_positive(p.shape) for p in kernel.params if isinstance(p, Buffer) and p in kernel.written]
    common = frozenset.intersection(*stored) if stored else frozenset()
    return common | _positive((*kernel.grid, *kernel.block))


def _positive(extents: tuple[n.Expr, ...]) -> frozenset[n.Expr]:
    """Symbolic extents, and the sizes they depend on, given that the product of the extents is positive."""
    symbolic = [extent for extent in extents if not isinstance(extent, n.IntImm)]
    sizes = {size for extent in symbolic for size in variables(extent) if _vanishes(extent, size)}
    return frozenset((*symbolic, *sizes))


def _vanishes(extent: n.Expr, size: n.Var) -> bool:
    """Whether an extent is not positive if a size is 0."""
    left = simplify(substitute(extent, {size: n.IntImm(0, size.dtype)}))
    return isinstance(left, n.IntImm) and left.value <= 0


def never_zero(divisor: n.Expr, positive: frozenset[n.Expr]) -> bool:
    """Whether the hardware's division by `divisor` is always defined, given that the expressions `positive` are."""
    if isinstance(divisor, n.IntImm):
        return divisor.value not in (0, -1)
    least = _least(divisor, positive)
    return least is not None and least > 0


def _least(e: n.Expr, positive: frozenset[n.Expr]) -> int | None:
    """A lower bound of an expression; None if none is known."""
    if isinstance(e, n.IntImm):
        return e.value
    if e in positive:
        return max(1, e.known.minimum or 1, e.known.multiple_of) if isinstance(e, n.Var) else 1
    if isinstance(e, n.Var):
        return e.known.minimum
    if isinstance(e, n.Cast):
        return _least(e.value, positive) if e.dtype.is_int and e.dtype.bits >= e.value.dtype.bits else None
    if not isinstance(e, n.Arithmetic):
        return None
    a, b = _least(e.a, positive), _least(e.b, positive)
    if a is None:
        return None
    if isinstance(e, n.Sub):
        return a - e.b.value if isinstance(e.b, n.IntImm) else None
    if b is None:
        return None
    if isinstance(e, n.Add):
        return a + b
    if isinstance(e, n.Mul):
        return a * b if min(a, b) >= 0 else None
    if isinstance(e, (n.FloorDiv, n.Div)):
        return a // e.b.value if isinstance(e.b, n.IntImm) and b > 0 and a >= 0 else None
    return max(a, b) if isinstance(e, n.Max) else min(a, b) if isinstance(e, n.Min) else None
