"""Declarations of tensors and axes, under the legacy API's module name."""

from ..expr.operators import const
from ..expr.variables import size_var, var
from ..tensor.axis import reduce_axis, thread_axis
from ..tensor.tensor import compute, placeholder

__all__ = ["compute", "const", "placeholder", "reduce_axis", "size_var", "thread_axis", "var"]
