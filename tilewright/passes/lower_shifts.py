"""lower_shifts: shifts that are defined for every amount, as languages and hardware differ beyond the bits of the type.

As in NumPy, an amount that is negative or not below the number of bits shifts every bit out. The result is 0, or -1 if
a negative integer is shifted to the right.
"""

from __future__ import annotations

from ..arith.facts import Facts
from ..arith.interval import interval
from ..arith.simplify import prove
from ..expr.nodes import Broadcast, Call, Expr, IntImm
from ..expr.operators import all_of, const, less, less_equal, minimum, select

_NAMES = frozenset(("shift_left", "shift_right"))


def is_shift(e: Expr) -> bool:
    """Whether `e` is a shift."""
    return isinstance(e, Call) and e.name in _NAMES


def total_shift(e: Call, facts: Facts) -> Expr:
    """The shift `e` itself if its amount stays within the word, else a choice that is defined for any amount."""
    value, amount = e.args
    bits = e.dtype.bits
    if _stays_within(amount, bits, facts):
        return e
    zero, last = const(0, amount.dtype), const(bits - 1, amount.dtype)
    if e.name == "shift_right" and e.dtype.kind == "int":
        return Call(e.name, (value, select(less(amount, zero), last, minimum(amount, last))), e.dtype)
    within = all_of(less_equal(zero, amount), less_equal(amount, last))
    return select(within, e, const(0, e.dtype))


def _stays_within(amount: Expr, bits: int, facts: Facts) -> bool:
    if isinstance(amount, Broadcast):
        amount = amount.value
    low, high = interval(amount, facts)
    if low >= 0 and high < bits:
        return True
    if isinstance(amount, Call) and amount.name == "bitwise_and":
        return any(isinstance(x, IntImm) and 0 <= x.value < bits for x in amount.args)
    if amount.dtype.lanes > 1:
        return False
    return prove(less_equal(0, amount), facts) and prove(less(amount, bits), facts)
