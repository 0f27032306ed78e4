"""The tensor expression language: declare tensors, and create schedules for them.

A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..expr.bits import logaddexp
from ..expr.intrinsics import TABLE as _TABLE
from ..expr.nodes import SizeVar, Var
from ..expr.operators import (
    add,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    multiply,
    subtract,
    truncdiv,
    truncmod,
)
from ..expr.operators import all_of as all
from ..expr.operators import any_of as any
from ..expr.operators import divide as div
from ..expr.operators import floordiv as indexdiv
from ..expr.operators import floormod as indexmod
from ..expr.variables import size_var, var
from ..loops.tracing import trace
from ..schedule.primitives.transform_layout import AXIS_SEPARATOR
from ..tensor.axis import IterVar, Range
from ..tensor.extern import ExternOp
from ..tensor.gradient.adjoints import gradient
from ..tensor.reduction import comm_reducer, max, max_value, min, min_value, sum
from ..tensor.scan import ScanOp, scan
from ..tensor.script import ScriptOp as HybridOp
from ..tensor.tag_scope import tag_scope
from . import operation as operation
from . import schedule as schedule
from . import tensor as tensor
from .extern import extern
from .intrinsics import decl_tensor_intrin
from .operation import compute, placeholder, reduce_axis, thread_axis
from .prim_func import create_prim_func
from .schedule import Schedule, Stage, create_schedule
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, TensorSlice

exp, exp2, exp10 = _TABLE["exp"], _TABLE["exp2"], _TABLE["exp10"]
log, log2, log10, log1p = _TABLE["log"], _TABLE["log2"], _TABLE["log10"], _TABLE["log1p"]
sqrt, rsqrt, power, fmod, hypot = (
    _TABLE["sqrt"],
    _TABLE["rsqrt"],
    _TABLE["power"],
    _TABLE["fmod"],
    _TABLE["hypot"],
)
sin, cos, tan, asin, acos, atan = (_TABLE[f] for f in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = (_TABLE[f] for f in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
erf, sigmoid, atan2, copysign = _TABLE["erf"], _TABLE["sigmoid"], _TABLE["atan2"], _TABLE["copysign"]
floor, ceil, trunc, round, nearbyint = (_TABLE[f] for f in ("floor", "ceil", "trunc", "round", "nearbyint"))
abs, isnan, isinf, isfinite, popcount = (_TABLE[f] for f in ("abs", "isnan", "isinf", "isfinite", "popcount"))

__all__ = [
    "AXIS_SEPARATOR", "ComputeOp", "ExternOp", "HybridOp", "IterVar", "Operation", "PlaceholderOp", "Range",
    "ScanOp", "Schedule", "SizeVar", "Stage", "Tensor", "TensorSlice", "Var", "abs", "acos", "acosh", "add", "all",
    "any", "asin", "asinh", "atan", "atan2", "atanh", "cast", "ceil", "comm_reducer", "compute", "const",
    "copysign", "cos", "cosh", "create_prim_func", "create_schedule", "decl_tensor_intrin", "div", "erf", "exp",
    "exp2", "exp10", "extern", "floor", "floordiv", "floormod", "fmod", "gradient", "hybrid", "hypot",
    "if_then_else", "indexdiv", "indexmod", "intrinsics", "isfinite", "isinf", "isnan", "log", "log1p", "log2",
    "log10", "logaddexp", "max", "max_value", "min", "min_value", "multiply", "nearbyint", "operation",
    "placeholder", "popcount", "power", "prim_func", "reduce_axis", "round", "rsqrt", "scan", "schedule", "sigmoid",
    "sin", "sinh", "size_var", "sqrt", "subtract", "sum", "tag_scope", "tan", "tanh", "tensor", "thread_axis",
    "trace", "trunc", "truncdiv", "truncmod", "var",
]  # fmt: skip

if _TYPE_CHECKING:
    from ..compat import hybrid as hybrid
else:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
