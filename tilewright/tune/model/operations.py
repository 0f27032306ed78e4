"""The number of operations per step of a stage, and of evaluations of a reduction's value."""

from __future__ import annotations

from ...expr import nodes as n
from ...expr.nodes import Expr
from ...expr.traverse import post_order
from ...tensor.reduction import Reduce


def evaluations(body: Expr) -> int:
    """Return the number of times a step of a reduction computes its value: once per use in the combiner.

    The back end's compiler does not recognise equal values behind conditions.
    """
    if not isinstance(body, Reduce):
        return 1
    named = set(body.combiner.rhs)

    def count(e: Expr) -> int:
        return 1 if e in named else sum(count(child) for child in e.children() if isinstance(child, Expr))

    return max(1, sum(map(count, body.combiner.result)))


def operations(body: tuple[Expr, ...]) -> tuple[float, float, float]:
    """Return the instructions of one execution: multiply-adds, other arithmetic on elements, comparisons of indices."""
    products = sums = others = compares = 0
    for e in post_order(*(source for b in body for source in (b.source if isinstance(b, Reduce) else (b,)))):
        if isinstance(e, n.Compare):
            compares += 1
        elif isinstance(e, n.Arithmetic) and not e.dtype.is_int:
            products += isinstance(e, n.Mul)
            sums += isinstance(e, (n.Add, n.Sub))
            others += not isinstance(e, (n.Mul, n.Add, n.Sub))
        elif isinstance(e, n.Cast) and e.dtype.is_float and e.value.dtype.is_float:
            others += 1
        elif isinstance(e, n.Call) and e.dtype.is_float:
            others += 4
    if isinstance(body[0], Reduce):
        sums += 1
    return float(max(products, sums)), float(others), float(compares)
