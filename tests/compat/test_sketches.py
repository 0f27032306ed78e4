"""Sketches of a script's own rules, and states that evolve, in the legacy auto_scheduler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.compat.test_auto_scheduler import Held, options, task_of
from tilewright import UserError, auto_scheduler, te
from tilewright.auto_scheduler import _ffi_api, loop_state


def test_states_evolve_towards_a_high_score() -> None:
    class ByTile(auto_scheduler.cost_model.cost_model.PythonBasedModel):
        """Scores the size of the innermost loop."""

        def predict(self, task: Any, states: Any) -> list[float]:
            return [float(int(state.stages[-1].iters[-1].range.extent)) for state in states]

    task = auto_scheduler.SearchTask(func="sums of rows", args=(96, 64), target="llvm")
    policy = auto_scheduler.SketchPolicy(task, ByTile())
    initial = sorted(policy.sample_initial_population(), key=lambda state: ByTile().predict(task, [state]))[:8]
    own = task.compute_dag.get_init_state()
    found = policy.evolutionary_search([*initial, own], 5)
    scores = ByTile().predict(task, found)
    assert len(found) == len(set(found)) == 5
    assert scores == sorted(scores, reverse=True)
    assert scores[0] >= max(ByTile().predict(task, [*initial, own]))
    assert policy.evolutionary_search([], 5) == []


def test_a_rule_of_the_script_makes_sketches() -> None:
    rule = auto_scheduler.PreloadCustomSketchRule

    def meets(policy: Any, state: Any, stage: int) -> int:
        return rule.APPLY_AND_SKIP_REST if stage == 1 else rule.PASS

    def split(policy: Any, state: Any, stage: int) -> list[Any]:
        other = loop_state.State(state, policy.search_task.compute_dag)
        other.split(stage, other[stage].iters[0], [8, 2])
        return [[state.state_object, -1], [other.state_object, 0]]

    task, held = task_of(), Held()
    policy = auto_scheduler.SketchPolicy(task, init_search_callbacks=[rule(meets, split)])
    first, second = policy.generate_sketches()
    assert (first.transform_steps, len(second[1].iters)) == ([], 3)
    task.tune(options(held, trials=2), policy)
    trials, again = held.pairs[:2], held.pairs[2:]
    assert [given.state for given, _ in trials] == [first, second]
    assert {first, second, policy.scheduled(0)} == {given.state for given, _ in again if given.is_confirmed}


def test_a_rule_leaves_lengths_to_the_search() -> None:
    """As in TVM's tutorial on sparse products: splits by None, a split that follows, and no annotations."""
    rule = auto_scheduler.PreloadCustomSketchRule

    def tiled(policy: Any, state: Any, stage: int) -> Any:
        made = loop_state.State(state, policy.search_task.compute_dag)
        product, relu = made.stages[stage - 1].op, made.stages[stage].op
        i, j, k = made[product].iters
        i0, i1, i2 = made.split(product, i, [None, None])
        j0, j1 = made.split(product, j, [None])
        k0, k1 = made.split(product, k, [4])
        m0, _ = made.follow_split(relu, made[relu].iters[0], 0, 1)
        made.reorder(product, [i0, j0, i1, k0, i2, k1, j1])
        made.compute_at(product, relu, m0)
        assert [loop.range for loop in made[relu].iters[:2]] == [None, None]
        return [(made.state_object, -1)]

    @auto_scheduler.register_workload("product and ReLU", override=True)
    def declared(n: int) -> list[Any]:
        A, B, k = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B"), te.reduce_axis((0, n), name="k")
        C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        return [A, B, te.compute((n, n), lambda i, j: te.max(C[i, j], 0.0), name="D")]

    task = auto_scheduler.SearchTask(func="product and ReLU", args=(48,), target="llvm")
    chosen = rule(lambda policy, state, stage: rule.APPLY_AND_SKIP_REST, tiled)
    policy = auto_scheduler.SketchPolicy(task, init_search_callbacks=[chosen])
    (sketch,) = policy.generate_sketches()
    with pytest.raises(UserError, match="the search has not chosen the lengths"):
        task.compute_dag.apply_steps_from_state(sketch)
    held = Held()
    runner = auto_scheduler.LocalRunner(number=1, min_repeat_ms=0)
    task.tune(auto_scheduler.TuningOptions(4, runner=runner, measure_callbacks=[held], verbose=0), policy)
    states = [given.state for given, _ in held.pairs[:4]]
    assert len(set(states)) == 4
    a = np.random.default_rng(0).random((48, 48), np.float32) - 0.5
    for state, (_, result) in zip(states, held.pairs[:4], strict=True):
        assert not result.error_no, result.error_msg
        assert state.stages[-1].iters[0].annotation == state.ANNOTATION_TRANS_TABLE["parallel"]
        assert all(48 % np.prod(step[4]) == 0 for step in state.transform_steps if step[0] == "SP")
        function = tw.build(*task.compute_dag.apply_steps_from_state(state), target="llvm")
        out = tw.nd.empty((48, 48))
        function(tw.nd.array(a), tw.nd.array(a), out)
        np.testing.assert_allclose(out.numpy(), np.maximum(a @ a, 0), rtol=1e-4, atol=1e-4)


def test_questions_of_rules_about_states() -> None:
    A, k = te.placeholder((16, 32), name="A"), te.reduce_axis((0, 32), name="k")
    B = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] + C[15 - i], name="D")
    dag = auto_scheduler.ComputeDAG([A, D])
    state = dag.get_init_state()
    consumers = _ffi_api.SearchPolicyUtilsGetConsumers(None, state, 1)
    assert consumers.items()[0] == (2, 2)
    assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(None, state, 1, 2)
    assert not _ffi_api.SearchPolicyUtilsIsElementwiseMatch(None, state, 1, 3)  # D reads C in two orders
    assert not _ffi_api.SearchPolicyUtilsIsTiled(state.stages[1])
    state.compute_inline(C)
    assert dict(_ffi_api.SearchPolicyUtilsGetConsumers(None, state, 1)) == {3: 3}
    assert not any(
        ask(state, 1)
        for ask in (
            _ffi_api.SearchPolicyUtilsHasCacheReadStage,
            _ffi_api.SearchPolicyUtilsHasCacheWriteStage,
            _ffi_api.SearchPolicyUtilsHasRfactorStage,
            _ffi_api.SearchPolicyUtilsHasCrossThreadReduction,
        )
    )
    outer, _ = state.split(B, state[B].iters[1], [4])
    assert _ffi_api.SearchPolicyUtilsIsTiled(state[B])
    partial = state.rfactor(B, outer, 1)
    assert [op.name for op in state.stage_ops] == ["A", "B.rf", "B", "C", "D"]
    assert _ffi_api.SearchPolicyUtilsHasRfactorStage(state, 1)
    state.cache_read(A, "shared", [partial])
    state.bind(B, state[B].iters[-1], "threadIdx.x")
    assert _ffi_api.SearchPolicyUtilsHasCacheReadStage(state, 0)
    assert _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(state, state.stage_id_map[state[B].op])
