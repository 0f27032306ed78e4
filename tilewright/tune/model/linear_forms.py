"""Linear forms of indices: the change of an index per step of each loop, for many configurations at once.

A step is a number, or an array with one element per configuration. Quotients and remainders are rounded to the linear
form with their reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm, Var
from .traced import Number

LinearForm = dict[Var, Number]
"""The change of an index per step of each loop."""


def moves(step: Number) -> bool:
    """Return whether a step is nonzero in some configuration."""
    return bool(step.any()) if isinstance(step, np.ndarray) else bool(step)


def joined(forms: Iterable[LinearForm]) -> LinearForm:
    """Return the largest step of each loop in any of the forms."""
    made: LinearForm = {}
    for form in forms:
        for var, step in form.items():
            made[var] = np.maximum(made[var], step) if var in made else step
    return made


def plus(a: LinearForm, b: LinearForm, sign: int = 1) -> LinearForm:
    """Return the sum of two forms, or their difference."""
    made = dict(a)
    for var, step in b.items():
        made[var] = made.get(var, 0) + sign * step
    return made


def scaled(form: LinearForm, factor: Number) -> LinearForm:
    """Return a form multiplied by a number."""
    return {var: step * factor for var, step in form.items()}


def divided(form: LinearForm, width: Number, extents: Mapping[Var, Number]) -> LinearForm:
    """Return the quotient of a form by a width. Loops that stay within a multiple of the width do not change it."""
    below = _stays_below(form, width, extents)
    return {var: np.where(below[var], 0, step / width) for var, step in form.items()}


def remainder(form: LinearForm, width: Number, extents: Mapping[Var, Number]) -> LinearForm:
    """Return the remainder of a form by a width. Loops with steps of whole widths do not change it; its reach is
    less."""
    below = _stays_below(form, width, extents)
    made: LinearForm = {}
    for var, step in form.items():
        steps = np.maximum(extents.get(var, 1) - 1, 1)
        wrapped = np.where(np.abs(step) >= width, step % width, np.minimum(np.abs(step), (width - 1) / steps))
        made[var] = np.where(below[var], step, wrapped)
    return made


def _stays_below(form: LinearForm, width: Number, extents: Mapping[Var, Number]) -> dict[Var, Number]:
    """Return, for each loop, whether it stays below the width together with all loops of smaller or equal steps.

    It does if their reach is less than the greatest common divisor of the width and all larger steps.
    """
    far, ends = _rows(form.values()), _rows([extents.get(var, 1) for var in form])
    far = np.abs(far)
    small = far[None] <= far[:, None]  # for each loop, the loops with steps that are not larger
    within = np.where(small, (far * (ends - 1))[None], 0).sum(axis=1)
    unit = np.gcd(np.gcd.reduce(np.where(small, 0, far.astype(np.int64)[None]), axis=1), width)
    return dict(zip(form, within < unit, strict=True))


def _rows(values: Iterable[Number]) -> np.ndarray:
    """Return one row per number."""
    each = list(values)
    wide = max((len(value) for value in each if isinstance(value, np.ndarray) and value.ndim), default=1)
    made = np.empty((len(each), wide))
    for row, value in zip(made, each, strict=True):
        row[:] = value
    return made


def form_of(e: Expr, roots: Mapping[Var, LinearForm], extents: Mapping[Var, Number]) -> tuple[LinearForm, Number]:
    """Return an index as a form over the loops, and its constant."""
    if isinstance(e, IntImm):
        return {}, e.value
    if isinstance(e, Var):
        return roots.get(e, {}), 0
    if isinstance(e, (n.Add, n.Sub)):
        (a, p), (b, q) = form_of(e.a, roots, extents), form_of(e.b, roots, extents)
        sign = 1 if isinstance(e, n.Add) else -1
        return plus(a, b, sign), p + sign * q
    if isinstance(e, n.Mul):
        (a, p), (b, q) = form_of(e.a, roots, extents), form_of(e.b, roots, extents)
        return (scaled(a, q), p * q) if not b else (scaled(b, p), p * q)
    if isinstance(e, (n.FloorDiv, n.FloorMod, n.Div, n.Mod)) and isinstance(e.b, IntImm):
        form, p = form_of(e.a, roots, extents)
        if isinstance(e, (n.FloorDiv, n.Div)):
            return divided(form, e.b.value, extents), p // e.b.value
        return remainder(form, e.b.value, extents), p % e.b.value
    parts = [form_of(child, roots, extents)[0] for child in e.children() if isinstance(child, Expr)]
    return joined(parts), 0


def reach(form: LinearForm, extents: Mapping[Var, Number], running: Iterable[Var] | None = None) -> Number:
    """Return the range of an index over all iterations of the given loops, by default of all known loops."""
    total: Number = 0
    wanted = None if running is None else set(running)
    for var, step in form.items():
        if wanted is None or var in wanted:
            total = total + np.abs(step) * (extents.get(var, 1) - 1)
    return total
