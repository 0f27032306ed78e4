"""Structures and their extents: what is computed for many configurations agrees with bounds inference for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import autotvm, te
from tilewright.core.hardware import MemoryScope
from tilewright.core.target import Target
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, Transposed, named
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.model import extents
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.model.structure import Structures
from tilewright.tune.model.traced import Columns, Trace, TracedNumber

CONV1D = named("topi/conv1d")
CONV2D = named("topi/conv2d")
CONV2D_DIRECT = named("topi/conv2d.direct")
TRANSPOSED = named("topi/conv_transpose")

CUDA = Target.parse("cuda -arch=sm_90")
TASKS = {
    "conv2d": lambda: CONV2D.task(Conv2dLayer.of((1, 64, 28, 28), 96), CUDA),
    "grouped, uneven": lambda: CONV2D.task(Conv2dLayer.of((2, 36, 13, 17), 24, 3, 2, groups=4), CUDA),
    "transposed": lambda: TRANSPOSED.task(Transposed.of((1, 12, 14, 14), 24, 4, 2), CUDA),
    "direct": lambda: CONV2D_DIRECT.task(Conv2dLayer.of((2, 32, 16, 16), groups=8), CUDA),
    "conv1d": lambda: CONV1D.task(Conv1dVector.of(1000, 5), CUDA),
}


def used(kernel: extents.KernelExtents, row: int, count: int) -> tuple[int, ...]:
    """Threads, blocks, shared bytes and local bytes of one configuration."""
    local, shared = kernel.bytes_in(MemoryScope.LOCAL), kernel.bytes_in(MemoryScope.SHARED)
    found = (kernel.threads, kernel.blocks, shared, local)
    return tuple(int(np.broadcast_to(value, (count,))[row]) for value in found)


@pytest.mark.parametrize("name", ["conv2d", "transposed", "conv1d"])
def test_extents_are_those_of_each_configuration(name: str) -> None:
    task = TASKS[name]()
    space = task.config_space
    points = space.draw(np.random.default_rng(3), 16)
    for rows, structure, columns in Structures(task).groups(points):
        assert structure.schedule is not None, structure.refusal
        (kernel,) = extents.kernels(extents.infer(structure, columns))
        for row, point in enumerate(points[rows].tolist()):
            (use,) = inspect_candidate(task, space.get(space.index(point)), CUDA).uses
            shared = sum(s.bytes for s in use.storage if s.scope is MemoryScope.SHARED)
            expected = (use.threads, use.blocks, shared, use.bytes_in(MemoryScope.LOCAL))
            assert used(kernel, row, len(columns)) == expected, space.get(space.index(point))


@pytest.mark.parametrize("name", ["grouped, uneven", "direct"])
def test_extents_of_fused_loops_are_near(name: str) -> None:
    task = TASKS[name]()
    space = task.config_space
    points = space.draw(np.random.default_rng(3), 16)
    for rows, structure, columns in Structures(task).groups(points):
        (kernel,) = extents.kernels(extents.infer(structure, columns))
        for row, point in enumerate(points[rows].tolist()):
            (use,) = inspect_candidate(task, space.get(space.index(point)), CUDA).uses
            threads, blocks, _, local = used(kernel, row, len(columns))
            assert (threads, blocks) == (use.threads, use.blocks)
            assert 1 / 4 <= local / use.bytes_in(MemoryScope.LOCAL) <= 4


def test_every_configuration_is_in_one_group() -> None:
    task = TASKS["conv2d"]()
    points = task.config_space.draw(np.random.default_rng(0), 60)
    rows = np.concatenate([rows for rows, _, _ in Structures(task).groups(points)])
    assert sorted(rows.tolist()) == list(range(60))


@pytest.mark.parametrize("name", ["conv2d", "conv1d"])
def test_what_is_refused_has_no_finite_score(name: str) -> None:
    task = TASKS[name]()
    space = task.config_space
    indices = space.indices(space.draw(np.random.default_rng(1), 40))
    for index, seconds in zip(indices, Scorer(task).seconds(indices), strict=True):
        refused = inspect_candidate(task, space.get(index), CUDA).refusal is not None
        assert refused != np.isfinite(seconds), space.get(index)


def test_one_structure_serves_what_differs_in_numbers_only() -> None:
    task = TASKS["conv2d"]()
    structures = Structures(task)
    list(structures.groups(task.config_space.draw(np.random.default_rng(0), 200)))
    assert structures.count == 1


# Templates of one's own


@autotvm.template("tests/model/branches")
def branches(n: int, refuses: bool = False) -> Any:
    """Asks questions of its numbers: a comparison, an index, a loop."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("x", B.op.axis[0], num_outputs=3)
    cfg.define_knob("unroll", [0, 1])
    bx, tx, xi = cfg["x"].apply(s, B, B.op.axis[0])
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    if cfg["unroll"].val:
        s[B].unroll(xi)
    if cfg["x"].size[2] % 4 == 0:
        s[B].vectorize(s[B].split(xi, factor=[1, 2, 4][min(cfg["x"].size[2] // 4, 2)])[1])
    if refuses and cfg["x"].size[1] > 64:
        raise ValueError("too many threads")
    return s, [A, B]


@pytest.mark.parametrize("name", TASKS)
def test_packaged_templates_never_need_a_structure_for_each_configuration(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(*_: object) -> None:
        pytest.fail("what the template computes of its numbers cannot be traced")

    task = TASKS[name]()
    monkeypatch.setattr(Structures, "_plain", plain)
    points = task.config_space.draw(np.random.default_rng(5), 64)
    assert sum(len(rows) for rows, _, _ in Structures(task).groups(points)) == 64


def test_questions_part_structures() -> None:
    task = autotvm.task.create("tests/model/branches", (256,), CUDA)
    space = task.config_space
    points = np.array([space.point(i) for i in space], dtype=np.int64)
    structures = Structures(task)
    for _, structure, columns in structures.groups(points):
        small = structure.schedule is not None and len(structure.schedule.in_order()[-1].leaves) == 3
        assert np.all((columns.part(0, 2) % 4 != 0) == small)
    assert 2 < structures.count < 20


def test_what_a_template_raises_scores_infinite() -> None:
    task = autotvm.task.create("tests/model/branches", (256, True), CUDA)
    scorer = Scorer(task)
    for index in task.config_space:
        threads = task.config_space.get(index)["x"].size[1]
        assert np.isfinite(scorer.seconds([index])[0]) == (threads <= 64)


# Traced numbers


def traced(value: int) -> tuple[TracedNumber, Trace, Columns]:
    """A number that is `value` in the traced configuration, and 1 to 6 in those of the columns."""
    trace = Trace()
    table = np.arange(1, 7, dtype=np.int64)[:, None]
    columns = Columns([table], np.arange(6)[:, None])
    return TracedNumber(value, lambda c: c.part(0, 0), trace), trace, columns


def test_arithmetic_is_redone_for_each_configuration() -> None:
    x, trace, columns = traced(4)
    made = (2 * x + 7 - x // 2) % 5
    assert made.value == (2 * 4 + 7 - 2) % 5
    assert made.make(columns).tolist() == [(2 * v + 7 - v // 2) % 5 for v in range(1, 7)]
    (quotient, rest), (turned, _) = divmod(x, 3), divmod(9, x)
    assert [part.make(columns).tolist() for part in (quotient, rest, turned)] == [
        [v // 3 for v in range(1, 7)], [v % 3 for v in range(1, 7)], [9 // v for v in range(1, 7)],
    ]  # fmt: skip
    assert not trace.guards


@pytest.mark.parametrize(
    ("ask", "alike"),
    [
        (lambda x: x % 2 == 0, [2, 4, 6]),
        (lambda x: x > 3, [4, 5, 6]),
        (lambda x: bool(x - 4), [4]),
        (lambda x: [0] * 9 if x != 4 else None, [4]),
        (lambda x: range(10)[x], [4]),
        (lambda x: {4: 1}[x], [4]),
        (lambda x: x / 2, [4]),
        (lambda x: x**2, [4]),
        (lambda x: float(x), [4]),
        (lambda x: f"{x}", [4]),
        (lambda x: te.placeholder((x,)), [4]),
    ],
)
def test_questions_guard(ask: Any, alike: list[int]) -> None:
    x, trace, columns = traced(4)
    ask(x)
    assert (np.flatnonzero(trace.admits(columns)) + 1).tolist() == alike
