"""Winograd's convolution: fewer products for 3×3 and 5×5 kernels, by transforms of tiles.

A tile of m×m results of an r×r kernel takes (m + r - 1)² products per pair of channels instead of m²r². The matrices
come from the Cook-Toom construction (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
Polynomials are evaluated at `m + r - 2` points and at infinity, multiplied there, and interpolated.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import ComputeOp, Tensor, compute
from ..argument_checks import element_type, flag, integer, known, rank_of, result_type, same, tensor
from .pad import pad
from .window import numbers, padding_sides, positions

_POINTS = [Fraction(n, d) for n, d in ((0, 1), (1, 1), (-1, 1), (2, 1), (-2, 1), (1, 2), (-1, 2))]
_LARGEST = len(_POINTS) + 1
"""Rows of the largest tile: with more points, distances between points are so large that sums lose precision."""

_TRANSFORMED = "winograd_kernel"
"""The tag of transformed kernels."""


def winograd_matrices(tile_size: int, kernel_size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the matrices A (n × m), B (n × n) and G (n × r) in float64, for `n = m + r - 1`: `Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d
    B)] A`."""
    m, r = tile_size, kernel_size
    points = _POINTS[: m + r - 2]
    n = len(points) + 1
    # Products of all (x - p), and of all but one: rows of Bᵀ by interpolation, scaled into G.
    whole = _polynomial(points)
    a, b, g = ([[Fraction(0)] * width for _ in range(n)] for width in (m, n, r))
    for i, point in enumerate(points):
        others = [p for p in points if p is not point]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        for power in range(m):
            a[i][power] = point**power
        for power in range(r):
            g[i][power] = point**power / scale
        for power, factor in enumerate(_polynomial(others)):
            b[power][i] = factor
    a[n - 1][m - 1], g[n - 1][r - 1] = Fraction(1), Fraction(1)
    for power, factor in enumerate(whole):
        b[power][n - 1] = factor
    made = (np.array([[float(x) for x in row] for row in matrix]) for matrix in (a, b, g))
    first, second, third = made
    return first, second, third


