"""Functions made of loop nodes, run on this CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.passes.running import finish, run_pass
from tilewright.core.dtype import DType
from tilewright.expr import operators as op
from tilewright.expr.nodes import Expr, Load, Var
from tilewright.loops.nodes import Buffer, For, Function, LoopKind, Stmt, Store
from tilewright.passes.vectorize_loops import vectorize_loops
from tilewright.runtime.array import array
from tilewright.runtime.compile import compile_function
from tilewright.runtime.module import Module

EXACT = "llvm -fp-contract=off"
"""Every float operation rounds by itself, as NumPy's do."""


def flat(name: str, size: int | Expr, dtype: str = "float32") -> Buffer:
    """A one-dimensional buffer."""
    return Buffer(name, dtype, (op.as_expr(size),))


def loop(var: Var, extent: int | Expr, body: Stmt, kind: LoopKind = LoopKind.SERIAL, start: int = 0) -> For:
    """A loop."""
    return For(var, op.const(start), op.as_expr(extent), kind, None, (), body)


def build(body: Stmt, *params: Buffer | Var, target: str = "llvm", name: str = "main") -> Module:
    """The module of a function that no pass has touched."""
    function = run_pass(vectorize_loops, Function(name, params, body))
    return compile_function(finish(function, "llvm", check=True), target)


def pointwise(
    value: Callable[..., Expr], dtypes: Sequence[str], out: str, size: int, lanes: int = 1, target: str = EXACT
) -> Module:
    """out[i] = value(in0[i], in1[i], ...), by vectors where there is more than one lane."""
    inputs = [flat(f"A{k}", size, dtype) for k, dtype in enumerate(dtypes)]
    result = flat("out", size, out)
    outer, inner = Var("o"), Var("i")
    i = outer * lanes + inner if lanes > 1 else outer
    body: Stmt = Store(result, (i,), value(*(Load(a, (i,)) for a in inputs)))
    if lanes > 1:
        body = loop(inner, lanes, body, LoopKind.VECTORIZED)
    return build(loop(outer, size // lanes, body), *inputs, result, target=target)


def call(module: Module, inputs: Sequence[np.ndarray], size: int, dtype: str) -> np.ndarray:
    """The module's output, its last argument."""
    kind = DType(dtype)
    out = array(np.full(size, 85, kind.numpy), dtype=dtype)
    module(*(array(x) for x in inputs), out)
    return out.numpy()
