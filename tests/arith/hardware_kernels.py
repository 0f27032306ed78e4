"""Expressions of fixed-width integers in whole programs: lowered, compiled, and run on tensors or loop variables."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

import tilewright as tw
from tests.arith.hardware import Evaluation
from tests.arith.hardware_cases import Case, byte_case, end_case
from tilewright import te, tir
from tilewright.core.dtype import DType
from tilewright.expr import nodes as n
from tilewright.expr.traverse import substitute

INT8, INT32 = DType("int8"), DType("int32")


def of_bytes(r: Random) -> tuple[Case, Any]:
    """A case whose variables are the two loops around it, over all values of their types."""
    case = byte_case(r)
    x, y = case.names

    def value(i: Any, j: Any) -> Any:
        inside = {v: n.Cast(v.dtype, loop + v.dtype.min_value) for v, loop in ((x, i), (y, j))}
        return substitute(case.expr, inside)

    return case, te.compute((256, 256), lambda i, j: _stored(value(i, j)), name="C")


def of_ends(r: Random) -> tuple[Case, Any]:
    """A case whose variables are elements of tensors, or one of them counts up from a constant."""
    case = end_case(r, 256)
    sources: dict[n.Var, Any] = {}
    for var in case.names:
        low = int(case.values[var][0])
        if r.random() < 0.4 and low <= var.dtype.max_value - 256 and -(2**31) <= low < 2**31 - 256:
            case.values[var] = np.arange(low, low + 256).astype(var.dtype.numpy)
            sources[var] = low
        else:
            sources[var] = te.placeholder((256,), var.dtype, name=f"given_{var.name}")

    def value(i: Any) -> Any:
        inside = {v: s[i] if isinstance(s, te.Tensor) else n.Cast(v.dtype, i + s) for v, s in sources.items()}
        return substitute(case.expr, inside)

    return case, te.compute((256,), lambda i: _stored(value(i)), name="C")


def of_indices(r: Random) -> tuple[Case, Any]:
    """A case that is an index of a tensor which is computed as far as it is read: each element is its own place."""
    while True:
        case = byte_case(r)
        if case.expr.dtype.is_int:
            break
    x, y = case.names
    if case.expr.dtype.bits > 8:
        case.expr = n.FloorMod(case.expr, n.IntImm(r.choice((7, 64, 256)), case.expr.dtype))
    low = case.expr.dtype.min_value if case.expr.dtype.bits == 8 else 0
    B = te.compute((256,), lambda i: i + low, name="B")

    def value(i: Any, j: Any) -> Any:
        inside = {v: n.Cast(v.dtype, loop + v.dtype.min_value) for v, loop in ((x, i), (y, j))}
        return B[n.Cast(INT32, substitute(case.expr, inside)) - low]

    return case, te.compute((256, 256), value, name="C")


def _stored(value: Any) -> Any:
    return tir.Select(value, n.IntImm(1, INT8), n.IntImm(0, INT8)) if value.dtype.is_bool else value


def wrong(made: Sequence[tuple[Case, Any]], target: str, r: Random) -> list[str]:
    """Build one program of all cases, with random loops, run it, and return what is wrong."""
    outputs = [output for _, output in made]
    schedule = te.create_schedule([output.op for output in outputs])
    arguments: list[Any] = []
    arrays: list[Any] = []
    device = tw.device(target)
    for case, output in made:
        _schedule(schedule, output, target, r)
        for tensor in output.op.input_tensors:
            if not tensor.op.name.startswith("given_"):
                continue
            var = next(v for v in case.names if tensor.op.name == f"given_{v.name}")
            arguments.append(tensor)
            arrays.append(tw.nd.array(case.values[var], device))
    results = [tw.nd.empty(output.shape, output.dtype, device) for output in outputs]
    tw.build(schedule, [*arguments, *outputs], target)(*arrays, *results)
    return [found for (case, _), result in zip(made, results, strict=True) if (found := _difference(case, result))]


def _schedule(schedule: Any, output: Any, target: str, r: Random) -> None:
    """Split loops, evenly or not, and bind, vectorise or unroll them; place a tensor that is read."""
    stage = schedule[output]
    outer, inner = stage.split(output.op.axis[-1], factor=r.choice((4, 8, 24)))
    first = outer if len(output.op.axis) == 1 else output.op.axis[0]
    if r.random() < 0.5:
        (stage.vectorize if r.random() < 0.5 else stage.unroll)(inner)
    if target == "opencl":
        stage.bind(first, te.thread_axis("blockIdx.x"))
    for tensor in output.op.input_tensors:
        if not tensor.op.name.startswith("given_") and (target == "opencl" or r.random() < 0.5):
            schedule[tensor].compute_at(stage, first)


def _difference(case: Case, result: Any) -> str | None:
    evaluation = Evaluation(case.values)
    value, defined = evaluation(case.expr)
    got = result.numpy().reshape(-1)
    bad = defined & (got != value.astype(got.dtype))
    if not bad.any():
        return None
    at = int(np.flatnonzero(bad)[0])
    given = {var.name: int(held[at]) for var, held in case.values.items()}
    return f"{case} is {got[at]} at {given}, not {value[at]} ({int(bad.sum())} of {len(bad)})"
