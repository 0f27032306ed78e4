"""One-line calls warn of nothing, and take kernels whose threads spill only if there is no other."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from benchmarks.convolution_rows import WORKLOADS
from tests.functional.random_problems import draw
from tilewright.core.errors import UserError, keeping_remarks, remark
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import kernel_choice
from tilewright.functional.planning.compiler import KernelNotes, Selection
from tilewright.functional.planning.decision import Decision
from tilewright.functional.planning.kernel_choice import without_spills
from tilewright.runtime.compile import resolve_target
from tilewright.runtime.device import device
from tilewright.topi.templates import Depthwise, Epilogue, named

DIRECT = named("topi/depthwise.direct")

CUDA = resolve_target(Target("cuda -arch=sm_90"))
MODES = [(dtype, layout) for dtype in ("float32", "float16", "bfloat16") for layout in ("NCHW", "NHWC")]
SPILLED = {
    ("dw-256x96-k5-m2", "bfloat16", "NHWC"): "by default",
    ("dw1d-512x4096-k31", "float32", "NHWC"): "only a remark",
}
"""Rows whose first choice spilled, or gave cause to a warning."""


def problem_of(name: str, dtype: str, layout: str) -> Problem:
    """A row as a call has it."""
    operator, options = WORKLOADS[name]
    shape, kernel, stride = options["shape"], options.get("kernel", 3), options.get("stride", 1)
    taps = (kernel, kernel) if isinstance(kernel, int) else kernel
    if operator == "conv1d":
        shape, taps = (1, 1, 1, shape), (1, kernel)
    groups = options.get("groups", 1) if operator == "conv2d" else shape[1]
    filters = options.get("filters", shape[1] * options.get("multiplier", 1))
    padding = options.get("padding", tuple(each // 2 for each in taps) * 2)
    return Problem(CONV, shape, filters, taps, (stride, stride), padding, (1, 1), groups, dtype, layout)


def quiet(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> Decision:
    """What a call on a GPU runs, where each warning is an error."""
    monkeypatch.setattr(kernel_choice, "target_on", lambda _: CUDA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice, _ = kernel_choice.choose(problem, device("cuda"), "", None, 0)
    return choice


ROWS = [
    pytest.param(name, *mode, id=" ".join((name, *mode)), marks=[] if (name, *mode) in SPILLED else pytest.mark.slow)
    for name in WORKLOADS
    for mode in MODES
]


@pytest.mark.parametrize(("name", "dtype", "layout"), ROWS)
def test_rows_of_the_benchmarks(name: str, dtype: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = quiet(problem_of(name, dtype, layout), monkeypatch)
    if (name, dtype, layout) in SPILLED:
        assert "spills" not in choice.remark


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 50))])
def test_random_layers(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(4 * part, 4 * part + 4):
        quiet(draw(seed).problem, monkeypatch)


OF = Depthwise.of((1, 8, 9, 9))
FIRST, *OTHERS = (Selection(DIRECT, OF, DIRECT.strategy(None).space(OF).get(index), "") for index in range(4))


@pytest.mark.parametrize(
    ("spilled", "measured", "index"),
    [([0], False, 0), ([8, 0], False, 1), ([8, -1, 4, 0], False, 3), ([8, 4, 4, 4], False, 0), ([8, 0], True, 0)],
)
def test_the_first_kernel_that_keeps_all_in_registers_is_chosen(
    spilled: list[int], measured: bool, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With simulated compilers; -1 is one that refuses the kernel. What was measured stays, whatever it spills."""
    seen: list[int] = []

    def compiled(found: Selection, target: Target, epilogue: Epilogue, notes: KernelNotes) -> Any:
        assert found.config.index is not None
        seen.append(found.config.index)
        notes.spilled = spilled[found.config.index]
        notes.remarks = ("a tile is large\n  step: one",)
        if notes.spilled < 0:
            raise UserError("no")
        return None

    monkeypatch.setattr(kernel_choice, "compiled", compiled)
    first = Selection(FIRST.template, OF, FIRST.config, "", measured)
    choice, _ = without_spills(first, lambda: OTHERS, CUDA, Epilogue())
    assert choice.config_index == index
    assert seen == [0] if measured else seen == list(range(len(spilled)))
    spills = f"; a thread spills {spilled[index]} bytes to memory" if spilled[index] else ""
    assert choice.remark == f"a tile is large{spills}"


def test_remarks_are_kept_where_a_caller_asks_for_them() -> None:
    with warnings.catch_warnings(), keeping_remarks() as kept:
        warnings.simplefilter("error")
        remark("one")
    assert kept == ["one"]
    with pytest.warns(UserWarning, match="two"):
        remark("two")
