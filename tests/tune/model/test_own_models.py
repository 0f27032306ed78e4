"""Templates that have a model of their own: it ranks their spaces, and leads the search."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm
from tilewright.core.target import Target
from tilewright.topi.templates import (
    ALL,
    BatchMatmul,
    Conv1dVector,
    Conv2dLayer,
    Dense,
    Depthwise,
    Pooling,
    Transposed,
    WeightGradient,
)
from tilewright.tune.model.ranking import rank
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.search.guided import GuidedSearch, automatic
from tilewright.tune.search.search import Seen

CUDA = Target.parse("cuda -arch=sm_90")
LAYERS = [
    Conv2dLayer.of((4, 32, 14, 14), 32, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((1, 32, 14, 14), 32),
    Conv2dLayer.of((4, 32, 14, 14), 32, layout="NHWC"),
    Conv2dLayer.of((1, 32, 28, 28), 32, groups=8, dtype="float16"),
    Depthwise.of((2, 16, 28, 28), 7, dtype="float16"),
    Depthwise.of((4, 16, 14, 14), 3),
    Dense.of((64, 128), 64, dtype="float16"),
    Dense.of((64, 128), 64),
    BatchMatmul.of((2, 64, 64), 64, dtype="float16"),
    BatchMatmul.of((2, 64, 64), 64),
    Conv1dVector.of(4096, 8),
    WeightGradient.of((4, 16, 28, 28), 16, 3, groups=16),
    WeightGradient.of((4, 32, 28, 28), 32, 3, groups=32, layout="NHWC"),
]
OWN = [template for template in ALL if template.gpu and template.gpu.own_model]


def task_of(template: Any) -> Any:
    """The task of the first of the layers that a template covers."""
    of = next(of for of in LAYERS if template.kind is type(of) and template.covers(of, CUDA))
    return template.task(of, CUDA)


@pytest.mark.parametrize("template", OWN, ids=lambda template: str(template.name))
def test_what_it_ranks_first_is_the_first_configuration(template: Any) -> None:
    task = task_of(template)
    best = rank(task, 8)
    first = template.default_config(template.workload(task.args), CUDA)
    assert best.seconds[0] == min(best.seconds) == Scorer(task).seconds([first.index])[0] > 0
    assert len(best.indices) == 8
    assert all(task.config_space.is_index_valid(index) for index in best.indices)
    assert re.fullmatch(
        r"[\d.,]+ µs expected by the template's own model of tiles: [\d,]+ blocks of [\d,]+ threads",
        autotvm.explain(task, first),
    )


@pytest.mark.parametrize(
    "name",
    ["topi/conv2d.mma", "topi/conv2d.window", "topi/conv2d.gemm", "topi/depthwise.mma", "topi/depthwise.planes"],
)
def test_the_default_search_begins_with_what_it_ranks(name: str) -> None:
    task = task_of(next(template for template in ALL if template.name == name))
    search = automatic(task, 0)
    assert isinstance(search, GuidedSearch)
    batch = search.propose(8)
    assert min(Scorer(task).seconds(batch)) <= 1.1 * rank(task, 8).seconds[0]
    search.learn([Seen(index, 1e9 * (1 + k)) for k, index in enumerate(batch)])
    assert len(set(search.propose(8)) - set(batch)) == 8


def test_those_without_are_te_compute_stages_that_the_model_of_the_machine_covers() -> None:
    without = [template for template in ALL if template.gpu and not template.gpu.own_model]
    assert {template.name.partition("/")[2] for template in without} == {
        "conv1d", "conv2d", "depthwise.lines", "conv_transpose", "conv_transpose.phases", "pool",
        "backward",
    }  # fmt: skip
    for template in without[:2]:
        task = task_of(template)
        assert np.isfinite(Scorer(task).score(task.config_space.draw(np.random.default_rng(0), 32)).seconds).any()


@pytest.mark.parametrize(
    "of",
    [
        Conv1dVector.of(4096, 8),
        Conv1dVector.of(65536, 128),
        Pooling.of((1, 16, 28, 28), kernel=3, stride=2, padding=1),
        Transposed.of((1, 16, 14, 14), 16, 4, 2, 1),
    ],
    ids=lambda of: str(of.name),
)
def test_a_rule_of_thumb_comes_first_unless_another_has_a_lead(of: Any) -> None:
    template = next(template for template in ALL if template.kind is type(of))
    task = template.task(of, CUDA)
    default = task.declared.ranked_default
    assert default is not None
    first, thumb = template.default_config(of, CUDA).index, default.find()
    took, would_take = Scorer(task).seconds([first, thumb])
    assert first == thumb or took * (1 + default.lead) < would_take
    best = rank(task, 8)
    lead = Scorer(task).seconds([best.indices[0]])[0]
    assert best.indices[0] == thumb or lead * (1 + default.lead) < would_take
    assert len(set(best.indices)) == len(best.indices) == 8
    if task.config_space.range_length <= 600:
        assert first == best.indices[0]


def test_on_a_cpu_there_is_none() -> None:
    template = next(template for template in ALL if template.name == "topi/conv2d.direct")
    assert template.task(LAYERS[0], Target("llvm")).declared.expected is None