def _polynomial(roots: list[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root), lowest power first."""
    found = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *found]
        found = [s - root * f for s, f in zip(shifted, [*found, Fraction(0)], strict=True)]
    return found


def winograd_transform_matrices(tile_size: int, kernel_size: int, out_dtype: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Make the matrices of Winograd's convolution as tensors of constants.

    Parameters
    ----------
    tile_size
        Results per tile and dimension, m.
    kernel_size
        The size of the kernel, r.
    out_dtype
        The type of the elements.

    Returns
    -------
    The matrices A (n × m), B (n × n) and G (n × r), for n = m + r - 1.

    Raises
    ------
    UserError
        For tiles larger than 8 with the kernel: their sums would lose precision.
    """
    name = "winograd_transform_matrices"
    m, r = integer(tile_size, "tile_size", name, 1), integer(kernel_size, "kernel_size", name, 1)
    if not 2 <= m + r - 1 <= _LARGEST:
        raise UserError(
            f"tile_size={m} with kernel_size={r} needs tiles of {m + r - 1}",
            primitive=name,
            fix=f"keep tile_size + kernel_size - 1 between 2 and {_LARGEST}",
        )
    kind = element_type(out_dtype, name)
    a, b, g = (_constants(values, kind, shown) for values, shown in zip(winograd_matrices(m, r), "ABG", strict=True))
    return a, b, g


def _constants(values: np.ndarray, kind: Any, name: str) -> Tensor:
    """A matrix of constants, chosen by index: if the index is a number, the result is the constant."""

    def element(i: Any, j: Any) -> Any:
        value: Any = o.const(0.0, kind)
        for row, column in np.ndindex(*values.shape):
            if values[row, column]:
                here = o.all_of(o.equal(i, row), o.equal(j, column))
                value = o.select(here, o.const(float(values[row, column]), kind), value)
        return value

    made: Tensor = compute(values.shape, element, f"matrix_{name}", "injective,const_matrix")
    return made


def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Transform the kernels of a convolution for `conv2d_winograd_nchw`.

    Parameters
    ----------
    kernel
        The kernels (CO, CI, r, r).
    tile_size
        Results per tile and dimension, m.

    Returns
    -------
    A tensor (n, n, CI, CO), for n = m + r - 1.

    Raises
    ------
    UserError
        For kernels that are not square, or of unknown size.
    """
    name = "conv2d_winograd_weight_transform"
    w = rank_of(tensor(kernel, "kernel", name), 4, "kernel", name, "(filters, channels, size, size)")
    size = known(w.shape[2])
    if size is None or size != known(w.shape[3]):
        raise UserError(
            f"kernel {w.name!r} has the shape {list(w.shape)}, which is not square or not constant",
            primitive=name,
            fix="give square kernels of constant size",
        )
    if not w.dtype.is_float:
        raise UserError(
            f"kernel {w.name!r} has type {w.dtype}, but transforms of kernels have fractions",
            primitive=name,
            fix='convert it: topi.cast(kernel, "float32")',
        )
    return _transformed_kernel(w, integer(tile_size, "tile_size", name, 1), size, w.dtype)


def _check_precision(tile: int, size: int, what: str, name: str) -> None:
    """Check that tiles are not so large that sums would lose their precision."""
    n = tile + size - 1
    if n > _LARGEST:
        raise UserError(
            f"{what}, but tiles of {n}×{n} would lose precision",
            primitive=name,
            fix=f"use {name.replace('_winograd', '')}, or kernels that take tiles of at most {_LARGEST}×{_LARGEST}",
        )


def _transformed_kernel(w: Tensor, tile: int, size: int, kind: Any, last: bool = False) -> Tensor:
    """Kernels (CO, CI, r, r), or with `last` (r, r, CI, CO), as (n, n, CI, CO)."""
    _, _, g = winograd_transform_matrices(tile, size, kind)
    row, column = reduce_axis((0, size), name="r_kh"), reduce_axis((0, size), name="r_kw")
    n = tile + size - 1
    channels, filters = w.shape[2:] if last else (w.shape[1], w.shape[0])

    def element(eps: Any, nu: Any, ci: Any, co: Any) -> Any:
        value = w(row, column, ci, co) if last else w(co, ci, row, column)
        return reduce_sum(o.cast(kind, value) * g(eps, row) * g(nu, column), axis=[row, column])

    made: Tensor = compute(
        (n, n, channels, filters),
        element,
        "kernel_pack",
        _TRANSFORMED,
    )
    return made


def conv2d_winograd_nchw(
    data: Tensor,
    weight: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Convolve by Winograd's transforms of tiles of 4×4 results (2×2 for kernels larger than 3×3).

    Parameters
    ----------
    data
        Images (N, CI, H, W).
    weight
        Kernels (CO, CI, r, r); with `pre_computed`, the result of `conv2d_winograd_weight_transform` for r = 3.
    strides, dilation
        1, the only ones that tiles can share.
    padding
        See `padding_sides`.
    out_dtype
        The type to accumulate in.
    pre_computed
        Whether the kernels are transformed already.
    auto_scheduler_rewritten_layout, meta_schedule_original_shape
        Accepted for old scripts, without effect.

    Returns
    -------
    A tensor (N, CO, OH, OW).

    Raises
    ------
    UserError
        For strides and dilations other than 1, integers as results, kernels that are not square, and shapes that do
        not fit.
    """
    return _convolved((data, weight), (strides, padding, dilation), out_dtype, pre_computed, "NCHW")


def conv2d_winograd_nhwc(
    data: Tensor,
    weight: Tensor,
    strides: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any,
    pre_computed: bool = False,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
) -> Tensor:
    """Convolve images (N, H, W, CI) with kernels (r, r, CI, CO) as `conv2d_winograd_nchw` does, as (N, OH, OW, CO)."""
    return _convolved((data, weight), (strides, padding, dilation), out_dtype, pre_computed, "NHWC")


def _convolved(
    tensors: tuple[Any, Any], window: tuple[Any, Any, Any], out_dtype: Any, pre_computed: Any, layout: str
) -> Tensor:
    """Check the arguments of a convolution of images of a layout, and compute it in tiles."""
    name = f"conv2d_winograd_{layout.lower()}"
    last = layout == "NHWC"
    x = rank_of(tensor(tensors[0], "data", name), 4, "data", name, f"({', '.join(layout)})")
    w = rank_of(tensor(tensors[1], "weight", name), 4, "weight", name)
    strides, padding, dilation = window
    if numbers(strides, 2, "strides", name) != (1, 1) or numbers(dilation, 2, "dilation", name) != (1, 1):
        raise UserError(
            f"strides={strides!r} and dilation={dilation!r} are not all 1",
            primitive=name,
            fix=f"use conv2d_{layout.lower()} for other strides and dilations",
        )
    kind = result_type(out_dtype, x, name)
    if not kind.is_float:
        raise UserError(
            f"the results have type {kind}, but transforms of kernels have fractions",
            primitive=name,
            fix=f'accumulate in floats (out_dtype="float32"), or use conv2d_{layout.lower()}',
        )
    if flag(pre_computed, "pre_computed", name):
        size, tile, packed = 3, _tile_of(w, name), w
        channels, filters = w.shape[2], w.shape[3]
    else:
        at = 0 if last else 2  # the dimension of the kernels' heights
        size = known(w.shape[at]) or 0
        if not size or known(w.shape[at + 1]) != size:
            raise UserError(
                f"weight {w.name!r} has the shape {list(w.shape)}, which is not square or not constant",
                primitive=name,
                fix="give square kernels of constant size",
            )
        tile = 4 if size == 3 else 2
        _check_precision(tile, size, f"weight {w.name!r} has kernels of {size}×{size}", name)
        packed = _transformed_kernel(w, tile, size, kind, last)
        channels, filters = packed.shape[2:]
    same(x.shape[layout.index("C")], channels, "the channels of data and weight", name)
    around = padding_sides(padding, [o.const(size)] * 2, name)
    for letter, before, after in zip("HW", *around, strict=True):
        positions(x.shape[layout.index(letter)], o.const(size), before, after, 1, name, letter)
    return _tiles(x, packed, (tile, size), around, (filters, kind), layout)


def _tile_of(w: Tensor, name: str) -> int:
    """Return the tile size that kernels of 3×3 were transformed for; UserError for anything else.

    Tiles of 5, 6 and 7 elements also belong to kernels of other sizes. If the kernels are transformed in the same
    program, their size is known. Otherwise only even tiles are accepted, so that untransformed kernels are rejected.
    """
    n, taps, transformed = known(w.shape[0]) or 6, 3, False
    if isinstance(w.op, ComputeOp) and w.op.tag == _TRANSFORMED and w.op.reduce_axis[0].dom is not None:
        taps, transformed = known(w.op.reduce_axis[0].dom.extent) or 0, True
    if taps != 3 or n < 4 or known(w.shape[0]) != known(w.shape[1]) or (n % 2 and n <= _LARGEST and not transformed):
        what = f"that of kernels of {taps}×{taps}" if taps != 3 else "not that of transformed kernels of 3×3"
        raise UserError(
            f"weight has the shape {list(w.shape)}, which is {what}",
            primitive=name,
            fix="give the result of conv2d_winograd_weight_transform for kernels of 3×3, or pre_computed=False",
        )
    _check_precision(n - 2, 3, f"weight has the shape {list(w.shape)}", name)
    return n - 2


def _tiles(
    x: Tensor, packed: Tensor, sizes: tuple[int, int], around: Any, result: tuple[Any, Any], layout: str
) -> Tensor:
    """Tiles of the data, transformed; their products summed over channels; transformed back, and put together."""
    (m, r), (before, after), (filters, kind) = sizes, around, result
    extent = dict(zip(layout, x.shape, strict=True))
    n, batch, channels = m + r - 1, extent["N"], extent["C"]
    places = [extent["HW"[d]] + before[d] + after[d] - r + 1 for d in range(2)]
    rows, columns = (o.floordiv(size + m - 1, m) for size in places)
    # The border grows by the part of the last tiles that sticks out.
    more = [after[d] + count * m - size for d, (count, size) in enumerate(zip((rows, columns), places, strict=True))]
    low, high = ({"N": 0, "C": 0, **dict(zip("HW", each, strict=True))} for each in (before, more))
    padded = pad(x, [low[d] for d in layout], [high[d] for d in layout], name="data_pad")
    a, b, _ = winograd_transform_matrices(m, r, kind)
    count = batch * rows * columns

    def image(c: Any, p: Any, eps: Any, nu: Any) -> Any:
        row, column = o.floormod(o.floordiv(p, columns), rows), o.floormod(p, columns)
        at = {"N": o.floordiv(p, rows * columns), "C": c, "H": row * m + eps, "W": column * m + nu}
        return o.cast(kind, padded(*(at[d] for d in layout)))

    tiles = compute((channels, count, n, n), image, "input_tile", "injective")
    re, rn = reduce_axis((0, n), name="r_eps"), reduce_axis((0, n), name="r_nu")
    turned = compute(
        (n, n, channels, count),
        lambda eps, nu, c, p: reduce_sum(tiles(c, p, re, rn) * b(re, eps) * b(rn, nu), axis=[re, rn]),
        "data_pack",
        "winograd_data",
    )
    ci = reduce_axis((0, channels), name="ci")
    products = compute(
        (n, n, filters, count),
        lambda eps, nu, f, p: reduce_sum(packed(eps, nu, ci, f) * turned(eps, nu, ci, p), axis=ci),
        "bgemm",
        "winograd_products",
    )
    qe, qn = reduce_axis((0, n), name="q_eps"), reduce_axis((0, n), name="q_nu")
    back = compute(
        (filters, count, m, m),
        lambda f, p, vh, vw: reduce_sum(products(qe, qn, f, p) * a(qe, vh) * a(qn, vw), axis=[qe, qn]),
        "inverse",
        "winograd_inverse",
    )

    def element(*indices: Any) -> Any:
        at = dict(zip(layout, indices, strict=True))
        tile = (at["N"] * rows + o.floordiv(at["H"], m)) * columns + o.floordiv(at["W"], m)
        return back(at["C"], tile, o.floormod(at["H"], m), o.floormod(at["W"], m))

    name, shape = f"conv2d_winograd_{layout.lower()}", {"N": batch, "C": filters, "H": places[0], "W": places[1]}
    made: Tensor = compute([shape[d] for d in layout], element, name, name)
    return made
