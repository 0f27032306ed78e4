"""dense: a fully connected layer."""

from __future__ import annotations

from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import result_type
from .window import extents, same_extent


def dense(data: Tensor, weight: Tensor, bias: Tensor | None = None, out_dtype: str | None = None) -> Tensor:
    """`data` (batch, n) times `weight` (m, n), plus `bias` (m) if given, as (batch, m).

    `out_dtype`: the type to accumulate in, by default that of `data`. Raises UserError for shapes that do not fit each
    other.
    """
    rows, columns = extents(data, "data", "NI", "dense"), extents(weight, "weight", "OI", "dense")
    same_extent(rows["I"], columns["I"], "data's and weight's second extents", "dense")
    kind = result_type(out_dtype, data, "dense")
    k = reduce_axis((0, rows["I"]), name="k")
    shape = rows["N"], columns["O"]
    product: Tensor = compute(
        shape,
        lambda i, j: reduce_sum(data[i, k].astype(kind) * weight[j, k].astype(kind), axis=k),
        name="T_dense",
        tag="dense",
    )
    if bias is None:
        return product
    same_extent(extents(bias, "bias", "O", "dense")["O"], columns["O"], "bias's and weight's first extents", "dense")
    made: Tensor = compute(shape, lambda i, j: product[i, j] + bias[j].astype(kind), name="T_add", tag="broadcast")
    return made
