"""Which library's kernel a call runs, by the layers that were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import rivals
from tilewright.functional.planning.rivals import (
    MeasuredLayer,
    RatioEstimate,
    cpu_device,
    cpu_table,
    distance,
    estimate,
    estimate_on_cpu,
    is_undecided,
    known_on_cpu,
    reason_for_rival,
    reason_on_gpu,
    table,
)  # fmt: skip
from tilewright.runtime.device import cpu

KNOWN = Problem(CONV, (8, 64, 28, 28), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16", "NHWC")
SLOWER = MeasuredLayer(KNOWN, "a GPU", 3e-6, 2e-6)


def test_a_measured_layer_is_decided_by_its_measurement() -> None:
    others = [MeasuredLayer(KNOWN._replace(shape=(8, 64, 28, n)), "a GPU", 1e-6, 9e-6) for n in (27, 29)]
    assert "measured 1.50 times as fast as ours for this layer" in reason_on_gpu(KNOWN, [SLOWER, *others])
    assert not reason_on_gpu(KNOWN, [replace(SLOWER, ours=2.02e-6), *others])  # noise


@pytest.mark.parametrize("residual", [False, True])
def test_a_row_with_the_same_addition_comes_first(residual: bool) -> None:
    rows = [replace(SLOWER, problem=KNOWN._replace(residual=each, bias=True)) for each in (not residual, residual)]
    found = estimate(KNOWN._replace(residual=residual), rows)
    assert found is not None
    assert found.nearest is rows[1]


def test_layers_count_by_their_likeness() -> None:
    near, far = KNOWN._replace(shape=(8, 64, 30, 30)), KNOWN._replace(shape=(1, 64, 7, 7), kernel=(5, 5))
    found = estimate(near, [SLOWER, MeasuredLayer(far, "a GPU", 1e-6, 4e-6)])
    assert found is not None
    assert found.nearest is SLOWER
    assert 1.0 < found.ratio < 1.5
    assert "expected to be 1.50 times as fast as ours, by conv  8x64x28x28" in reason_on_gpu(near, [SLOWER])


@pytest.mark.parametrize(
    "other",
    [
        KNOWN._replace(layout="NCHW"),
        KNOWN._replace(groups=1),
        KNOWN._replace(op="conv_transpose"),
        KNOWN._replace(filters=192, dtype="float32", kernel=(9, 9)),
    ],
    ids="layout dense operator alike-in-nothing".split(),
)
def test_other_kinds_of_layers_say_nothing(other: Problem) -> None:
    assert estimate(other, [SLOWER]) is None


def test_products_of_matrices_are_the_librarys_without_a_record() -> None:
    dense = KNOWN._replace(groups=1)
    assert "a sum over 576 products is a matrix product" in reason_on_gpu(dense, [])
    assert not reason_on_gpu(KNOWN._replace(groups=16, kernel=(5, 5)), [])  # four channels of a group


def test_groups_between_two_kinds_of_kernels_are_the_librarys_without_a_record() -> None:
    """Of 16 or 32 channels, ours have matrix instructions; of 24, they have none."""
    groups = {size: KNOWN._replace(shape=(8, 8 * size, 28, 28), filters=8 * size, groups=8) for size in (16, 24, 32)}
    known = [MeasuredLayer(groups[size], "a GPU", 1e-6, 2e-6) for size in (16, 32)]
    assert not any(reason_on_gpu(groups[size], known) for size in (16, 32))
    assert "a sum over 216 products is a matrix product" in reason_on_gpu(groups[24], known)
    assert not reason_on_gpu(groups[24], [MeasuredLayer(groups[24], "a GPU", 1e-6, 2e-6)])


def test_layers_with_weights_in_another_order_say_nothing_of_matrix_products() -> None:
    dense = KNOWN._replace(groups=1, weights="OHWI")
    faster = MeasuredLayer(dense, "a GPU", 1e-6, 2e-6)
    near = dense._replace(shape=(8, 64, 30, 30))
    assert not reason_on_gpu(near, [faster])
    assert "is a matrix product, and no record" in reason_on_gpu(near._replace(weights="OIHW"), [faster])
    one_tap = MeasuredLayer(dense._replace(kernel=(1, 1)), "a GPU", 1e-6, 2e-6)  # of one tap, both orders are the same
    assert not reason_on_gpu(near._replace(kernel=(1, 1), weights="OIHW"), [one_tap])


def test_the_table_that_ships() -> None:
    known = [one for one in table() if one.device == "NVIDIA H200"]
    assert len(known) > 300
    assert len({one.problem for one in known}) == len(known)
    assert all(one.ours > 0 and one.theirs > 0 for one in known)
    assert distance(known[0].problem, known[0].problem) == 0


@pytest.mark.parametrize("instructions", ["AVX2", "AVX-512", "AMX"])
def test_layers_on_a_cpu_are_decided_by_measurements_on_a_cpu(
    instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that PyTorch computes faster are its own, as they are on a GPU."""
    known = [one for one in cpu_table() if one.device == cpu_device(instructions)]
    assert len({one.problem for one in known}) == len(known) > 100
    monkeypatch.setattr(rivals, "instruction_set", lambda: instructions)
    rivals._here.cache_clear()
    for one in known[::7]:
        assert bool(reason_for_rival(one.problem, cpu())) is (one.ratio > 1.03)
        assert not is_undecided(one.problem, cpu()), "a measurement decides"
    rivals._here.cache_clear()


def test_rates_decide_a_layer_that_is_like_no_other_and_known_layers_correct_them() -> None:
    one = KNOWN._replace(dtype="float32")
    alone = estimate_on_cpu(one, [], lambda _: 3.0)
    assert (alone.ratio, alone.nearest) == (pytest.approx(3.0), None)
    near = replace(SLOWER, problem=one._replace(shape=(16, *one.shape[1:])), ours=1e-6, theirs=2e-6)
    assert estimate_on_cpu(one, [near], lambda _: 3.0).ratio == pytest.approx(0.5, rel=0.1)
    far = replace(near, problem=one._replace(shape=(1, 64, 7, 300), kernel=(1, 31)))
    assert 0.5 < estimate_on_cpu(one, [far], lambda _: 3.0).ratio < 3.0
    assert estimate_on_cpu(near.problem, [near], lambda _: 3.0) == RatioEstimate(0.5, near, 0.0), (
        "it was measured itself"
    )


def test_processors_with_the_same_instructions_decide_a_layer_on_a_cpu() -> None:
    for instructions in ("AVX2", "AVX-512", "AMX"):
        known = known_on_cpu("float32", instructions)
        assert {one.device for one in known} == {cpu_device(instructions)}
        assert {one.problem.dtype for one in known} == {"float32"}
    nobodys = known_on_cpu("float32", "SSE")
    assert {one.device for one in nobodys} == set(map(cpu_device, ("AVX2", "AVX-512", "AMX")))  # better than nothing
