"""Sums of products over any dimensions, by the names of their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.text import quantity
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.axis import reduce_axis
from ..tensor.reduction import sum as sum_over
from ..tensor.tensor import Tensor, compute
from .argument_checks import known, tensor
from .tag import INJECTIVE

_MANY = "..."


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """Sum products of elements over named indices, as NumPy's `einsum` does.

    Parameters
    ----------
    subscripts
        A letter per dimension of each operand, separated by commas, and the letters of the result behind "->":
        "ij,jk->ik". Without "->" the result has the letters that occur once, in the order of the alphabet. "..." stands
        for further dimensions, which broadcast. A letter that occurs twice in one operand takes its diagonal.
    operand
        The tensors, or one list of them.

    Returns
    -------
    A tensor of a dimension per letter of the result; the product is summed over all other letters.

    Raises
    ------
    UserError
        For subscripts that do not fit the operands.

    Notes
    -----
    All operands are multiplied at once, in one nest of loops: of three matrices, multiply two first.
    """
    given = operand[0] if len(operand) == 1 and isinstance(operand[0], (list, tuple)) else operand
    inputs = [tensor(each, f"operand[{i}]", "einsum") for i, each in enumerate(given)]
    if not isinstance(subscripts, str) or not inputs:
        raise UserError(
            f"subscripts {subscripts!r} and {quantity(len(inputs), 'tensor')} do not describe a sum",
            primitive="einsum",
            fix='give subscripts and tensors: topi.einsum("ij,jk->ik", A, B)',
        )
    labels, result = _labels(subscripts.replace(" ", ""), inputs)
    extents = _extents(labels, inputs)
    names = list(dict.fromkeys(name for operand_names in labels for name in operand_names))
    summed = {name: reduce_axis((0, extents[name]), name=name.strip(".")) for name in names if name not in result}

    def element(*i: Any) -> Expr:
        at: dict[str, Any] = {**dict(zip(result, i, strict=True)), **summed}
        value: Any = None
        for each, operand_names in zip(inputs, labels, strict=True):
            places = zip(operand_names, each.shape, strict=True)
            read = each(*(o.const(0) if known(n) == 1 and known(extents[k]) != 1 else at[k] for k, n in places))
            value = read if value is None else value * read
        return o.as_expr(sum_over(value, axis=list(summed.values())) if summed else value)

    made: Tensor = compute(
        tuple(extents[name] for name in result), element, "T_einsum", "einsum" if summed else INJECTIVE
    )
    return made


def _labels(text: str, inputs: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    """The names of the dimensions of each operand, and of the result; the dimensions of "..." have numbers."""
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(inputs):
        raise UserError(
            f"subscripts {text!r} describe {quantity(len(parts), 'operand')}, but {len(inputs)} are given",
            primitive="einsum",
            fix="give the letters of each operand, separated by commas",
        )
    labels = [_expanded(part, each) for part, each in zip(parts, inputs, strict=True)]
    counts: dict[str, int] = {}
    for name in (name for names in labels for name in names):
        counts[name] = counts.get(name, 0) + 1
    many = sorted((name for name in counts if name.startswith(".")), key=lambda name: -int(name[1:]))
    if not arrow:
        return labels, [*many, *sorted(name for name, n in counts.items() if n == 1 and not name.startswith("."))]
    result: list[str] = []
    for piece in _pieces(right):
        result += many if piece == _MANY else [piece]
    unknown = [name for name in result if name not in counts]
    if unknown or len(set(result)) != len(result):
        raise UserError(
            f"subscripts {text!r}: the result has {(unknown or result)[0]!r} "
            + ("which no operand has" if unknown else "and its letters more than once"),
            primitive="einsum",
            fix="after ->, give letters of the operands, each once",
        )
    return labels, result


def _pieces(part: str) -> list[str]:
    pieces = list(part.replace(_MANY, "\0"))
    wrong = next((letter for letter in pieces if letter != "\0" and not letter.isalpha()), None)
    if wrong is not None or pieces.count("\0") > 1:
        raise UserError(
            f"subscripts {part!r} hold {wrong or _MANY!r}" + ("" if wrong else " twice"),
            primitive="einsum",
            fix='use a letter per dimension, and "..." at most once for all other dimensions',
        )
    return [_MANY if piece == "\0" else piece for piece in pieces]


def _expanded(part: str, operand: Tensor) -> list[str]:
    """The names of an operand's dimensions: the dimensions of "..." are counted from the last one."""
    pieces = _pieces(part)
    more = operand.ndim - (len(pieces) - (_MANY in pieces))
    if more < 0 or (more and _MANY not in pieces):
        raise UserError(
            f"subscripts {part!r} describe {quantity(len(pieces), 'dimension')}, but operand "
            f"{operand.name!r} has {operand.ndim}",
            primitive="einsum",
            fix='give a letter per dimension, or "..." for several dimensions',
        )
    names: list[str] = []
    for piece in pieces:
        names += [f".{d}" for d in reversed(range(more))] if piece == _MANY else [piece]
    return names


def _extents(labels: list[list[str]], inputs: list[Tensor]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for names, each in zip(labels, inputs, strict=True):
        for name, extent in zip(names, each.shape, strict=True):
            before, now = known(found[name]) if name in found else 1, known(extent)
            if name not in found or before == 1:
                found[name] = extent
            elif now not in (None, 1, before) and before is not None:
                raise UserError(
                    f"index {name.strip('.')!r} has the extents {before} and {now}",
                    primitive="einsum",
                    fix="give the dimensions of one letter one extent",
                )
    return found


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
