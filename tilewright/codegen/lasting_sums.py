"""Partial sums of a matrix product that last over the loop around it, in registers.

An atom that splits its operands keeps the products with a low part by themselves. Their sums are small: they lose no
relevant precision if they grow over all slices, and no slice needs to add them to the others. If nothing else in a loop
accesses the sums of a product, these partial sums are declared before the loop and added after it.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from ..expr.nodes import Var
from ..expr.traverse import variables
from ..loops.nodes import For, Let, Stmt, Store, Tensorized
from ..loops.uses import read, written
from ..loops.walk import statements
from .matrix import MatrixKernelWriter, MatrixWriter


class LowSums:
    """The sums of products with a low part in a kernel.

    `names` are the lasting sums, by their product, while its loop is written. `repeated` are the products in loops that
    add to the same sums in every iteration while others use these.
    """

    def __init__(self, body: Stmt) -> None:
        self.names: dict[Tensorized, str] = {}
        self.repeated: set[Tensorized] = set()
        self._summed_on: list[bool] = []
        last: dict[Any, int] = {}
        for part in statements(body):
            if isinstance(part, Store):
                last.pop(part.buffer, None)
            elif _has_low_sums(part):
                if _sums(part) in last:
                    self._summed_on[last[_sums(part)]] = True
                last[_sums(part)] = len(self._summed_on)
                self._summed_on.append(False)

    def is_last(self, product: Tensorized) -> bool:
        """Whether a product is the last one before its sums begin anew: asked once for each, in order."""
        return bool(self._summed_on) and not self._summed_on.pop(0) and product not in self.repeated


def write_lasting_sums(writer: MatrixKernelWriter, s: For) -> bool:
    """Write a loop, with declarations of lasting partial sums before it; return False if it has no such sums."""
    parts = list(statements(s.body))
    products = [part for part in parts if _has_low_sums(part)]
    held: LowSums = writer.low_sums
    if not products or products[0] in held.names:
        return False
    around = {id(part) for part in parts if any(_has_low_sums(each) for each in statements(part))}
    others = [part for part in parts if id(part) not in around]
    inside = [s.var, *(part.var for part in parts if isinstance(part, (For, Let)))]
    if len(products) > 1 or not _are_apart(products[0], others, inside):
        anew = {_sums(product) for product in products if any(_sums(product) in written(part) for part in others)}
        held.repeated.update(product for product in products if _sums(product) not in anew)
        return False
    made = MatrixWriter(writer, products[0])
    with writer._block(""), made.kept_apart(inside):
        low = held.names[products[0]] = made.start_low()
        writer._stmt(s)
        del held.names[products[0]]
        made.add_low(low)
    return True


def _are_apart(product: Tensorized, others: list[Any], inside: list[Var]) -> bool:
    """Whether a product has the same sums in all iterations of a loop, and no other statement uses them."""
    moving = set(inside) & (set(variables(product.sums)) - {product.row, product.column})
    return not moving and not any(_sums(product) in read(part) | written(part) for part in others)


def _has_low_sums(part: Stmt) -> TypeGuard[Tensorized]:
    return isinstance(part, Tensorized) and part.atom.partial_sums > 1


def _sums(product: Tensorized) -> Any:
    """The buffer of the sums."""
    return product.sums.source  # type: ignore[attr-defined]
