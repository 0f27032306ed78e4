"""Axes: the iteration variables of computations, and the hardware threads that they are bound to."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ..core.dtype import INT32, INT64, DType
from ..core.errors import UserError
from ..core.hardware import ThreadTag
from ..core.refusals import not_made
from ..core.text import one_line
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operand import Operand
from ..expr.operators import as_expr, cast, const, if_then_else, is_const, less, match_types, maximum, subtract
from ..expr.ranges import Range as Range
from ..expr.runtime_value import is_declaring
from ..expr.traverse import loads


class AxisKind(enum.Enum):
    """The kind of an axis."""

    DATA = "data-parallel"
    REDUCE = "reduction"
    THREAD = "thread"
    ORDERED = "ordered"


class IterVar(Operand):
    """An axis. In an expression it stands for its variable.

    `dom` is the range of values; None for a thread axis with the extent of the axis that is bound to it. `thread` is
    the hardware index of a THREAD axis, else None. The legacy API's arguments are taken, too: `IterVar((0, 16), "i",
    IterVar.DataPar)`, with the range, a name or variable, and the number of the kind.
    """

    __slots__ = ("__weakref__", "dom", "kind", "thread", "var")

    DataPar, ThreadIndex, CommReduce, Ordered, DimInfo = range(5)
    Unrolled, Vectorized, Parallelized, Tensorized = range(5, 9)

    def __init__(self, name: str, dom: Range | None, kind: AxisKind, thread: ThreadTag | None = None) -> None:
        given: Any = dom
        if isinstance(kind, int):
            name, dom, kind, thread = _from_legacy(name, dom, kind, thread)
        if not (dom is None or isinstance(dom, Range)) or not isinstance(kind, AxisKind):
            raise not_made("IterVar", 'make one with te.reduce_axis((0, n)) or te.thread_axis("threadIdx.x")')
        dtype = dom.extent.dtype if dom is not None else "int32"
        self.var = given if isinstance(given, Var) else Var(name, dtype)
        self.dom = dom
        self.kind = kind
        self.thread = thread

    def as_expr(self) -> Expr:
        return self.var

    def spelled(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The axis's name, as the printed program shows it."""
        return self.var.name

    @property
    def thread_tag(self) -> str:
        """The legacy name of the hardware index ("" if the axis is none)."""
        return self.thread.value if self.thread else ""

    @property
    def iter_type(self) -> int:
        """The legacy number of the kind, such as `IterVar.CommReduce`."""
        return _ITER_TYPES[self.kind]

    def __bool__(self) -> bool:
        return True  # an axis is there or not: code asks `if axis`

    def __eq__(self, other: object) -> Any:
        return self is other if self._compares_whole(other) else self.var == other

    def __ne__(self, other: object) -> Any:
        return self is not other if self._compares_whole(other) else self.var != other

    def _compares_whole(self, other: object) -> bool:
        """Whether `==` tests for the same axis; in the function of a `te.compute`, it compares values."""
        return other is None or (isinstance(other, IterVar) and not is_declaring())

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        kind = self.thread_tag or self.kind.value
        return one_line(f"IterVar({self.name}: {kind}, {self.dom})")


_ITER_TYPES = {
    AxisKind.DATA: IterVar.DataPar,
    AxisKind.THREAD: IterVar.ThreadIndex,
    AxisKind.REDUCE: IterVar.CommReduce,
    AxisKind.ORDERED: IterVar.Ordered,
}


def _from_legacy(dom: Any, var: Any, number: int, tag: Any) -> tuple[str, Range | None, AxisKind, ThreadTag | None]:
    """The name, range, kind and thread of an axis that is made of the legacy API's arguments."""
    kind = next((kind for kind, its in _ITER_TYPES.items() if its == number), None)
    name = var.name if isinstance(var, Var) else var
    if kind is None or not isinstance(name, str):
        raise not_made("IterVar", 'make one with te.reduce_axis((0, n)) or te.thread_axis("threadIdx.x")')
    return name, None if dom is None else to_range(dom, "IterVar", name), kind, ThreadTag.parse(tag or "")


def whole(value: Any) -> Expr | None:
    """`value` as an integer expression, else None. A whole float such as 8.0, from a division, is accepted."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer, Operand)):
        return None
    e = as_expr(value)
    return e if e.dtype.is_int else None


def extent_or(axis: IterVar, otherwise: int) -> int:
    """Return the extent of an axis, or `otherwise` if the extent is known only at the call."""
    extent = axis.dom.extent if axis.dom is not None else None
    return extent.value if isinstance(extent, IntImm) else otherwise


def known_before(e: Expr, primitive: str, about: str, fix: str) -> Expr:
    """Return `e` after a check that it is known before the program runs: from numbers and sizes, not tensors."""
    if loads(e):
        raise UserError(
            f"{about} is `{e}`, which is read from a tensor: its value is known only while the program runs",
            primitive=primitive,
            fix=fix,
        )
    return e


def to_range(dom: Any, primitive: str, name: str) -> Range:
    """A range from a `Range`, a pair (begin, end), or an extent; `name` is the axis it is for."""
    if not isinstance(name, str):
        raise UserError(
            f"the name of the axis is {name!r}, which is not text", primitive=primitive, fix='give some text: name="k"'
        )
    if isinstance(dom, Range):
        return dom
    parts = tuple(dom) if isinstance(dom, (tuple, list)) else (dom,)
    ends = [whole(part) for part in parts]
    if len(parts) not in (1, 2) or (len(parts) == 1 and parts[0] is not dom) or None in ends:
        raise UserError(
            f"{dom!r} is not a range for {name!r}",
            primitive=primitive,
            fix="give (begin, end), whole numbers or integer variables, the end excluded",
        )
    made = Range(*ends)
    if isinstance(made.extent, IntImm) and made.extent.value < 0:
        raise UserError(
            f"the range {dom!r} of {name!r} ends before it begins",
            primitive=primitive,
            fix="give (begin, end) with begin <= end",
        )
    return made


def counted(extent: Expr) -> Expr:
    """An extent in as many bits as counting it needs: the last tile of a loop may reach beyond the end."""
    return const(extent.value, "int64") if isinstance(extent, IntImm) and extent.value > 2**30 else extent


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "", span: Any = None) -> IterVar:
    """An axis to reduce over.

    `dom` is `(begin, end)`, end excluded. Use the axis inside `te.sum(..., axis=k)`. Both ends may be elements of
    tensors, as in `(0, L[i])`. Each element of the result then has a range of its own, which is empty unless begin <
    end. Raises UserError for a range that is known to be reversed.
    """
    made = to_range(dom, "reduce_axis", name)
    if loads(made.min, made.extent):
        made = _range_of_values(dom, made)
    return IterVar(name, Range.from_min_extent(made.min, counted(made.extent)), AxisKind.REDUCE)


def _range_of_values(dom: Any, made: Range) -> Range:
    """A range with ends read from tensors, which may have any values. The extent is at least 0 and does not wrap."""
    parts = (made.min, made.extent) if isinstance(dom, Range) else dom if isinstance(dom, (tuple, list)) else (dom,)
    low, *rest = [_as_counter(as_expr(part)) for part in parts]
    if isinstance(dom, Range):
        return Range.from_min_extent(low, maximum(rest[0], 0))
    if not rest or is_const(low, 0):
        return Range(maximum(rest[0] if rest else low, 0))
    low, high = match_types(low, rest[0])
    # Unsigned, because NVRTC takes `low < high ? high - low : 0` for max(high - low, 0), which wraps.
    bits = DType(f"u{high.dtype}")
    count = cast(high.dtype, subtract(cast(bits, high), cast(bits, low)))
    return Range.from_min_extent(low, if_then_else(less(low, high), count, const(0, high.dtype)))


def _as_counter(e: Expr) -> Expr:
    """An integer in a type that loops count in."""
    if isinstance(e, IntImm) or e.dtype in (INT32, INT64):
        return e
    return cast(INT32 if e.dtype.bits < 32 else INT64, e)


def thread_axis(dom: Any = None, tag: str = "", name: str = "", span: Any = None) -> IterVar:
    """A hardware thread index to bind an axis to: `thread_axis("threadIdx.x")`, or with a fixed extent
    `thread_axis((0, 64), "threadIdx.x")`.

    All axes of one tag are the same hardware index of a kernel; each "vthread" axis is its own. Raises
    UserError for an unknown tag.
    """
    if isinstance(dom, str):
        dom, tag = None, dom
    thread = ThreadTag.parse(tag)
    if thread is None:
        raise UserError(
            f"unknown thread tag {tag!r}",
            primitive="thread_axis",
            fix="use one of " + ", ".join(t.value for t in ThreadTag),
        )
    made = None if dom is None else to_range(dom, "thread_axis", name or tag)
    if made is not None and not (isinstance(made.min, IntImm) and made.min.value == 0):
        raise UserError(
            f"the range {dom!r} of {tag} does not begin at 0",
            primitive="thread_axis",
            fix="threads count from 0: (0, n)",
        )
    if made is not None:
        fix = "launch threads for the largest value, and guard: te.if_then_else(i < n, ..., 0)"
        known_before(made.extent, "thread_axis", f"the extent of {tag}", fix)
    return IterVar(name or tag, made, AxisKind.THREAD, thread)
