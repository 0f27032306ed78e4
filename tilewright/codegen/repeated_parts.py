"""Parts of an expression that deserve a variable: parts that it reads often, and parts deep under a condition."""

from __future__ import annotations

from ..expr import nodes as n
from ..expr.effects import SEEN, contains_effects
from ..expr.traverse import fold, post_order

MOST_READ = 128
"""Nodes of an expression, written out, from which on parts that it reads often are computed once."""
OFTEN = 4
TANGLED = 16, 4_096
"""Limits of the average repetition and of the number of written nodes, beyond which parts read twice count, too. If
each level reads the one below twice, the text doubles with each level, and so does the compiler's work."""


def read_often(e: n.Expr, sizes: dict[n.Expr, int]) -> frozenset[n.Expr]:
    """Return the parts of a large expression that occur in it several times, such as the argument of Horner's rule.

    The target's compiler finds common subexpressions itself, unless there are too many. Its time grows with the text.
    `sizes` caches the written-out sizes of expressions.
    """
    written = written_size(e, sizes)
    if written < MOST_READ:
        return frozenset()
    readers: dict[n.Expr, int] = {}
    for node in post_order(e):
        for child in node.children():
            readers[child] = readers.get(child, 0) + 1
    times, most = TANGLED
    often = 2 if written > max(most, times * len(readers)) else OFTEN
    wide = (node for node, count in readers.items() if count >= often and sizes.get(node, 1) > 3)
    scalars = (node for node in wide if isinstance(node, n.Expr) and node.dtype.lanes == 1)
    return frozenset(node for node in scalars if node.dtype.is_float and not (SEEN and contains_effects(node)))


def written_size(e: n.Expr, sizes: dict[n.Expr, int]) -> int:
    """Count the nodes of an expression in its written form, with repetitions."""
    return fold(e, sizes, lambda _, below: 1 + sum(below))


class Heights:
    """The number of levels of expressions; each node is looked at once."""

    def __init__(self) -> None:
        self._known: dict[n.Expr, int] = {}

    def __call__(self, e: n.Expr) -> int:
        """The length of the longest path from `e` down to a leaf."""
        return fold(e, self._known, lambda _, below: 1 + max(below, default=0))
