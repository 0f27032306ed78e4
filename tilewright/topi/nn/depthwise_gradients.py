"""The gradients of depthwise convolutions by their input and by their filter, channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute, extents
from ..argument_checks import integers, known, rank_of, same, tensor
from .sliding import Sliding
from .sums import narrowed, sum_type
from .window import padding_sides


def depthwise_conv2d_backward_input_nhwc(
    Filter: Tensor, Out_grad: Tensor, oshape: Sequence[Any], ishape: Sequence[Any], stride: Any, padding: Any
) -> Tensor:
    """Compute the gradient of `depthwise_conv2d_nhwc` by its input.

    Parameters
    ----------
    Filter
        The filter (KH, KW, C, M).
    Out_grad
        The gradient with respect to the result, (N, OH, OW, C * M).
    oshape, ishape
        The shapes of the result and of the input.
    stride, padding
        As for the convolution.

    Returns
    -------
    A tensor of shape `ishape`.

    Raises
    ------
    UserError
        If the shapes do not match the tensors.
    """
    name = "depthwise_conv2d_backward_input_nhwc"
    weights, grads = _given({"Filter": Filter, "Out_grad": Out_grad}, {"Out_grad": oshape}, name)
    shape = _four(ishape, extents(ishape, name, "input"), "ishape", "(N, H, W, C)", name)
    rows, columns, channels, multiplier = weights.shape
    same(shape[3], channels, "the channels of ishape and Filter", name)
    _check_result(grads, (shape[0], channels * multiplier), "ishape", name)
    slide = _slide(stride, padding, [rows, columns], name)
    ry, rx = reduce_axis((0, rows), name="dh"), reduce_axis((0, columns), name="dw")
    rm = reduce_axis((0, multiplier), name="dc")

    def element(n: Any, y: Any, x: Any, c: Any) -> Any:
        places, inside = slide.showing([y, x], [ry, rx], grads.shape[1:3])
        grad = grads(n, *places, c * multiplier + rm)
        seen = o.if_then_else(o.all_of(*inside), grad, o.const(0, grads.dtype))
        return seen, weights(ry, rx, c, rm)

    return _products(shape, element, [ry, rx, rm], [grads, weights], name)


def depthwise_conv2d_backward_weight_nhwc(
    Input: Tensor, Out_grad: Tensor, oshape: Sequence[Any], fshape: Sequence[Any], stride: Any, padding: Any
) -> Tensor:
    """Compute the gradient of `depthwise_conv2d_nhwc` by its filter.

    Parameters
    ----------
    Input
        The input (N, H, W, C).
    Out_grad
        The gradient with respect to the result, (N, OH, OW, C * M).
    oshape, fshape
        The shapes of the result and of the filter.
    stride, padding
        As for the convolution.

    Returns
    -------
    A tensor of shape `fshape`.

    Raises
    ------
    UserError
        If the shapes do not match the tensors.
    """
    name = "depthwise_conv2d_backward_weight_nhwc"
    data, grads = _given({"Input": Input, "Out_grad": Out_grad}, {"Out_grad": oshape}, name)
    shape = _four(fshape, extents(fshape, name, "filter"), "fshape", "(KH, KW, C, M)", name)
    same(shape[2], data.shape[3], "the channels of fshape and Input", name)
    _check_result(grads, (data.shape[0], shape[2] * shape[3]), "Input", name)
    slide = _slide(stride, padding, shape[:2], name)
    rn, ry, rx = (reduce_axis((0, n), name=a) for n, a in zip(grads.shape[:3], ("db", "dh", "dw"), strict=True))

    def element(ky: Any, kx: Any, c: Any, m: Any) -> Any:
        places, inside = slide.shown([ry, rx], [ky, kx], data.shape[1:3])
        seen = o.if_then_else(o.all_of(*inside), data(rn, *places, c), o.const(0, data.dtype))
        return seen, grads(rn, ry, rx, c * shape[3] + m)

    return _products(shape, element, [rn, ry, rx], [data, grads], name)


def _four(given: Any, shape: Sequence[Any], argument: str, wanted: str, primitive: str) -> Sequence[Any]:
    if len(shape) != 4:
        raise UserError(
            f"{argument} is {given!r}, which is not four extents", primitive=primitive, fix=f"give {wanted}"
        )
    return shape


def _check_result(grads: Tensor, wanted: tuple[Any, Any], of: str, primitive: str) -> None:
    """Check that the gradient has the images and the channels of the result."""
    same(grads.shape[0], wanted[0], f"the images of Out_grad and {of}", primitive)
    same(grads.shape[3], wanted[1], "the channels of Out_grad and the filters", primitive)


def _products(
    shape: Sequence[Any], factors: Callable[..., tuple[Any, Any]], over: Sequence[Any], of: list[Tensor], name: str
) -> Tensor:
    """The sums of products of two tensors' elements over axes; sums of 16-bit floats are accumulated in float32."""
    kind, other = (t.dtype for t in of)
    wide = sum_type(kind) if kind == other else None

    def element(*i: Any) -> Any:
        each = [f if wide is None else o.cast(wide, f) for f in factors(*i)]
        return reduce_sum(each[0] * each[1], axis=over)

    total: Tensor = compute(shape, element, name, name)
    return total if wide is None else narrowed(total, kind)


def _slide(stride: Any, padding: Any, kernel: Sequence[Any], primitive: str) -> Sliding:
    """The window of the convolution, without dilation."""
    before, _ = padding_sides(padding, kernel, primitive)
    return Sliding(integers(stride, 2, "stride", primitive, 1), before, (1, 1))


def _given(tensors: dict[str, Any], shapes: dict[str, Any], primitive: str) -> list[Tensor]:
    found = [rank_of(tensor(t, name, primitive), 4, name, primitive) for name, t in tensors.items()]
    for t, name in zip(found, tensors, strict=True):
        wanted = shapes.get(name)
        if wanted is not None and [known(n) for n in t.shape] != [known(n) for n in extents(wanted, primitive, name)]:
            raise UserError(
                f"{name} has the shape {list(t.shape)}, but {list(wanted)} is given for it",
                primitive=primitive,
                fix="give the shapes of the tensors",
            )
    return found
