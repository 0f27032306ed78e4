"""te.scan: recurrences against NumPy, on the interpreter and every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats, run
from tests.programs.harness import build, every_target
from tilewright import te


def cumulative(m: Any, n: Any) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    """Sums of the rows so far: X, first row, step, result."""
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    first = te.compute((1, n), lambda _, i: X[0, i], name="first")
    step = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    return X, first, step, te.scan(first, step, state, inputs=[X], name="total")


def bind(s: te.Schedule, tensor: te.Tensor, axis: Any, threads: int) -> None:
    outer, inner = s[tensor].split(axis, factor=threads)
    s[tensor].bind(outer, te.thread_axis("blockIdx.x"))
    s[tensor].bind(inner, te.thread_axis("threadIdx.x"))


def test_rows_are_computed_in_order() -> None:
    X, _, step, total = cumulative(9, 5)
    s = te.create_schedule(total.op)
    assert s[step].placement.axis is total.op.scan_axis  # type: ignore[union-attr]
    values, out = floats(9, 5), empty(9, 5)
    run(tw.lower(s, [X, total])["main"], values, out)
    np.testing.assert_allclose(out, values.cumsum(0), rtol=1e-5)


@every_target
def test_sizes_known_at_the_call(target: str) -> None:
    X, first, step, total = cumulative(te.size_var("m"), te.size_var("n"))
    s = te.create_schedule(total.op)
    for tensor in (first, step):
        if target != "llvm":
            bind(s, tensor, tensor.op.axis[1], 16)
    f, dev = build(s, [X, total], target), tw.device(target)
    for m, n in ((1, 1), (7, 40)):
        values = floats(m, n)
        out = tw.nd.array(empty(m, n), dev)
        f(tw.nd.array(values, dev), out)
        np.testing.assert_allclose(out.numpy(), values.cumsum(0, dtype="float64"), rtol=1e-4, atol=1e-5)


@every_target
def test_one_kernel_for_all_steps(target: str) -> None:
    """env_threads: each thread runs the whole recurrence of its columns."""
    if target == "llvm":
        return
    X, first, step, total = cumulative(20, 48)
    s = te.create_schedule(total.op)
    block, thread = te.thread_axis((0, 3), "blockIdx.x"), te.thread_axis((0, 16), "threadIdx.x")
    s[total].env_threads([block, thread])
    bind(s, first, first.op.axis[1], 16)
    outer, inner = s[step].split(step.op.axis[1], factor=16)
    s[step].bind(outer, block)
    s[step].bind(inner, thread)
    f, dev = build(s, [X, total], target), tw.device(target)
    assert str(f.imported_modules[0].get_source()).count("main_kernel") == 2
    values = floats(20, 48)
    out = tw.nd.array(empty(20, 48), dev)
    f(tw.nd.array(values, dev), out)
    np.testing.assert_allclose(out.numpy(), values.cumsum(0, dtype="float64"), rtol=1e-4, atol=1e-5)


def test_two_states_that_advance_together() -> None:
    """Fibonacci by pairs, and a running maximum."""
    m, n = 12, 3
    X = te.placeholder((m, n), name="X")
    p, q = te.placeholder((m, n), name="p"), te.placeholder((m, n), name="q")
    first_p = te.compute((2, n), lambda t, i: X[t, i], name="first_p")
    first_q = te.compute((2, n), lambda t, i: X[t, i] * 2, name="first_q")
    step_p = te.compute((m, n), lambda t, i: p[t - 1, i] + p[t - 2, i] * 0.5, name="step_p")
    step_q = te.compute((m, n), lambda t, i: te.max(q[t - 1, i], X[t, i]) + step_p[t, i], name="step_q")
    P, Q = te.scan([first_p, first_q], [step_p, step_q], [p, q], inputs=[X], name="pair")
    values = floats(m, n)
    want_p, want_q = np.empty((m, n), "float32"), np.empty((m, n), "float32")
    want_p[:2], want_q[:2] = values[:2], values[:2] * 2
    for t in range(2, m):
        want_p[t] = want_p[t - 1] + want_p[t - 2] * 0.5
        want_q[t] = np.maximum(want_q[t - 1], values[t]) + want_p[t]
    s = te.create_schedule(P.op)
    for target in ("", "llvm"):
        got_p, got_q = empty(m, n), empty(m, n)
        if target:
            arrays = [tw.nd.array(a) for a in (values, got_p, got_q)]
            tw.build(s, [X, P, Q], target)(*arrays)
            got_p, got_q = arrays[1].numpy(), arrays[2].numpy()
        else:
            run(tw.lower(s, [X, P, Q])["main"], values, got_p, got_q)
        np.testing.assert_allclose(got_p, want_p, rtol=1e-5)
        np.testing.assert_allclose(got_q, want_q, rtol=1e-5)


@every_target
def test_a_recurrent_cell(target: str) -> None:
    """h[t] = tanh(W h[t-1] + x[t]), with a matrix product as a cell of its own in each step."""
    steps, size = 6, 32
    x, W = te.placeholder((steps, size), name="x"), te.placeholder((size, size), name="W")
    h = te.placeholder((steps, size), name="h")
    k = te.reduce_axis((0, size), "k")
    first = te.compute((1, size), lambda _, i: te.tanh(x[0, i]), name="first")
    cell = te.compute((steps, size), lambda t, i: te.sum(W[i, k] * h[t - 1, k], axis=k), name="cell")
    step = te.compute((steps, size), lambda t, i: te.tanh(cell[t, i] + x[t, i]), name="step")
    H = te.scan(first, step, h, inputs=[x, W], name="H")
    s = te.create_schedule(H.op)
    if target != "llvm":
        bind(s, first, first.op.axis[1], 8)
        outer, inner = s[step].split(step.op.axis[1], factor=8)
        s[step].bind(outer, te.thread_axis("blockIdx.x"))
        s[step].bind(inner, te.thread_axis("threadIdx.x"))
        s[cell].compute_at(s[step], inner)
    f, dev = build(s, [x, W, H], target), tw.device(target)
    a, w = floats(steps, size), floats(size, size) * np.float32(0.3)
    out = tw.nd.array(empty(steps, size), dev)
    f(tw.nd.array(a, dev), tw.nd.array(w, dev), out)
    want = np.empty((steps, size))
    want[0] = np.tanh(a[0])
    for t in range(1, steps):
        want[t] = np.tanh(w.astype("float64") @ want[t - 1] + a[t])
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-3, atol=1e-4)


def test_a_result_that_others_read() -> None:
    X, _, _, total = cumulative(8, 4)
    half = te.compute((8, 4), lambda t, i: total[t, i] / 2, name="half")
    s = te.create_schedule(half.op)
    values, out = floats(8, 4), empty(8, 4)
    run(tw.lower(s, [X, half])["main"], values, out)
    np.testing.assert_allclose(out, values.cumsum(0) / 2, rtol=1e-5)


def test_refused() -> None:
    X, first, step, total = cumulative(8, 4)
    state = te.placeholder((8, 4), name="other")
    with refused("scan", "init is 3, which is not a tensor", fix="te.scan(init, update, state)"):
        te.scan(3, step, state)
    with refused("scan", "1 initial value, 1 update and 2 states", fix="one of each"):
        te.scan([first], [step], [state, state])
    with refused("scan", "the state 'step' of 'scan' is computed", fix="te.placeholder"):
        te.scan(first, step, step)
    with refused("scan", "'first' is float32[1, 4]", fix="the shape and type of the state"):
        te.scan(first, first, state)
    s = te.create_schedule(total.op)
    axis = total.op.scan_axis
    for primitive, attempt in {
        "split": lambda: s[total].split(axis, factor=2),
        "bind": lambda: s[total].bind(axis, te.thread_axis("threadIdx.x")),
        "parallel": lambda: s[total].parallel(axis),
    }.items():
        with refused(primitive, "axis 'total.idx' of stage 'total' is the loop of a scan", fix="env_threads"):
            attempt()
    with refused("env_threads", "stage 'step' is not a scan", fix="bind its loops"):
        s[step].env_threads([te.thread_axis((0, 4), "threadIdx.x")])
    with refused("env_threads", "axis 'threadIdx.x' is not a thread axis with an extent", fix='(0, 64), "threadIdx.x"'):
        s[total].env_threads([te.thread_axis("threadIdx.x")])
    with refused("lower", "'step', a part of the scan 'total', is an argument", fix="leave 'step' out"):
        tw.lower(s, [X, step, total])


# Groups.


def chain() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((16, 8), name="A")
    B = te.compute((16, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((16, 8), lambda i, j: B[i, j] * 2, name="C")
    D = te.compute((16, 8), lambda i, j: C[i, j] - 3, name="D")
    return te.create_schedule(D.op), [A, B, C, D]


@pytest.mark.parametrize("include_inputs", [False, True])
def test_a_group_is_placed_together(include_inputs: bool) -> None:
    s, (A, B, C, D) = chain()
    group = s.create_group(outputs=C, inputs=B if include_inputs else A, include_inputs=include_inputs)
    assert [stage.op.name for stage in group.stages] == ["B", "C"]
    group.compute_at(s[D], D.op.axis[0])
    values, out = floats(16, 8), empty(16, 8)
    run(tw.lower(s, [A, D])["main"], values, out)
    np.testing.assert_allclose(out, (values + 1) * 2 - 3, rtol=1e-6)
    assert str(tw.lower(s, [A, D])).count("for i in range(16)") == 1
    group.compute_root()
    assert "T.allocate([128]" in str(tw.lower(s, [A, D]))
    group.compute_inline()
    assert "T.allocate" not in str(tw.lower(s, [A, D]))


def test_a_stage_inside_another_of_its_group_stays_there() -> None:
    s, (A, B, C, D) = chain()
    s[B].compute_at(s[C], C.op.axis[1])
    s.create_group(outputs=C, inputs=A).compute_at(s[D], D.op.axis[0])
    assert s[B].placement.stage == s[C].id  # type: ignore[union-attr]
    values, out = floats(16, 8), empty(16, 8)
    run(tw.lower(s, [A, D])["main"], values, out)
    np.testing.assert_allclose(out, (values + 1) * 2 - 3, rtol=1e-6)


def test_a_group_of_nothing() -> None:
    s, (A, B, _, D) = chain()
    with pytest.warns(UserWarning, match=r"no stage lies between the inputs \['D'\] and the outputs \['B'\]"):
        assert s.create_group(outputs=B, inputs=D).compute_at(s[D], D.op.axis[0]).stages == []
    before = s.value, list(s.steps)
    with refused("compute_inline", "stage 'D' is an output"):
        s.create_group(outputs=D, inputs=A).compute_inline()
    assert (s.value, s.steps) == before  # all stages of a group, or none
    with refused("create_group", "3 is not a tensor"):
        s.create_group(outputs=3, inputs=A)


def test_stages_of_a_scan_stay_where_they_belong() -> None:
    X, first, step, total = cumulative(4, 5)
    after = te.compute((4, 5), lambda i, j: total[i, j] + 1.0, name="after")
    s = te.create_schedule(after.op)
    with refused("compute_at", "'step' is a step of the scan 'total', but 'after' reads", fix="a loop of"):
        s[step].compute_at(s[after], after.op.axis[1])
    with refused("compute_at", "stage 'first' computes the first rows of the scan 'total'", fix="moves it, too"):
        s[first].compute_at(s[after], after.op.axis[0])
    state = total.op.state[0]  # type: ignore[attr-defined]
    for change in ("compute_root", "cache_read", "cache_write"):
        s = te.create_schedule(total.op)
        with pytest.warns(UserWarning, match="no effect: stage 'first' computes the first rows of the scan 'total'"):
            s[first].compute_at(s[total], total.op.scan_axis)  # type: ignore[attr-defined]
        if change == "compute_root":
            s[step].compute_root()
        elif change == "cache_read":
            s.cache_read(state, "local", [step])
        else:
            s.cache_write(step, "local")
        out = empty(4, 5)
        run(tw.lower(s, [X, total])["main"], floats(4, 5), out)
        np.testing.assert_allclose(out, floats(4, 5).cumsum(0), rtol=1e-5, err_msg=change)


@every_target
@pytest.mark.parametrize("read", ["first", "step", "both"])
def test_a_scan_reads_copies(read: str, target: str) -> None:
    """Its rows are those of the copies, in its own memory; what computes them has memory of its own."""
    X, first, step, total = cumulative(6, 24)
    after = te.compute((6, 24), lambda t, i: total[5 - t, i] * 2.0, name="after")
    s = te.create_schedule(after.op)
    stages = [first, step, after]
    for tensor in (first, step):
        if read in (tensor.name, "both"):
            stages.append(s.cache_read(tensor, "local", [total]))
    assert s[total].op.scan_axis is total.op.scan_axis  # type: ignore[attr-defined]
    for tensor in stages if target != "llvm" else []:
        bind(s, tensor, tensor.op.axis[1], 8)
    values, dev = floats(6, 24), tw.device(target)
    out = tw.nd.array(empty(6, 24), dev)
    build(s, [X, after], target)(tw.nd.array(values, dev), out)
    np.testing.assert_allclose(out.numpy(), values.cumsum(0)[::-1] * 2, rtol=1e-5)


def test_a_scan_inside_its_reader() -> None:
    """Its first rows are computed there, too."""
    X, first, step, total = cumulative(4, 5)
    after = te.compute((4, 5), lambda i, j: total[3 - i, j] * 2.0, name="after")
    s = te.create_schedule(after.op)
    s[total].compute_at(s[after], after.op.axis[0])
    assert s[first].placement == s[total].placement
    values, out = floats(4, 5), empty(4, 5)
    run(tw.lower(s, [X, after])["main"], values, out)
    np.testing.assert_allclose(out, values.cumsum(0)[::-1] * 2, rtol=1e-5)
    s[total].compute_root()
    assert s[first].placement == s[total].placement
    s = te.create_schedule(total.op)
    tx = te.thread_axis((0, 5), "threadIdx.x")
    s[total].env_threads([tx])
    with refused("compute_at", "is a step of the scan 'total' with the loop 'total.idx'", fix="total.op.scan_axis"):
        s[step].compute_at(s[total], tx)


def test_blocks_do_not_share_the_rows_of_a_scan_in_a_kernel() -> None:
    X, first, _, total = cumulative(1, 6)
    after = te.compute((1, 6), lambda i, j: total[i, j] * 2.0, name="after")
    s = te.create_schedule(after.op)
    s[after].bind(after.op.axis[0], te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[after], after.op.axis[0])
    s[first].bind(first.op.axis[1], te.thread_axis("blockIdx.x"))
    with refused("bind", "axis 'i' of stage 'first' is bound to blockIdx.x", fix="unbound"):
        tw.lower(s, [X, after])
