"""Counts of whole kernels by hand, and that the figure follows what a kernel does."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, te
from tilewright.codegen.abi import Resources
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.tune.model import explanation
from tilewright.tune.model.machine import Machine
from tilewright.tune.model.prediction import TERMS
from tilewright.tune.model.ranking import rank
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.model.work import NAMES
from tilewright.tune.space.config import Config

CUDA = Target.parse("cuda -arch=sm_90")
N, TAPS = 4096, 5


@autotvm.template("tests/model/filter")
def smooth(n: int, taps: int) -> Any:
    """A 1-D filter, with its input in shared memory or not, and threads along it or across it."""
    A, W = te.placeholder((n + taps - 1,), name="A"), te.placeholder((taps,), name="W")
    r = te.reduce_axis((0, taps), name="r")
    B = te.compute((n,), lambda i: te.sum(A[i + r] * W[r], axis=r), name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("x", B.op.axis[0], "candidate", num_outputs=3, candidate=[[-1, 128, 1], [-1, 64, 4], [-1, 32, 2]])
    cfg.define_knob("shared", [0, 1])
    cfg.define_knob("across", [0, 1])
    total = s.cache_write(B, "local")
    tile = s.cache_read(A, "shared", [total]) if cfg["shared"].val else None
    block, thread, own = cfg["x"].apply(s, B, B.op.axis[0])
    if cfg["across"].val:
        s[B].reorder(block, own, thread)
        s[B].bind(own, te.thread_axis("threadIdx.x"))
        s[B].bind(block, te.thread_axis("blockIdx.x"))
        s[total].compute_at(s[B], own)
        thread = own
    else:
        s[B].bind(block, te.thread_axis("blockIdx.x"))
        s[B].bind(thread, te.thread_axis("threadIdx.x"))
        s[total].compute_at(s[B], thread)
    if tile is not None:
        s[tile].compute_at(s[B], block)
    return s, [A, W, B]


def task() -> Any:
    return autotvm.task.create("tests/model/filter", (N, TAPS), CUDA)


def counts(x: list[int], shared: int, across: int = 0) -> dict[str, float]:
    """The counts of one configuration."""
    made = task()
    space = made.config_space
    index = next(i for i in space if (space.get(i)["x"].size, space.get(i)["shared"].val, space.get(i)["across"].val)
                 == (x, shared, across))  # fmt: skip
    row = Scorer(made).score(np.array([space.point(index)])).counts[0]
    return dict(zip(NAMES, row.tolist(), strict=True))


def counts_of(index: int) -> tuple[float, ...]:
    """The counts of a configuration by its index."""
    made = task()
    return tuple(Scorer(made).score(np.array([made.config_space.point(index)])).counts[0].tolist())


def test_counts_of_a_kernel_without_shared_memory() -> None:
    found = counts([-1, 128, 1], shared=0)
    assert (found["threads"], found["blocks"], found["shared_bytes"]) == (128, N / 128, 0)
    assert (found["fma"], found["accumulators"]) == (TAPS, 1)
    assert found["ldg"] == 2 * TAPS  # input and weight
    assert found["ldg_sectors"] == TAPS * (4 + 1)  # neighbours, and one weight for all
    assert (found["stg"], found["stg_sectors"]) == (1, 4)
    assert found["barriers"] == 0
    assert found["unique_bytes"] == 4 * (N + TAPS - 1 + TAPS)
    assert found["block_bytes"] == 4 * (128 + TAPS - 1 + TAPS)


def test_counts_of_a_fill_that_threads_share() -> None:
    found = counts([-1, 64, 4], shared=1)
    tile = 256 + TAPS - 1
    assert found["shared_bytes"] == 4 * tile
    assert found["fill_loads"] == -(-tile // 64)
    assert found["sts"] == -(-tile // 64)
    assert found["barriers"] == 1
    assert found["lds"] == (4 + TAPS - 1) / 4  # each word once, four at a time
    assert found["lds_waves"] == found["lds"] * 4  # 512 bytes
    assert found["accumulators"] == 4


def test_threads_that_lie_apart_cost_more_sectors() -> None:
    apart = counts([-1, 64, 4], shared=0)
    assert apart["stg_sectors"] == 4 * 16
    assert apart["ldg_sectors"] > counts([-1, 128, 1], shared=0)["ldg_sectors"]


def test_the_terms_say_what_makes_the_time() -> None:
    scorer = Scorer(task())
    ((prediction, _),) = scorer.predictions(0)
    assert prediction.seconds[0] == scorer.seconds([0])[0]
    assert max(terms[0] for terms in prediction.terms.values()) < prediction.seconds[0]


def test_explain_names_terms_and_counts() -> None:
    text = autotvm.explain(task(), task().config_space.get(0))
    assert re.match(r"[\d.]+ µs expected: 32 blocks of 128 threads, \d+ at a time on a multiprocessor\n", text)
    for term in TERMS:
        assert re.search(rf"^ +[\d.]+ µs  {term} ", text, re.M), term
    assert "a thread      5 multiply-adds" in text


def test_explain_counts_with_what_the_compiler_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: Any, target: Target) -> Any:
        return SimpleNamespace(program=SimpleNamespace(resources={"main_kernel": Resources(201, 8, 16, 0, 100_000, 0)}))

    monkeypatch.setattr(explanation, "build", built)
    text = autotvm.explain(task(), task().config_space.get(0), compiled=True)
    assert " 2 at a time on a multiprocessor" in text  # by 100,000 bytes of shared memory
    assert "about 208 registers" in text  # in steps of eight
    assert text.endswith("compiled      201 registers, 16 bytes spilled, 100,000 bytes of shared memory (main_kernel)")


def test_rank_returns_configurations() -> None:
    assert [config.index for config in autotvm.rank(task(), count=3)] == list(rank(task(), count=3).indices)
    assert autotvm.rank(task().with_target(Target("llvm"))) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: autotvm.rank("conv2d"), "the task is 'conv2d'"),
        (lambda: autotvm.rank(task(), count=0), "count=0"),
        (lambda: autotvm.explain(None, None), "the task is None"),
        (lambda: autotvm.explain(task(), 3), "the configuration is 3"),
        (lambda: autotvm.explain(task(), Config({})), "is not of the task's space"),
        (
            lambda: autotvm.explain(task().with_target(Target("llvm")), task().config_space.get(0)),
            "the model does not cover the target llvm",
        ),
        (
            lambda: autotvm.explain(task().with_target(Target("opencl -device=gpu")), task().config_space.get(0), True),
            "compiled=True: the resources of kernels for opencl",
        ),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        call()


def test_a_smaller_machine_is_slower() -> None:
    large = Machine.of(CUDA)
    small = replace(large, multiprocessors=8)
    indices = list(task().config_space)
    ratios = Scorer(task(), small).seconds(indices) / Scorer(task(), large).seconds(indices)
    assert np.median(ratios) > 1.1
    # Blocks of one or two warps: together they load the schedulers more evenly than the model grants them alone.
    assert ratios.min() > 0.85


def test_ranking_is_in_the_order_of_the_predictions() -> None:
    ranked = rank(task(), count=12)
    assert len(ranked.indices) == 12
    assert ranked.seconds[0] == min(ranked.seconds)
    assert list(ranked.seconds) == Scorer(task()).seconds(ranked.indices).tolist()
    alike = [counts_of(index)[:2] for index in ranked.indices[:3]]
    assert len(set(alike)) > 1
