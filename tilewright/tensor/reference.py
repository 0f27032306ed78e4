"""The meaning of a graph of tensors: its values in NumPy, in float64, straight from the declarations.

Every body is evaluated over whole axes at once, with no schedule, no loops and no simplification. So no part of the
compiler stands between a declaration and these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.recursion import deep
from .reference_graph import ReferenceGraph, ordered
from .tensor import Tensor


@deep
def reference(
    outputs: Tensor | Sequence[Tensor], inputs: Mapping[Any, Any], dtype: Any = np.float64
) -> list[np.ndarray]:
    """The values of `outputs`, given the values of the tensors (and size variables) that they depend on.

    Floating-point tensors are computed in `dtype` for any type of theirs; integers keep their type, and wrap. Raises
    UserError for an input that is missing or has another shape. Raises it also if a declaration reads outside a tensor,
    or divides an integer by zero.
    """
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    graph = ReferenceGraph(inputs, np.dtype(dtype))
    for op in ordered([tensor.op for tensor in wanted]):
        graph.evaluate(op)
    return [graph.arrays[tensor] for tensor in wanted]
