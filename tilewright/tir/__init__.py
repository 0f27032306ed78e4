"""Scalar expressions under the legacy API's names: `tir.if_then_else`, `tir.all`, `tir.Select`, `tir.const` ..."""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..core.refusals import old_name as _old_name
from ..expr.bits import ceildiv, infinity, ldexp, logaddexp, nextafter, reinterpret
from ..expr.constructors import CONSTRUCTORS as _NODES
from ..expr.constructors import constructor as _constructor
from ..expr.fixed_point import q_multiply_shift, q_multiply_shift_per_axis
from ..expr.intrinsics import TABLE as _TABLE
from ..expr.intrinsics import clz
from ..expr.matrix_calls import tvm_fill_fragment, tvm_load_matrix_sync, tvm_mma_sync, tvm_store_matrix_sync
from ..expr.nodes import Call as _Call
from ..expr.nodes import Expr as PrimExpr
from ..expr.nodes import SizeVar, StringImm, Var
from ..expr.op_registry import CallEffectKind
from ..expr.operators import (
    add,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    const,
    floordiv,
    floormod,
    if_then_else,
    likely,
    multiply,
    shift_left,
    shift_right,
    subtract,
    truncdiv,
    truncmod,
)
from ..expr.operators import all_of as all
from ..expr.operators import any_of as any
from ..expr.operators import divide as div
from ..expr.operators import floordiv as indexdiv
from ..expr.operators import floormod as indexmod
from ..expr.returns import ret
from ..expr.shuffle import shuffle as Shuffle
from ..expr.vector_parts import dp4a, vectorcombine, vectorhigh, vectorlow
from ..loops import ir_builder as ir_builder
from ..loops import legacy_fields as _legacy_fields
from ..loops.calls import (
    address_of,
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    call_packed,
    call_pure_extern,
)
from ..loops.calls import call as _call
from ..loops.constructors import STATEMENTS as _STATEMENTS
from ..loops.constructors import ForKind, stmt_list, stmt_seq
from ..loops.declare import decl_buffer
from ..loops.legacy_statements import ON_TENSORS as _ON_TENSORS
from ..loops.nodes import Buffer, Stmt
from ..loops.tracing import trace
from ..tensor.axis import IterVar
from ..tensor.data_layout import BijectiveLayout, Layout, bijective_layout, layout
from ..tensor.reduction import CommReducer, comm_reducer, max, max_value, min, min_value, sum
from ..tensor.reduction import Reduce as Reduce
from . import analysis as analysis
from . import transform as transform

