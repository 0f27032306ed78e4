"""Operators that move elements: other shapes and other orders of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor.tensor import Tensor, compute, extents
from .argument_checks import dimension, dimensions, integer, known, tensor
from .tag import INJECTIVE


def moved(shape: Sequence[Any], element: Any, name: str) -> Tensor:
    """Return a tensor of this shape with elements from other positions: `element(indices)` reads each."""
    names = [f"ax{i}" for i in range(len(shape))]
    made: Tensor = compute(tuple(shape), lambda *i: element(list(i)), f"T_{name}", INJECTIVE, varargs_names=names)
    return made


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert dimensions of extent 1.

    Parameters
    ----------
    a
        The tensor.
    axis
        The position of the new dimensions in the result; -1 puts them last.
    num_newaxis
        How many there are.

    Returns
    -------
    A tensor with `num_newaxis` more dimensions.
    """
    data, more = tensor(a, "a", "expand_dims"), integer(num_newaxis, "num_newaxis", "expand_dims", 0)
    at = dimension(axis, data.ndim + 1, "expand_dims")
    shape = [*data.shape[:at], *[o.const(1)] * more, *data.shape[at:]]
    return moved(shape, lambda i: data(*i[:at], *i[at + more :]), "expand_dims")


def expand_like(a: Tensor, shape_like: Tensor, axis: Any) -> Tensor:
    """Insert dimensions and repeat the tensor along them, to the shape of another tensor.

    Parameters
    ----------
    a
        The tensor.
    shape_like
        The tensor with the shape of the result.
    axis
        The dimensions of `shape_like` that `a` lacks: an int or several.

    Returns
    -------
    A tensor of the shape of `shape_like`.

    Raises
    ------
    UserError
        If the other dimensions differ from `a`.
    """
    data, like = tensor(a, "a", "expand_like"), tensor(shape_like, "shape_like", "expand_like")
    new = dimensions(axis, like.ndim, "expand_like")
    kept = [n for d, n in enumerate(like.shape) if d not in new]
    if len(kept) != data.ndim or any(known(m) != known(n) for m, n in zip(kept, data.shape, strict=True)):
        raise UserError(
            f"{data.name!r} has the shape {list(data.shape)}, and {like.name!r} without dimensions {new} {kept}",
            primitive="expand_like",
            fix="name the dimensions that the first tensor lacks",
        )
    return moved(like.shape, lambda i: data(*(e for d, e in enumerate(i) if d not in new)), "expand_like")


