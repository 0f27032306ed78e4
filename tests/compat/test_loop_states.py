"""States of the legacy auto_scheduler: their loops, their steps, and the programs that these make."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright import UserError, auto_scheduler, te, tir, topi
from tilewright.auto_scheduler import loop_state
from tilewright.loops.interpret import interpret

N, M, K = 12, 20, 30


def product() -> list[Any]:
    A, B, k = te.placeholder((N, K), name="A"), te.placeholder((K, M), name="B"), te.reduce_axis((0, K), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, topi.nn.relu(C)]


def extents(state: Any, stage: Any) -> list[int | None]:
    return [None if loop.range is None else int(loop.range.extent) for loop in state[stage].iters]


def run(s: Any, args: Any, a: Any, b: Any, expected: Any, on_threads: bool = False) -> None:
    """Compare a schedule with the expected values, in the interpreter."""
    (made,) = tw.lower(s, args).functions
    made = finish(made, check=True) if on_threads else made
    result = np.full((N, M), -1, np.float32)
    interpret(made, [a, b, result], races=on_threads, outputs=made.buffers[2:])
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def check(dag: Any, state: Any) -> None:
    """The steps of a state make a right program after a round trip through JSON."""
    rng = np.random.default_rng(0)
    a, b = rng.random((N, K), np.float32) - 0.5, rng.random((K, M), np.float32)
    again = loop_state.State(json.loads(json.dumps(state.transform_steps)), dag)
    assert again == state
    s, args = dag.apply_steps_from_state(again)
    assert s.recorded == state.schedule().recorded
    run(s, args, a, b, np.maximum(a.astype(float) @ b, 0))


def begun() -> tuple[Any, Any, int, int]:
    dag = auto_scheduler.ComputeDAG(product())
    return dag, dag.get_init_state(), 2, 3


def test_loops_are_split_fused_and_annotated() -> None:
    dag, state, _, relu = begun()
    i, j = state[relu].iters
    outer, middle, inner = state.split(relu, i, [3, 2])
    assert extents(state, relu) == [2, 3, 2, M]
    j0, j1 = state.split(relu, j, [4], inner_to_outer=False)
    assert extents(state, relu) == [2, 3, 2, 4, 5]
    state.reorder(relu, [outer, j0, middle, inner, j1])
    fused = state.fuse(relu, [outer, j0])
    assert int(fused.range.extent) == 8
    number = state.ANNOTATION_TRANS_TABLE
    assert state.parallel(relu, fused).annotation == number["parallel"]
    assert state.unroll(relu, inner, max_unroll=1).annotation == number["none"]
    assert state.unroll(relu, inner).annotation == number["unroll"]
    assert state.vectorize(relu, j1) == state[relu].iters[-1]
    state.pragma(relu, fused, "auto_unroll_max_step$16")
    assert [step[0] for step in state.transform_steps] == ["SP", "SP", "RE", "FU", "AN", "AN", "AN", "PR"]
    check(dag, state)


def test_loops_have_the_names_of_the_legacy_api() -> None:
    """The expected text is what TVM v0.14 prints for these steps: loops of one iteration are left out."""
    dag, state, product, relu = begun()
    state.split(relu, state[relu].iters[0], [3, 1, 2])
    state.split(relu, state[relu].iters[4], [4], inner_to_outer=False)
    loops = state[relu].iters
    assert [loop.name for loop in loops] == ["i0.0", "i0.1", "i0.2", "i0.3", "i1.0", "i1.1"]
    state.reorder(relu, [loops[i] for i in (0, 4, 1, 2, 3, 5)])
    fused = state.fuse(relu, state[relu].iters[:2])
    state.parallel(relu, fused)
    state.pragma(relu, state[relu].iters[0], "auto_unroll_max_step$16")
    state.split(relu, state[relu].iters[-1], [5])
    state.compute_at(product, relu, state[relu].iters[0])
    copied = state.copy()
    assert (
        str(copied)
        == str(loop_state.State(state, dag))
        == (
            "Placeholder: A, B\n"
            "compute auto_unroll: 16\n"
            "parallel i0.0@i1.0@ (0,8)\n"
            "  for i (None)\n"
            "    for j (None)\n"
            "      for k (None)\n"
            "        C = ...\n"
            "  for i0.1 (0,3)\n"
            "    for i0.3 (0,2)\n"
            "      for i1.1.1 (0,5)\n"
            "        compute = ...\n"
        )
    )
    s = te.create_schedule(dag.outputs)
    stage = s[dag.outputs[0]]
    _, inner = stage.split(stage.op.axis[0], factor=4)
    stage.fuse(inner, stage.op.axis[1])
    recorded = loop_state.State(s.recorded, dag)
    assert [loop.name for loop in recorded[relu].iters] == ["i0.0", "i0.1@i1@"]


def test_stages_move_and_have_copies() -> None:
    dag, state, product, relu = begun()
    state.split(relu, state[relu].iters[0], [4])
    state.compute_at(product, relu, state[relu].iters[0])
    assert state[product].compute_at == loop_state.Stage.COMPUTE_AT_TRANS_TABLE["iter"]
    assert extents(state, product) == [None, None, None]
    assert extents(dag.infer_bound_from_state(state), product) == [4, M, K]
    copy = state.cache_read(0, "global", [product])
    assert [op.name for op in state.stage_ops] == ["A", "A.global", "B", "C", "compute"]
    assert state.stages[1].op is copy
    cache = state.cache_write(relu + 1, "local")
    state.compute_at(cache, relu + 2, state[relu + 2].iters[1])
    state.compute_at(copy, product + 1, state[product + 1].iters[0])
    state.storage_align(copy, state[copy].iters[0], 8, 4)
    text = str(dag.infer_bound_from_state(state))
    assert text.startswith(
        "Placeholder: A, B\nfor i0 (0,12)\n  for i1 (0,20)\n    A.global storage_offset: 4\n    for ax1 (0,30)\n"
    )
    check(dag, state)
    state.compute_root(copy)
    check(dag, state)


def test_splits_follow_other_splits() -> None:
    dag, state, product, relu = begun()
    state.split(relu, state[relu].iters[0], [2, 3])
    state.split(relu, state[relu].iters[3], [5, 2])
    state.follow_split(product, state[product].iters[0], 0, 1)
    assert extents(state, product) == [2, 6, M, K]
    state.follow_fused_split(product, state[product].iters[2], [0, 1], 0, True)
    assert extents(state, product) == [2, 6, 2, 10, K]
    other = state.copy()
    other.follow_split(product, other[product].iters[1], 2, 2)
    assert extents(other, product)[1:4] == [1, 6, 1]
    assert len(other.transform_steps) == len(state.transform_steps) + 1
    check(dag, other)


def test_partial_results_and_inlined_stages() -> None:
    dag, state, product, _ = begun()
    outer, _ = state.split(product, state[product].iters[2], [5])
    partial = state.rfactor(product, outer, 2)
    assert extents(state, partial) == [N, M, 6, 5]
    assert extents(state, product + 1) == [N, M, 6]
    assert [loop.iter_kind for loop in state[partial].iters] == [0, 0, 0, 1]
    check(dag, state)
    A = te.placeholder((8,), name="A")
    doubled = te.compute((8,), lambda i: A[i] * 2.0, name="doubled")
    short = auto_scheduler.ComputeDAG([A, te.compute((8,), lambda i: doubled[i] + 1.0, name="B")])
    state = short.get_init_state()
    state.compute_inline(doubled)
    assert state[doubled].compute_at == loop_state.Stage.COMPUTE_AT_TRANS_TABLE["inlined"]
    assert "doubled" not in str(state)


@pytest.mark.parametrize("stored", ["B", "BC", "BD", "BCD"])
def test_stages_that_others_read_are_no_outputs(stored: str) -> None:
    """Also if their results are among the tensors. Steps compute such a stage inside another one, which stores it."""
    A = te.placeholder((6, 4), name="A")
    B = te.compute((6, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C, D = (te.compute((6, 4), lambda i, j, by=by: B[i, j] + by, name=name) for name, by in (("C", 1.0), ("D", 3.0)))
    given = [
        A,
        *(each for each in (B, C, D) if each.name in stored),
        te.compute((6, 4), lambda *i: C(*i) * D(*i), name="E"),
    ]
    dag = auto_scheduler.ComputeDAG(given)
    assert [op.name for op in dag.outputs] == ["E"]
    assert [op.name for op in dag.stored] == [*stored, "E"]
    state, (a, b, c, d, e) = dag.get_init_state(), (dag.ops.index(t.op) for t in (*(A, B, C, D), given[-1]))
    assert state[a].op_type == 0
    for stage in (b, c, d):
        state.compute_at(stage, e, state[e].iters[1])
    policy = auto_scheduler.SketchPolicy(
        auto_scheduler.SearchTask(compute_dag=dag, workload_key="chain", target="llvm")
    )
    x = np.arange(24, dtype=np.float32).reshape(6, 4)
    wanted = {"B": x * 2, "C": x * 2 + 1, "D": x * 2 + 3, "E": (x * 2 + 1) * (x * 2 + 3)}
    for found in (state, *policy.generate_sketches()):
        s, args = dag.apply_steps_from_state(found)
        arrays = [x, *(np.full((6, 4), -1, np.float32) for _ in args[1:])]
        (made,) = tw.lower(s, args).functions
        interpret(made, arrays, outputs=made.buffers[1:])
        for tensor, array in zip(args[1:], arrays[1:], strict=True):
            np.testing.assert_array_equal(array, wanted[tensor.name])


def test_threads_share_copies() -> None:
    """Blocks, threads, and a shared copy that all threads fetch: the form of most records of GPUs."""
    dag, state, product, relu = begun()
    i = state.split(relu, state[relu].iters[0], [2, 3])
    j = state.split(relu, state[relu].iters[3], [5, 2])
    state.reorder(relu, [each for pair in zip(i, j, strict=True) for each in pair])
    block, thread = (state.fuse(relu, state[relu].iters[at : at + 2]) for at in (0, 1))
    state.compute_at(product, relu, thread)
    outer, inner = state.split(product, state[product].iters[2], [5])
    state.reorder(product, [outer, inner, *state[product].iters[:2]])
    shared = state.cache_read(0, "shared", [product])
    state.compute_at(shared, product + 1, outer)
    fetched = state.fuse(shared, state[shared].iters)
    _, lane = state.follow_fused_split(shared, fetched, [0, 1], 0, True)
    state.bind(shared, lane, "threadIdx.x")
    state.bind(relu + 1, block, "blockIdx.x")
    state.bind(relu + 1, thread, "threadIdx.x")
    s, args = dag.apply_steps_from_state(state)
    rng = np.random.default_rng(0)
    a, b = rng.random((N, K), np.float32), rng.random((K, M), np.float32)
    run(s, args, a, b, a @ b, on_threads=True)


def test_stages_have_the_numbers_of_the_legacy_api() -> None:
    """A copy comes behind its source, and operations in the order of a search from the outputs."""
    A, B, D = (te.placeholder((8,), name=name) for name in "ABD")
    C = te.compute((8,), lambda i: A[i] + B[i], name="C")
    E = te.compute((8,), lambda i: C[i] * D[i], name="E")
    assert [op.name for op in auto_scheduler.ComputeDAG([A, B, D, E]).ops] == ["A", "B", "C", "D", "E"]
    s = te.create_schedule([C.op, E.op])
    s.cache_read(A, "global", [C])
    s.cache_read(C, "local", [E])
    s.cache_write(E, "local")
    dag = auto_scheduler.ComputeDAG(s)
    names = ["A", "A.global", "B", "C", "C.local", "D", "E.local", "E"]
    assert [op.name for op in dag.ops] == names
    assert [op.name for op in dag.init_state.stage_ops] == names
    loaded = pickle.loads(pickle.dumps(dag))
    assert str(loaded) == str(dag)
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key='["chain"]', target="llvm")
    again = pickle.loads(pickle.dumps(task))
    assert (again.workload_key, str(again.compute_dag)) == (task.workload_key, str(dag))


def test_a_second_copy_has_a_name_of_its_own() -> None:
    A = te.placeholder((8,), name="A")
    B, C = (te.compute((8,), lambda i, x=x: A[i] + x, name=name) for name, x in (("B", 1.0), ("C", 2.0)))
    s = te.create_schedule([B.op, C.op])
    assert [s.cache_read(A, "shared", [reader]).op.name for reader in (B, C)] == ["A.shared", "A.d.shared"]


def test_a_registered_function_returns_the_intrinsic() -> None:
    def added(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, "i") as i:
            y[i] = x[i] + 1.0
        return ib.get()

    def intrinsic() -> Any:
        a = te.placeholder((8,), name="a")
        b = te.compute((8,), lambda i: a[i] + 1.0, name="b")
        buffers = {t: tir.decl_buffer(t.shape, t.dtype, offset_factor=1, strides=[1]) for t in (a, b)}
        return te.decl_tensor_intrin(b.op, added, binds=buffers)

    tw.register_func("tests.loop_states.intrinsic", intrinsic, override=True)
    A = te.placeholder((4, 16), name="A")
    B = te.compute((4, 16), lambda i, j: A[i, j] + 1.0, name="B")
    state = auto_scheduler.ComputeDAG([A, B]).init_state
    _, inner = state.split(B, state[B].iters[1], [8])
    with pytest.raises(UserError, match="no function 'unknown' is registered"):
        state.tensorize(B, inner, "unknown")
    found = state.tensorize(B, inner, "tests.loop_states.intrinsic")
    assert found.annotation == state.ANNOTATION_TRANS_TABLE["tensorize"]
    s, args = state.dag.apply_steps_from_state(state)
    (made,) = tw.lower(s, args).functions
    result = np.zeros((4, 16), np.float32)
    interpret(made, [np.ones((4, 16), np.float32), result], races=False, outputs=made.buffers[1:])
    assert (result == 2).all()


def test_how_far_workloads_differ() -> None:
    def factor(mine: list[Any], theirs: list[Any]) -> float:
        decoded = (auto_scheduler.utils.decode_workload_key(json.dumps(key)) for key in (mine, theirs))
        return auto_scheduler.utils.calc_workload_dis_factor(*decoded)

    assert factor(["f", [8, 6], "float32"], ["f", [2, 3], "float32"]) == 8
    for other in (["g", [8, 6]], ["f", [8, 4]], ["f", [8, 0]], ["f", [8, 6], 1], ["f", [8, "6"]]):
        assert factor(["f", [8, 6]], other) == float("inf")


def test_mistakes() -> None:
    _, state, product, relu = begun()
    loop = state[product].iters[0]
    with pytest.raises(UserError, match="'i' is no loop of stage 'compute'"):
        state.vectorize(relu, loop)
    with pytest.raises(UserError, match="thread_name is 'blockIdx"):
        state.bind(product, loop, "blockIdx.w")
    with pytest.raises(UserError, match="the lengths are"):
        state.split(product, loop, [0])
    state.parallel(product, loop)
    with pytest.raises(UserError, match="step 0 is no split"):
        state.follow_split(product, state[product].iters[1], 0, 1)
    with pytest.raises(UserError, match="does not fit the stages of this state: 0 A"):
        assert loop_state.State([["FU", 9, [0, 1]]], state.dag).stages
    with pytest.raises(UserError, match="the unknown 'XX'"):
        assert loop_state.State([["XX", 9]], state.dag).stages
