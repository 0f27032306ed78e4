"""Whether indices enumerate iterators by their digits: `detect_iter_map` and related functions of the legacy API.

Every index is rewritten to a sum of splits (see `iter_marks.py`). A quotient or a remainder of such a sum is one of its
digits if the splits are the digits of one number. Sorted by scale, each scale is then the product of the extents of the
splits before it. Extents are constants or sizes. If padding would be needed, that is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.errors import UserError
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import add, as_expr, const, floordiv, floormod, multiply, subtract
from ..expr.traverse import conjuncts, uses_any, variables
from .facts import is_index
from .iter_marks import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    checked_level,
    checked_list,
    normalize_iter_map_to_expr,
    split_of,
    whole,
)
from .prove import is_size
from .simplify import simplify
from .sizes import Number, Size, as_size, by_magnitude, number, written

_Digits = tuple[IterSplitExpr, ...]


class _NoDigitsError(Exception):
    """An expression is no sum of splits, for the given reason."""


class _Rewriter:
    """Expressions of iterators as sums of splits."""

    def __init__(self, iters: Mapping[Var, Any], trivial: bool, as_wholes: bool) -> None:
        self.as_wholes = as_wholes
        """Whether a divided sum must be one number; else terms that the divisor divides evenly stay separate."""
        self.marks: dict[Var, IterMark] = {}
        self.starts: dict[Var, Expr] = {}
        self.bounds: dict[_Digits, Number] = {}
        """The sums that a predicate bounds, each with its number of values."""
        for var, given in iters.items():
            extent, least = as_expr(given.extent), as_expr(given.min)
            value = number(simplify(extent))
            self.starts[var] = least
            if isinstance(value, Size) or value > 1 or not trivial:
                source = var if isinstance(least, IntImm) and least.value == 0 else subtract(var, least)
                self.marks[var] = IterMark(source, written(value, var.dtype))

    def sum_of(self, e: Expr) -> IterSumExpr:
        """The sum of splits that an expression is."""
        if isinstance(e, Var) and e in self.starts:
            mark = self.marks.get(e)
            return IterSumExpr((whole(mark),) if mark else (), self.starts[e])
        if not uses_any(e, self.starts):
            return IterSumExpr((), e)
        if not is_index(e.dtype):
            raise _NoDigitsError(f"`{e}` is of type {e.dtype}, in which sums wrap")
        if isinstance(e, (n.Add, n.Sub)):
            return self._added(self.sum_of(e.a), self.sum_of(e.b), 1 if isinstance(e, n.Add) else -1)
        if isinstance(e, n.Mul):
            factor, other = (e.a, e.b) if is_size(e.a) else (e.b, e.a)
            if is_size(factor):
                return self._scaled(self.sum_of(other), number(factor))
        if isinstance(e, (n.FloorDiv, n.FloorMod)) and is_size(e.b):
            by = number(e.b)
            if by != 0 and by >= 0:  # a size that is 0 divides nothing
                return self._divided(self.sum_of(e.a), by, isinstance(e, n.FloorMod), e)
        raise _NoDigitsError(f"`{e}` is not a sum, quotient or remainder by constants or sizes")

    def _added(self, a: IterSumExpr, b: IterSumExpr, sign: int) -> IterSumExpr:
        args = list(a.args)
        for arg in self._scaled(b, sign).args:
            same = next((x for x in args if _digits(x) == _digits(arg)), None)
            scale = number(arg.scale) + (number(same.scale) if same is not None else 0)
            args = [x for x in args if x is not same]
            if scale:
                args.append(_with_scale(arg, scale))
        return IterSumExpr(tuple(args), simplify((add if sign > 0 else subtract)(a.base, b.base)))

    def _scaled(self, a: IterSumExpr, by: Number) -> IterSumExpr:
        if by == 0:
            return IterSumExpr((), const(0, a.base.dtype))
        args = tuple(_with_scale(arg, number(arg.scale) * by) for arg in a.args)
        return IterSumExpr(args, simplify(multiply(a.base, written(by, a.base.dtype))))

    def _divided(self, a: IterSumExpr, by: Number, remainder: bool, e: Expr) -> IterSumExpr:
        """Quotient, or remainder, by a number; the terms that it does not divide evenly have to be the digits of one
        number."""
        together = self._is_bounded(a.args) or (self.as_wholes and self._is_number(a.args, e))
        multiples = [arg for arg in a.args if number(arg.scale) % by == 0 and not together]
        rest = tuple(arg for arg in a.args if arg not in multiples)
        divisor = written(by, a.base.dtype)
        left = simplify(floormod(a.base, divisor))
        outside: list[IterSplitExpr] = []
        if not remainder:
            outside = [_with_scale(arg, number(arg.scale) // by) for arg in multiples]
        base = left if remainder else simplify(floordiv(a.base, divisor))
        if not rest:
            return IterSumExpr(tuple(outside), base)
        start = left.value if isinstance(left, IntImm) else by
        if all(number(arg.scale) > 0 for arg in rest) and start + _largest(rest) < by:
            return IterSumExpr((*rest, *outside) if remainder else tuple(outside), base)
        if start:
            raise _NoDigitsError(
                f"`{e}` divides a value that does not begin at a multiple of {divisor}: it would need padding"
            )
        digit = self.fused(rest, e)
        scale, extent = number(digit.scale), number(digit.extent)
        low = by // scale
        if by % scale or (extent % low and not low >= extent):
            parts = f"{digit.extent} values of scale {digit.scale}"
            raise _NoDigitsError(f"`{e}` divides {parts}, which {divisor} does not divide evenly")
        low = extent if low >= extent else low
        if remainder:
            made = split_of(digit.source, number(digit.lower_factor), low, scale)
        else:
            made = split_of(digit.source, number(digit.lower_factor) * low, extent // low, 1)
        kept = (made,) if number(made.extent) != 1 else ()
        return IterSumExpr((*kept, *outside), base)

    def _is_number(self, args: _Digits, e: Expr) -> bool:
        try:
            return bool(args) and self.fused(args, e) is not None
        except _NoDigitsError:
            return False

    def _is_bounded(self, args: _Digits) -> bool:
        """Whether the values of a sum end at the bound of a predicate."""
        if not self.bounds:
            return False
        least = min((abs(number(arg.scale)) for arg in args), default=1)
        parts = _by_scale(args, descending=True)
        return tuple(_with_scale(part, number(part.scale) // least) for part in parts) in self.bounds

    def fused(self, args: _Digits, e: Expr) -> IterSplitExpr:
        """The one split that a sum of splits is."""
        parts = _joined(_by_scale(args))
        if len(parts) == 1 and not self.bounds:
            return parts[0]
        parts = self._with_bounded_sums(parts)
        base = number(parts[0].scale)
        chain = base
        for part in parts:
            if number(part.scale) != chain:
                shown = normalize_iter_map_to_expr(IterSumExpr((part,), const(0, part.scale.dtype)))
                end = as_size(chain)
                raise _NoDigitsError(f"the scale of `{shown}` in `{e}` is not {end}, the end of the digits before it")
            chain *= number(part.extent)
        own = tuple(_with_scale(part, number(part.scale) // base) for part in reversed(parts))
        bound = self.bounds.get(own)
        if len(parts) == 1 and bound is None:
            return parts[0]
        extent = min(chain // base, bound) if bound is not None else chain // base
        source = IterSumExpr(own, const(0, parts[0].scale.dtype))
        return whole(IterMark(source, written(extent, parts[0].scale.dtype)), base)

    def _with_bounded_sums(self, parts: list[IterSplitExpr]) -> list[IterSplitExpr]:
        """Replace splits that are a part of a sum with a separate bound by one split, the longest part first."""
        for own, bound in sorted(self.bounds.items(), key=lambda each: -len(each[0])):
            places = {_digits(part): number(part.scale) for part in parts}
            scale = places.get(_digits(own[-1]), 0)
            if not 1 < len(own) < len(parts) or scale % number(own[-1].scale):
                continue
            scale //= number(own[-1].scale)
            if scale and all(places.get(_digits(arg)) == scale * number(arg.scale) for arg in own):
                taken = {_digits(arg) for arg in own}
                dtype = own[0].scale.dtype
                values = min(_largest(own) + 1, bound)
                mark = IterMark(IterSumExpr(own, const(0, dtype)), written(values, dtype))
                parts = [part for part in parts if _digits(part) not in taken]
                parts = _by_scale([*parts, whole(mark, scale)])
        return parts

    def assume_all(self, predicate: Expr) -> None:
        """Apply the bounds of sums, shorter sums first, because longer sums contain them."""
        for condition in sorted(conjuncts(predicate), key=lambda each: len(variables(each))):
            self.assume(condition)

    def assume(self, condition: Expr) -> None:
        """Take a bound of a sum into account."""
        if isinstance(condition, IntImm) and condition.value:
            return
        if isinstance(condition, (n.GT, n.GE)):
            condition = (n.LT if isinstance(condition, n.GT) else n.LE)(condition.b, condition.a)
        if not isinstance(condition, (n.LT, n.LE)):
            raise _NoDigitsError(f"the predicate `{condition}` is not an upper bound of an index")
        found = self.sum_of(subtract(condition.a, condition.b))
        least = simplify(found.base)
        falls = all(number(arg.scale) < 0 for arg in found.args)
        if falls and isinstance(least, IntImm) and least.value < isinstance(condition, n.LE):
            return  # a lower bound that always holds
        if not isinstance(least, IntImm) or not found.args or any(number(arg.scale) < 0 for arg in found.args):
            raise _NoDigitsError(f"the predicate `{condition}` is not an upper bound of an index by a constant")
        if any(isinstance(number(part), Size) for arg in found.args for part in (arg.scale, arg.extent)):
            raise _NoDigitsError(f"the predicate `{condition}` bounds an index of symbolic extent")
        values = -least.value + isinstance(condition, n.LE)
        split = self.fused(found.args, condition)
        args = split.source.args if isinstance(split.source, IterSumExpr) else None
        source = split.source.source
        own = args or (source.args if isinstance(source, IterSumExpr) else (_with_scale(split, 1),))
        bound = -(-values // number(split.scale))
        self.bounds[own] = min(bound, self.bounds.get(own, bound))


def _with_scale(split: IterSplitExpr, scale: Number) -> IterSplitExpr:
    return IterSplitExpr(split.source, split.lower_factor, split.extent, written(scale, split.scale.dtype))


def _digits(split: IterSplitExpr) -> tuple[Any, ...]:
    return split.source, split.lower_factor, split.extent


def _by_scale(args: Sequence[IterSplitExpr], *, descending: bool = False) -> list[IterSplitExpr]:
    return sorted(args, key=lambda arg: by_magnitude(number(arg.scale)), reverse=descending)


def _largest(args: Sequence[IterSplitExpr]) -> Number:
    return sum((number(arg.extent) - 1) * number(arg.scale) for arg in args)


def _joined(parts: list[IterSplitExpr]) -> list[IterSplitExpr]:
    """Join neighbouring digits of one mark, at their places, to one split again."""
    made: list[IterSplitExpr] = []
    for part in parts:
        last = made[-1] if made else None
        if (
            last is not None
            and last.source == part.source
            and number(last.lower_factor) * number(last.extent) == number(part.lower_factor)
            and number(last.scale) * number(last.extent) == number(part.scale)
        ):
            extent = number(last.extent) * number(part.extent)
            made[-1] = split_of(last.source, number(last.lower_factor), extent, number(last.scale))
        else:
            made.append(part)
    return made


def _coverage(indices: Sequence[IterSumExpr], rewriter: _Rewriter, level: IterMapLevel) -> str | None:
    """Why the splits of some mark overlap, or leave values out; None if they do not."""
    parts: dict[IterMark, list[IterSplitExpr]] = {}

    def collect(split: IterSplitExpr) -> None:
        known = split.source in parts
        parts.setdefault(split.source, []).append(split)
        if not known and isinstance(split.source.source, IterSumExpr):
            for arg in split.source.source.args:
                collect(arg)

    for index in indices:
        for arg in index.args:
            collect(arg)
    for mark, splits in parts.items():
        reached: Number = 1
        for split in sorted(splits, key=lambda each: by_magnitude(number(each.lower_factor))):
            low = number(split.lower_factor)
            if low < reached or low % reached or (level is IterMapLevel.Bijective and low != reached):
                return f"the splits of `{normalize_iter_map_to_expr(mark.source)}` overlap, or leave digits out"
            reached = low * number(split.extent)
        if number(mark.extent) % reached or (level is IterMapLevel.Bijective and number(mark.extent) != reached):
            return f"the splits of `{normalize_iter_map_to_expr(mark.source)}` leave some of its values out"
    sums = {mark.source.args for mark in parts if isinstance(mark.source, IterSumExpr)}
    for bounded in rewriter.bounds:
        if bounded not in sums:
            shown = normalize_iter_map_to_expr(IterSumExpr(bounded, const(0, "int32")))
            return f"the predicate bounds `{shown}`, which no index counts through as a whole"
    unused = [var.name for var, mark in rewriter.marks.items() if mark not in parts and number(mark.extent) > 1]
    if level is IterMapLevel.Bijective and unused:
        return f"no index depends on {', '.join(unused)}"
    return None


def detect_iter_map(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Any],
    predicate: Any = True,
    check_level: IterMapLevel = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """Rewrite indices to digits of iterators, and check that they reach all values of them independently.

    Parameters
    ----------
    indices
        Expressions of the iterators.
    input_iters
        The range of each iterator, a variable; extents are constants or sizes.
    predicate
        Upper bounds of indices that hold, joined by `tir.all`: `i * 4 + j < 10`.
    check_level
        Whether all iterators have to be used (`Bijective`), each used one fully (`Surjective`), or neither.
    simplify_trivial_iterators
        Whether iterators of extent 1 are constants.

    Returns
    -------
    IterMapResult
        `indices` has a sum of splits for each index; it is empty if there is none, and `errors` says why.

    Notes
    -----
    Cases that the legacy API pads are errors here; `padding_predicate` is false always.
    """
    level = checked_level(check_level)
    given = [as_expr(index) for index in checked_list("indices", indices, "detect_iter_map")]
    errors: list[str] = []
    for as_wholes in (False, True):
        rewriter = _rewriter(input_iters, simplify_trivial_iterators, "detect_iter_map", as_wholes)
        try:
            rewriter.assume_all(as_expr(predicate))
            found = [_whole_index(rewriter, index) for index in given]
            wrong = None if level is IterMapLevel.NoCheck else _coverage(found, rewriter, level)
        except _NoDigitsError as reason:
            wrong = str(reason)
        if wrong is None:
            return IterMapResult(found, [], const(False, "bool"))
        errors = errors or [wrong]
    return IterMapResult([], errors, const(False, "bool"))


def _rewriter(iters: Any, trivial: bool, primitive: str, as_wholes: bool = False) -> _Rewriter:
    if not isinstance(iters, Mapping) or not all(isinstance(var, Var) for var in iters):
        raise UserError(
            f"the iterators are {iters!r}, not a range for each variable",
            primitive=primitive,
            fix="give {i: tvm.ir.Range(0, 8), j: tvm.ir.Range(0, 4)}",
        )
    return _Rewriter(iters, trivial, as_wholes)


def _whole_index(rewriter: _Rewriter, index: Expr) -> IterSumExpr:
    found = rewriter.sum_of(index)
    return IterSumExpr((rewriter.fused(found.args, index),), found.base) if found.args else found


def normalize_to_iter_sum(index: Any, input_iters: Mapping[Var, Any]) -> IterSumExpr:
    """Return an index as a sum of splits, the one with the largest scale first; nothing is checked.

    Raises
    ------
    UserError
        If the index is not a sum of quotients and remainders of iterators by constants.
    """
    rewriter = _rewriter(input_iters, True, "normalize_to_iter_sum")
    try:
        found = rewriter.sum_of(as_expr(index))
    except _NoDigitsError as reason:
        raise UserError(
            str(reason),
            primitive="normalize_to_iter_sum",
            fix="give sums of iterators, and quotients and remainders of them",
        ) from None
    return IterSumExpr(tuple(_by_scale(found.args, descending=True)), found.base)


def iter_map_simplify(
    indices: Sequence[Any],
    input_iters: Mapping[Var, Any],
    predicate: Any = True,
    check_level: IterMapLevel = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[Expr]:
    """Return indices in terms of the digits that `detect_iter_map` finds; unchanged if it finds none."""
    found = detect_iter_map(indices, input_iters, predicate, check_level, simplify_trivial_iterators)
    return [simplify(normalize_iter_map_to_expr(index)) for index in found.indices] or [
        as_expr(index) for index in indices
    ]


def inverse_affine_iter_map(iter_map: Sequence[IterSumExpr], outputs: Sequence[Any]) -> dict[Var, Expr]:
    """Return the iterators as expressions of the values that the indices of a bijective map have.

    Parameters
    ----------
    iter_map
        The `indices` of a bijective `detect_iter_map`.
    outputs
        A variable, or another expression, for each of them.
    """
    values: dict[IterMark, Expr] = {}
    order: list[IterMark] = []

    def visit(mark: IterMark) -> None:
        if mark not in order:
            if isinstance(mark.source, IterSumExpr):
                for arg in mark.source.args:
                    visit(arg.source)
            order.append(mark)

    def bring(split: IterSplitExpr, value: Expr) -> None:
        """Add the digits of a split to the value of its mark."""
        part = multiply(value, split.lower_factor)
        before = values.get(split.source)
        values[split.source] = part if before is None else add(before, part)

    made, wanted = (
        checked_list(name, value, "inverse_affine_iter_map")
        for name, value in (("iter_map", iter_map), ("outputs", outputs))
    )
    if len(made) != len(wanted) or not all(isinstance(index, IterSumExpr) for index in made):
        raise UserError(
            f"iter_map={iter_map!r} is not a sum for each of {len(wanted)} outputs",
            primitive="inverse_affine_iter_map",
            fix="give the indices that detect_iter_map returns",
        )
    for index, output in zip(made, wanted, strict=True):
        for arg in index.args:
            visit(arg.source)
        _take_apart(index, as_expr(output), bring)
    found: dict[Var, Expr] = {}
    for mark in reversed(order):
        value = simplify(values[mark])
        if isinstance(mark.source, IterSumExpr):
            _take_apart(mark.source, value, bring)
        elif isinstance(mark.source, Var):
            found[mark.source] = value
        else:
            assert isinstance(mark.source, n.Sub)
            assert isinstance(mark.source.a, Var)
            found[mark.source.a] = simplify(add(value, mark.source.b))
    return found


def _take_apart(total: IterSumExpr, value: Expr, bring: Any) -> None:
    """Assign to each split of a sum its part of the sum's value."""
    rest = simplify(subtract(value, total.base))
    for arg in total.args:
        part = floordiv(rest, arg.scale)
        bring(arg, simplify(floormod(part, arg.extent) if len(total.args) > 1 else part))
