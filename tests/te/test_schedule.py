"""The legacy module te.schedule: the ranges of loops, and the stages by operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import ir as tvm_ir
from tilewright import te, tir
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


def test_the_loops_before_any_pass() -> None:
    A = te.placeholder((10, 6), name="A")
    B = te.compute((10, 6), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((10, 6), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    nest = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    text = str(nest)
    assert "for i in range(10)" in text or "T.grid" in text
    assert "[i, j]" in text  # not flattened
    stores: list[str] = []
    tir.stmt_functor.post_order_visit(nest, lambda x: stores.append(x.buffer.name) if is_store(x) else None)
    assert stores == ["B", "C"]


def is_store(x: object) -> bool:
    return isinstance(x, tir.BufferStore)


def test_the_loops_of_a_scan() -> None:
    X = te.placeholder((4, 6), name="X")
    state = te.placeholder((4, 6), name="state")
    first = te.compute((1, 6), lambda _, i: X[0, i])
    update = te.compute((4, 6), lambda t, i: state[t - 1, i] + X[t, i])
    scan = te.scan(first, update, state)
    assert "for" in str(te.schedule.ScheduleOps(te.create_schedule(scan.op)))


def chain(read: str) -> tuple[te.Schedule, te.Tensor]:
    """D = B + A, where B reads its inputs as `read` says."""
    A, row = te.placeholder((6, 6), name="A"), te.placeholder((6,), name="row")
    reads = {
        "same": lambda i, j: A[i, j] + 1.0,
        "row": lambda i, j: A[i, j] + row[j],
        "transposed": lambda i, j: A[j, i] + 1.0,
    }
    B = te.compute((6, 6), reads[read], name="B")
    D = te.compute((6, 6), lambda i, j: B[i, j] + A[i, j], name="D")
    return te.create_schedule(D.op), B


@pytest.mark.parametrize(
    ("inline", "takes"),
    [
        (te.schedule.AutoInlineElemWise, ["same"]),
        (te.schedule.AutoInlineBroadcast, ["same", "row"]),
        (te.schedule.AutoInlineInjective, ["same", "row", "transposed"]),
    ],
)
def test_stages_that_are_inlined_by_how_they_read(inline: Any, takes: list[str]) -> None:
    for read in ("same", "row", "transposed"):
        s, B = chain(read)
        assert s[B].attach_type == 1
        inline(s)
        assert (s[B].attach_type == 2) is (read in takes), read


def test_reductions_and_scheduled_stages_are_not_inlined() -> None:
    A = te.placeholder((6, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((6,), lambda i: B[i] + 1.0, name="C")
    D = te.compute((6,), lambda i: C[i] + 1.0, name="D")
    s = te.create_schedule(D.op)
    s[C].split(C.op.axis[0], factor=2)
    te.schedule.AutoInlineInjective(s)
    assert [s[t].attach_type for t in (B, C, D)] == [1, 1, 1]


def test_what_a_stage_says_of_its_loops_and_its_place() -> None:
    A = te.placeholder((16, 8), name="A")
    B = te.compute((16, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((16, 8), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    kinds = te.schedule.IterVar
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    thread = te.thread_axis("threadIdx.x")
    s[C].bind(outer, thread)
    s[C].unroll(inner)
    s[C].vectorize(C.op.axis[1])
    s[C].pragma(inner, "auto_unroll_max_step", 8)
    s[B].compute_at(s[C], inner)
    s[B].storage_align(B.op.axis[0], 8, 1)
    notes = s[C].iter_var_attrs
    assert notes[outer].iter_type == kinds.ThreadIndex
    assert notes[outer].bind_thread is thread
    assert notes[inner].iter_type == kinds.Unrolled
    assert [key.value for key in notes[inner].pragma_keys] == ["auto_unroll_max_step"]
    assert notes[inner].pragma_values == (8,)
    assert notes[C.op.axis[1]].iter_type == kinds.Vectorized
    aligned = s[B].iter_var_attrs[B.op.axis[0]]
    assert (aligned.iter_type, aligned.dim_align_factor, aligned.dim_align_offset) == (kinds.DataPar, 8, 1)
    assert (s[B].attach_type, s[B].attach_ivar, s[B].attach_stage.id) == (4, inner, s[C].id)
    assert (s[C].attach_type, s[C].attach_ivar, s[C].attach_stage) == (1, None, None)
    assert all(isinstance(r, te.schedule.Split) for r in s[C].relations)
    with pytest.warns(UserWarning, match="nothing reads 'ours'"):
        s[C].pragma(inner, "ours", [1, 2])
    assert s[C].iter_var_attrs[inner].pragma_values == (8, "[1, 2]")


def test_the_step_of_a_scan_and_groups() -> None:
    X = te.placeholder((4, 6), name="X")
    state = te.placeholder((4, 6), name="state")
    update = te.compute((4, 6), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    scan = te.scan(te.compute((1, 6), lambda _, i: X[0, i]), update, state)
    assert te.create_schedule(scan.op)[update].attach_type == 5
    x = te.compute((8, 8), lambda i, j: i + j, name="x")
    y = te.compute((8, 8), lambda i, j: x[i, j] + 1, name="y")
    z = te.compute((8, 8), lambda i, j: y[i, j] + 1, name="z")
    s = te.create_schedule(z.op)
    inner = s.create_group(outputs=x, inputs=x, include_inputs=True)
    outer = s.create_group(outputs=y, inputs=x, include_inputs=True)
    assert (s[x].group, s[y].group, s[z].group) == (inner, outer, None)
    outer.compute_at(s[z], z.op.axis[0])
    inner.compute_at(s[y], y.op.axis[1])
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[axis].extent) for axis in (*x.op.axis, *y.op.axis)] == [1, 1, 1, 8]
    assert [stage.id for stage in s.copy()[x].group.stages] == [s[x].id]


def test_groups_are_nested_and_say_where_they_are_attached() -> None:
    """Two groups of the same stages, the later one outside; the steps of a scan are a group without being asked for."""
    x = te.compute((8, 8), lambda i, j: te.const(1.0, "float32"), name="x")
    state = te.placeholder((8, 8))
    first = te.compute((1, 8), lambda _, j: x[0, j])
    up1 = te.compute((8, 8), lambda t, j: state[t - 1, j] + x[t, j])
    up2 = te.compute((8, 8), lambda t, j: up1[t, j] + 1.0)
    s = te.create_schedule(te.scan(first, up2, state).op)
    assert s[up1].group == s[up2].group != s[x].group
    assert hash(s[up1].group) == hash(s[up2].group)
    inner, outer = (s.create_group(outputs=up1, inputs=[state, x]) for _ in range(2))
    assert (s[up1].group, inner.group, outer.group) == (inner, outer, s[up2].group)
    assert (inner.num_child_stages, outer.num_child_stages) == (1, 1)
    assert s[up2].group.num_child_stages == 2
    inner.compute_at(s[up2], up2.op.axis[1])
    assert inner.attach_stage == s[up2] != s[up1]


def test_a_schedule_as_json() -> None:
    n = te.size_var("n")
    A = te.placeholder((n, 8), name="A")
    B = te.compute((n, 8), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 8), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    s[C].unroll(inner)
    read = tvm_ir.load_json(tvm_ir.save_json({"s": s}))["s"]
    assert isinstance(read, te.schedule.Schedule)
    assert [step.to_json() for step in read.steps] == [step.to_json() for step in s.steps]
    shown = str(tw.lower(read, [read.stages[0].op.outputs[0], read.outputs[0].outputs[0]]))
    assert shown == str(tw.lower(s, [A, C]))


def test_the_graph_of_operations() -> None:
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 6), lambda i, j: B[i, j] * A[i, j], name="C")
    graph = te.schedule.CreateReadGraph([C.op])
    assert graph == {A.op: (), B.op: (A,), C.op: (B, A)}
    assert te.schedule.PostDFSOrder([C.op], graph) == [A.op, B.op, C.op]
    state = te.placeholder((4, 6), name="state")
    step = te.compute((4, 6), lambda t, i: state[t - 1, i] * 2.0, name="step")
    update = te.compute((4, 6), lambda t, i: step[t, i] + A[t, i], name="update")
    scan = te.scan(te.compute((1, 6), lambda _, i: A[0, i]), update, state)
    assert te.schedule.ScanGetBody(scan.op) == [step.op, update.op]
    with pytest.raises(UserError, match="ScanGetBody: 3 is not a scan"):
        te.schedule.ScanGetBody(3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"PostDFSOrder: \[3\] are not operations"):
        te.schedule.PostDFSOrder([3])


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda s, t, i, j: s[t - 1, i, j], [1, 1]),
        (lambda s, t, i, j: s[t - 1, j, i], [0, 0]),
        (lambda s, t, i, j: s[t - 1, i, 3], [1, 0]),
        (lambda s, t, i, j: s[t - 1, i, j + 1] + s[t - 1, i, j], [1, 0]),
        (lambda s, t, i, j: s[t - 1, i, i], [0, 0]),
    ],
)
def test_the_dimensions_along_which_a_scan_is_independent(step: Any, expected: list[int]) -> None:
    x, state = te.placeholder((6, 8, 8), name="x"), te.placeholder((6, 8, 8), name="state")
    first = te.compute((1, 8, 8), lambda _, i, j: x[0, i, j])
    turned = te.compute((6, 8, 8), lambda t, j, i: step(state, t, i, j))
    update = te.compute((6, 8, 8), lambda t, i, j: turned[t, j, i] + x[t, j, i])
    scan = te.scan(first, update, state)
    found = te.schedule.ScanFixPointAnalysis(scan.op)
    assert [int(found[axis]) for axis in scan.op.spatial_axis_] == expected


def test_containers_are_pythons_own() -> None:
    assert isinstance({}, tvm_ir.Map)
    assert isinstance([], tvm_ir.Array)
    assert isinstance((), tvm_ir.container.Array)
    assert not isinstance("", tvm_ir.Array)
    assert tw.container is tvm_ir.container


@pytest.mark.parametrize("name", ["ScheduleOps", "AutoInlineElemWise", "AutoInlineBroadcast", "AutoInlineInjective"])
def test_what_is_not_a_schedule(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}: 3 is not a schedule"):
        getattr(te.schedule, name)(3)


def test_an_input_that_no_stage_reads_is_a_parameter() -> None:
    A, unread = te.placeholder((4,), name="A"), te.placeholder((9,), name="unread")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    assert "unread" in str(tw.lower(s, [A, unread, B]))
    a, b = np.arange(4, dtype="float32"), tw.nd.empty((4,), "float32")
    tw.build(s, [A, unread, B], "llvm")(tw.nd.array(a), tw.nd.empty((9,), "float32"), b)
    assert list(b.numpy()) == [1, 2, 3, 4]


def test_bounds_of_symbolic_splits_are_those_of_loops_that_run() -> None:
    m, n, factor = te.var("m"), te.var("n"), te.var("factor")
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((m, n), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor)
    s[B].compute_at(s[C], outer)
    bounds = te.schedule.InferBound(s)
    tw.testing.assert_prim_expr_equal(bounds[B.op.axis[0]].min, (outer * factor) // n)
    assert bounds[B.op.axis[1]].extent is n
