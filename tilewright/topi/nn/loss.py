"""Losses of training."""

from __future__ import annotations

from math import nan
from typing import Any

from ...core.errors import UserError
from ...expr.operators import all_of, cast, const, equal, if_then_else
from ...tensor.tensor import Tensor, compute
from ..argument_checks import index_tensor, integer, one_of, rank_of, same, tensor, wide_index
from ..reduction import sum as sum_of
from .sums import narrowed, sum_type


def nll_loss(
    predictions: Tensor, targets: Tensor, weights: Tensor, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """Compute the negative log likelihood of the right classes, weighted by class.

    Parameters
    ----------
    predictions
        The logarithms of probabilities: a tensor of floats of shape (batch, classes, ...), or (classes,).
    targets
        The right classes: a tensor of integers of that shape without the classes. The loss of one that is neither a
        class nor `ignore_index` is NaN.
    weights
        A factor for each class: a tensor of shape (classes,).
    reduction
        "mean" (the sum divided by that of the weights used), "sum", or "none".
    ignore_index
        A class that does not count.

    Returns
    -------
    A tensor of the shape of `targets` for "none", else of no dimension; 16-bit floats are added up in float32.

    Raises
    ------
    UserError
        For shapes and types that do not fit each other.
    """
    guess, right = tensor(predictions, "predictions", "nll_loss"), index_tensor(targets, "targets", "nll_loss")
    factor = rank_of(tensor(weights, "weights", "nll_loss"), 1, "weights", "nll_loss", "(classes,)")
    if not guess.ndim or not guess.dtype.is_float or factor.dtype != guess.dtype:
        raise UserError(
            f"predictions {guess.name!r} is {guess.dtype}{list(guess.shape)}, and weights are {factor.dtype}",
            primitive="nll_loss",
            fix="give floats of one type, predictions with a dimension of classes",
        )
    at = 1 if guess.ndim > 1 else 0
    rank_of(right, guess.ndim - 1, "targets", "nll_loss")
    same(factor.shape[0], guess.shape[at], "elements of weights and classes of predictions", "nll_loss")
    for d, n in enumerate(n for d, n in enumerate(guess.shape) if d != at):
        same(n, right.shape[d], f"extents of dimension {d} of targets and of predictions", "nll_loss")
    ignored = integer(ignore_index, "ignore_index", "nll_loss")
    how = one_of(reduction, ("mean", "sum", "none"), "reduction", "nll_loss")
    kind = guess.dtype if how == "none" else sum_type(guess.dtype)

    def counted(value: Any, name: str) -> Tensor:
        def element(*i: Any) -> Any:
            label = wide_index(right(*i))
            there = all_of(label >= 0, label < cast(label.dtype, guess.shape[at]))  # nothing is read beyond the classes
            known = if_then_else(there, value(i, label), const(nan, kind))
            return if_then_else(equal(label, const(ignored, label.dtype)), const(0, kind), known)

        made: Tensor = compute(right.shape, element, name, "elemwise")
        return made

    def loss(i: Any, c: Any) -> Any:
        return const(0, kind) - cast(kind, guess(*i[:at], c, *i[at:])) * cast(kind, factor(c))

    losses = counted(loss, "T_nll")
    if how == "none":
        return losses
    total = sum_of(losses) if right.ndim else losses
    if how == "sum":
        return narrowed(total, guess.dtype)
    used = counted(lambda i, c: cast(kind, factor(c)), "T_nll_weights")
    count = sum_of(used) if right.ndim else used
    made: Tensor = compute((), lambda: cast(guess.dtype, total() / count()), "T_nll_mean", "elemwise")
    return made