def squeeze(a: Tensor, axis: Any = None) -> Tensor:
    """Remove dimensions of extent 1.

    Parameters
    ----------
    a
        The tensor.
    axis
        The dimensions to remove: an int, several, or None for all of extent 1.

    Returns
    -------
    A tensor with fewer dimensions.

    Raises
    ------
    UserError
        If a dimension that is to be removed has another extent.
    """
    data = tensor(a, "a", "squeeze")
    ones = [d for d, n in enumerate(data.shape) if known(n) == 1]
    gone = ones if axis is None else dimensions(axis, data.ndim, "squeeze")
    for d in gone:
        if d not in ones:
            raise UserError(
                f"dimension {d} of {data.name!r} has the extent {data.shape[d]}, not 1",
                primitive="squeeze",
                fix=f"name some of the dimensions of extent 1: {ones}",
            )

    def element(i: list[Any]) -> Expr:
        rest = iter(i)
        return data(*(0 if d in gone else next(rest) for d in range(data.ndim)))

    return moved([n for d, n in enumerate(data.shape) if d not in gone], element, "squeeze")


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Reorder the dimensions.

    Parameters
    ----------
    a
        The tensor.
    axes
        The dimensions of `a` in the order of the result; by default the reverse.

    Returns
    -------
    A tensor of the same elements.

    Raises
    ------
    UserError
        If `axes` does not name each dimension once.
    """
    data = tensor(a, "a", "transpose")
    order = list(reversed(range(data.ndim)))
    if axes is not None:
        given = axes if isinstance(axes, (list, tuple)) else [axes]
        order = [dimension(d, data.ndim, "transpose", "axes") for d in given]
        if sorted(order) != list(range(data.ndim)):
            raise UserError(
                f"argument 'axes' is {axes!r}, which is not an order of the dimensions",
                primitive="transpose",
                fix=f"name each of {data.ndim} dimensions once: {list(reversed(range(data.ndim)))}",
            )
    return moved(
        [data.shape[d] for d in order], lambda i: data(*(i[order.index(d)] for d in range(data.ndim))), "transpose"
    )


def flip(a: Tensor, axis: Any = 0) -> Tensor:
    """Reverse the order of elements along dimensions.

    Parameters
    ----------
    a
        The tensor.
    axis
        The dimensions to reverse: an int or several.

    Returns
    -------
    A tensor of the shape of `a`.
    """
    data = tensor(a, "a", "flip")
    turned = dimensions(axis, data.ndim, "flip")
    return moved(
        data.shape,
        lambda i: data(*(data.shape[d] - 1 - e if d in turned else e for d, e in enumerate(i))),
        "flip",
    )


def reverse_sequence(a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0) -> Tensor:
    """Reverse the first elements of each sequence of a batch.

    Parameters
    ----------
    a
        The tensor.
    seq_lengths
        For each sequence, how many elements are reversed: a tensor of integers.
    seq_axis, batch_axis
        The dimension along which sequences lie, and the one that counts them.

    Returns
    -------
    A tensor of the shape of `a`.

    Raises
    ------
    UserError
        If there is not one length per sequence.
    """
    data, lengths = tensor(a, "a", "reverse_sequence"), tensor(seq_lengths, "seq_lengths", "reverse_sequence")
    along, batch = (
        dimension(d, data.ndim, "reverse_sequence", n) for d, n in ((seq_axis, "seq_axis"), (batch_axis, "batch_axis"))
    )
    if lengths.ndim != 1 or not lengths.dtype.is_int or known(lengths.shape[0]) != known(data.shape[batch]):
        raise UserError(
            f"seq_lengths {lengths.name!r} is {lengths.dtype} of shape {list(lengths.shape)}, not one integer each",
            primitive="reverse_sequence",
            fix=f"give int32 of shape [{data.shape[batch]}]",
        )

    def element(i: list[Any]) -> Expr:
        length = o.minimum(o.cast("int32", lengths(i[batch])), data.shape[along])
        place = o.if_then_else(o.less(i[along], length), length - 1 - i[along], i[along])
        return data(*(place if d == along else e for d, e in enumerate(i)))

    return moved(data.shape, element, "reverse_sequence")


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """Give the elements, in row-major order, another shape.

    Parameters
    ----------
    a
        The tensor.
    newshape
        The extents of the result. One extent may be -1: it follows from the other extents.

    Returns
    -------
    A tensor of as many elements.

    Raises
    ------
    UserError
        If the new shape has another number of elements.
    """
    data = tensor(a, "a", "reshape")
    given = list(newshape) if isinstance(newshape, (list, tuple)) else [newshape]
    total: Any = _product(data.shape)
    if given.count(-1) == 1:
        rest, whole = known(_product([n for n in given if not _is_open(n)])), known(total)
        given = [(whole // rest if whole is not None and rest else n) if _is_open(n) else n for n in given]
    shape = extents(given, "reshape", data.name)
    if known(o.subtract(_product(shape), total)) not in (0, None):
        raise UserError(
            f"{data.name!r} of shape {list(data.shape)} cannot have the shape {list(shape)}",
            primitive="reshape",
            fix=f"give a shape of {total} elements",
        )
    return moved(shape, lambda i: data(*unravelled(ravelled(i, shape), data.shape)), "reshape")


def _is_open(n: Any) -> bool:
    return isinstance(n, int) and n == -1


def _product(shape: Sequence[Any]) -> Any:
    total: Any = o.const(1)
    for n in shape:
        total = total * n
    return total


def ravelled(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Return the position of an element in a shape, in row-major order."""
    flat: Any = o.const(0)
    for i, n in zip(indices, shape, strict=True):
        flat = flat * n + i
    return flat


def unravelled(flat: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of the element at place `flat` of a shape."""
    found: list[Any] = []
    if any(known(n) == 0 for n in shape):  # an empty tensor has no positions
        return [o.const(0)] * len(shape)
    for n in reversed(shape[1:]):
        found.append(o.floormod(flat, n))
        flat = o.floordiv(flat, n)
    return [flat, *reversed(found)] if shape else []


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