IntImm, FloatImm, Ramp, Broadcast = (_NODES[f] for f in ("IntImm", "FloatImm", "Ramp", "Broadcast"))
Call = _constructor(_Call, _call)
Add, Sub, Mul, Div, Mod = (_NODES[f] for f in ("Add", "Sub", "Mul", "Div", "Mod"))
FloorDiv, FloorMod, Min, Max = (_NODES[f] for f in ("FloorDiv", "FloorMod", "Min", "Max"))
EQ, NE, LT, LE, GT, GE, And, Or = (_NODES[f] for f in ("EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"))
Not, Select, Cast = _NODES["Not"], _NODES["Select"], _NODES["Cast"]
For, IfThenElse, SeqStmt, Evaluate = (_STATEMENTS[f] for f in ("For", "IfThenElse", "SeqStmt", "Evaluate"))
LetStmt, Let, Allocate, AttrStmt = (_STATEMENTS[f] for f in ("LetStmt", "Let", "Allocate", "AttrStmt"))
BufferStore, BufferLoad, ProducerLoad = (_STATEMENTS[f] for f in ("BufferStore", "BufferLoad", "ProducerLoad"))
PrimFunc, While, AssertStmt = (_STATEMENTS[f] for f in ("PrimFunc", "While", "AssertStmt"))
Prefetch = _STATEMENTS["Prefetch"]
ProducerStore, ProducerRealize, BufferRealize = (
    _ON_TENSORS[f] for f in ("ProducerStore", "ProducerRealize", "BufferRealize")
)
exp, exp2, exp10 = _TABLE["exp"], _TABLE["exp2"], _TABLE["exp10"]
log, log2, log10, log1p = _TABLE["log"], _TABLE["log2"], _TABLE["log10"], _TABLE["log1p"]
sqrt, rsqrt, power, pow = _TABLE["sqrt"], _TABLE["rsqrt"], _TABLE["power"], _TABLE["power"]
fmod, hypot, atan2, copysign = _TABLE["fmod"], _TABLE["hypot"], _TABLE["atan2"], _TABLE["copysign"]
sin, cos, tan, asin, acos, atan = (_TABLE[f] for f in ("sin", "cos", "tan", "asin", "acos", "atan"))
sinh, cosh, tanh, asinh, acosh, atanh = (_TABLE[f] for f in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"))
erf, sigmoid, popcount = _TABLE["erf"], _TABLE["sigmoid"], _TABLE["popcount"]
floor, ceil, trunc, round, nearbyint = (_TABLE[f] for f in ("floor", "ceil", "trunc", "round", "nearbyint"))
abs, isnan, isinf, isfinite = (_TABLE[f] for f in ("abs", "isnan", "isinf", "isfinite"))

expr = stmt = op = buffer = function = _sys.modules[
    __name__
]  # the legacy API's modules of expressions, statements and functions

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Allocate", "And", "AssertStmt", "AttrStmt", "BijectiveLayout",
    "Broadcast", "Buffer", "BufferLoad", "BufferRealize", "BufferStore", "Call", "CallEffectKind", "Cast",
    "CommReducer", "Div", "Evaluate", "FloatImm", "FloorDiv", "FloorMod", "For", "ForKind", "IfThenElse", "IntImm",
    "IterVar", "Layout", "Let", "LetStmt", "Max", "Min", "Mod", "Mul", "Not", "Or", "Prefetch", "PrimExpr",
    "PrimFunc", "ProducerLoad", "ProducerRealize", "ProducerStore", "Ramp", "Reduce", "Select", "SeqStmt",
    "Shuffle", "SizeVar", "Stmt", "StringImm", "Sub", "Var", "While", "abs", "acos", "acosh", "add", "address_of",
    "all", "analysis", "any", "asin", "asinh", "atan", "atan2", "atanh", "bijective_layout", "bitwise_and",
    "bitwise_not", "bitwise_or", "bitwise_xor", "buffer", "call_extern", "call_intrin", "call_llvm_intrin",
    "call_llvm_pure_intrin", "call_packed", "call_pure_extern", "ceil", "ceildiv", "clz", "comm_reducer", "const",
    "copysign", "cos", "cosh", "decl_buffer", "div", "dp4a", "erf", "exp", "exp2", "exp10", "expr", "floor",
    "floordiv", "floormod", "fmod", "function", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity",
    "ir_builder", "isfinite", "isinf", "isnan", "layout", "ldexp", "likely", "log", "log1p", "log2", "log10",
    "logaddexp", "max", "max_value", "min", "min_value", "multiply", "nearbyint", "nextafter", "op", "popcount",
    "pow", "power", "q_multiply_shift", "q_multiply_shift_per_axis", "reinterpret", "ret", "round", "rsqrt",
    "shift_left", "shift_right", "sigmoid", "sin", "sinh", "sqrt", "stmt", "stmt_functor", "stmt_list", "stmt_seq",
    "subtract", "sum", "tan", "tanh", "trace", "transform", "trunc", "truncdiv", "truncmod", "tvm_fill_fragment",
    "tvm_load_matrix_sync", "tvm_mma_sync", "tvm_store_matrix_sync", "vectorcombine", "vectorhigh", "vectorlow",
]  # fmt: skip

if _TYPE_CHECKING:
    from ..compat import stmt_functor as stmt_functor
else:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
