"""The legacy module te.schedule: the ranges of loops, and the stages by operation."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.core.errors import UserError
from tilewright.te.operation import compute
from tilewright.te.tensor import ComputeOp


def test_the_ranges_of_all_axes() -> None:
    A = te.placeholder((10, 6), name="A")
    B = te.compute((10, 6), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((10,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    thread = te.thread_axis("threadIdx.x")
    s[C].bind(inner, thread)
    s[B].compute_at(s[C], outer)
    bounds = te.schedule.InferBound(s.normalize())
    extents = {axis.name: int(found.extent) for axis, found in bounds.items()}
    assert extents == {"i": 4, "j": 6, "i.outer": 3, "i.inner": 4, "threadIdx.x": 4, "k": 6}
    assert [int(bounds[axis].extent) for axis in (*C.op.axis, outer, inner, thread)] == [10, 3, 4, 4]
    assert str(bounds[B.op.axis[0]].min) == "i.outer * 4"
    assert all(axis in bounds for stage in (s[B], s[C]) for axis in stage.leaf_iter_vars)


def test_stages_by_operation() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cached = s.cache_write(B, "local")
    assert s.stage_map[B.op].id == s[B].id
    assert s.stage_map[cached.op].id == s[cached].id != s[B].id
    assert s.stage_map[s[B].op].id == s[B].id
    assert A.op in s.stage_map


def test_the_modules_of_te_have_the_same_names() -> None:
    assert te.tensor.ComputeOp is ComputeOp is te.ComputeOp
    assert te.operation.compute is compute is te.compute
    assert te.schedule.create_schedule is te.create_schedule
    A = te.placeholder((10,), name="A")
    assert A.same_as(A)
    assert A.op.same_as(A.op)
    assert not A.same_as(te.placeholder((10,), name="A"))
    assert (A[0] + 1).same_as(A[0] + 1)


def test_what_has_no_bounds() -> None:
    with pytest.raises(UserError, match="3 is not a schedule"):
        te.schedule.InferBound(3)  # type: ignore[arg-type]
