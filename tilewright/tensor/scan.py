"""Scans: recurrences along the first dimension, with steps that read the results of earlier steps."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from ..core.errors import UserError
from ..core.refusals import not_made
from ..core.text import quantity
from ..expr.nodes import Expr
from ..expr.operators import subtract
from .axis import AxisKind, IterVar, Range
from .tag_scope import tagged
from .tensor import Operation, PlaceholderOp, Tensor

_SPATIAL: WeakKeyDictionary[ScanOp, tuple[IterVar, ...]] = WeakKeyDictionary()


class ScanOp(Operation):
    """Tensors with `init` as the first rows, and row t of `update` as row t; `update` reads earlier rows as `state`.

    `scan_axis` runs over the rows that `update` computes; `init`, `update` and `state` have one tensor per result.
    """

    __slots__ = ("init", "scan_axis", "state", "update")

    def __init__(
        self,
        name: str,
        scan_axis: IterVar,
        init: tuple[Tensor, ...],
        update: tuple[Tensor, ...],
        state: tuple[Tensor, ...],
        tag: str = "",
        attrs: Any = None,
    ) -> None:
        parts = (init, update, state)
        if not all(isinstance(part, tuple) and part and isinstance(part[0], Tensor) for part in parts):
            raise not_made("ScanOp", "make one with te.scan(init, update, state)")
        self.scan_axis = scan_axis
        self.init = init
        self.update = update
        self.state = state
        super().__init__(name, state[0].shape, tuple(t.dtype for t in state), tag, attrs)

    def reading(self, init: tuple[Tensor, ...], update: tuple[Tensor, ...]) -> ScanOp:
        """Return the scan with other tensors."""
        return ScanOp(self.name, self.scan_axis, init, update, self.state, self.tag, self.attrs)

    def shape_of(self, index: int) -> tuple[Expr, ...]:
        return self.state[index].shape

    @property
    def loop_axes(self) -> tuple[IterVar, ...]:
        return (self.scan_axis,)

    @property
    def spatial_axis_(self) -> tuple[IterVar, ...]:
        """An axis for each dimension of each result but the first; no loop of the schedule is one of them."""
        if self not in _SPATIAL:
            extents = [state.shape[d] for state in self.state for d in range(1, len(state.shape))]
            _SPATIAL[self] = tuple(
                IterVar(f"{self.name}.i{k}", Range.from_min_extent(0, extent), AxisKind.DATA)
                for k, extent in enumerate(extents)
            )
        return _SPATIAL[self]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys((*self.init, *self.update)))

    def steps(self) -> tuple[Operation, ...]:
        """The operations that run anew in each step: the operations between the states and the updates, including the
        updates."""
        known: dict[Operation, bool] = {tensor.op: True for tensor in self.state}

        def depends(op: Operation) -> bool:
            stack = [op]
            while stack:
                at = stack[-1]
                waiting = [t.op for t in at.input_tensors if t.op not in known]
                if at in known or not waiting:
                    known.setdefault(at, any(known[t.op] for t in at.input_tensors))
                    stack.pop()
                else:
                    stack += waiting
            return known[op]

        updates = {tensor.op for tensor in self.update}
        for op in updates:
            depends(op)
        states = {tensor.op for tensor in self.state}
        return tuple(op for op, inside in known.items() if (inside or op in updates) and op not in states)


def scan(
    init: Any,
    update: Any,
    state_placeholder: Any,
    inputs: Any = None,
    name: str = "scan",
    tag: str = "",
    attrs: Any = None,
) -> Any:
    """Compute a recurrence along the first dimension.

        s = te.placeholder((m, n))
        first = te.compute((1, n), lambda _, i: X[0, i])
        step = te.compute((m, n), lambda t, i: s[t - 1, i] + X[t, i])
        total = te.scan(first, step, s, inputs=[X])

    Parameters
    ----------
    init
        The first rows, of shape (k, ...).
    update
        Row t in terms of earlier rows, of the state's shape; only rows k and later are computed.
    state_placeholder
        The placeholder that `update` reads earlier rows from.
    inputs
        Further tensors that the scan reads; accepted for old scripts.

    Each of the first three may be a list, for several states that advance together.

    Returns
    -------
    The tensor of all rows, a list of tensors for several states.

    Raises
    ------
    UserError
        If the numbers of tensors, their shapes or types do not fit each other.
    """
    several = isinstance(state_placeholder, (list, tuple))
    first, step, state = _tensors(init, "init"), _tensors(update, "update"), _tensors(state_placeholder, "state")
    if not len(first) == len(step) == len(state):
        raise UserError(
            f"{quantity(len(first), 'initial value')}, {quantity(len(step), 'update')} and "
            f"{quantity(len(state), 'state')} are given to {name!r}",
            primitive="scan",
            fix="give one of each per state",
        )
    for a, b, c in zip(first, step, state, strict=True):
        _check_state(a, b, c, name)
    rows, known = state[0].shape[0], first[0].shape[0]
    axis = IterVar(f"{name}.idx", Range.from_min_extent(known, subtract(rows, known)), AxisKind.ORDERED)
    op = ScanOp(name, axis, first, step, state, tagged(tag, name), attrs)
    return list(op.outputs) if several else op.outputs[0]


def _tensors(given: Any, what: str) -> tuple[Tensor, ...]:
    listed = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for tensor in listed:
        if not isinstance(tensor, Tensor):
            raise UserError(
                f"{what} is {tensor!r}, which is not a tensor",
                primitive="scan",
                fix="te.scan(init, update, state) of tensors, or of lists of tensors",
            )
    return listed


def _check_state(init: Tensor, update: Tensor, state: Tensor, name: str) -> None:
    if not isinstance(state.op, PlaceholderOp):
        raise UserError(
            f"the state {state.name!r} of {name!r} is computed",
            primitive="scan",
            fix="give the te.placeholder that the update reads earlier rows from",
        )
    same = update.shape == state.shape and init.shape[1:] == state.shape[1:] and len(init.shape) == len(state.shape)
    if not same or not state.shape or not init.dtype == update.dtype == state.dtype:
        shown = ", ".join(f"{t.name!r} is {t.dtype}{list(t.shape)}" for t in (init, update, state))
        raise UserError(
            f"the parts of {name!r} do not fit each other: {shown}",
            primitive="scan",
            fix="give the update the shape and type of the state, and init the same but for its number of rows",
        )
