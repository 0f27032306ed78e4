"""One compiled kernel serves many batch sizes, where its code does not depend on the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.codegen import nvrtc
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.planning import compiler
from tilewright.functional.programs.executable import Executable
from tilewright.runtime.compile import resolve_target

CUDA = resolve_target(Target("cuda -arch=sm_90"))
BATCHES = (96, 128, 256)


def kernel(batch: int, layout: str, groups: int) -> Executable:
    """The configuration that a call takes for the first batch, whatever records there are of others."""
    shape, window = (144, 56, 56), ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
    problem = Problem("conv", (BATCHES[0], *shape), 144, *window, groups, "float16", layout, bias=True)
    chosen = compiler.default_selection(problem, CUDA)
    other = problem._replace(shape=(batch, *shape))
    workload = compiler.workload_of(other)
    config = chosen.template.strategy(CUDA).space(workload).get(chosen.config.index or 0)
    selection = replace(chosen, workload=workload, config=config)
    return compiler.compiled(selection, CUDA, compiler.epilogue_of(other, None))


@pytest.mark.parametrize(("layout", "groups"), [("NCHW", 144), ("NHWC", 144), ("NCHW", 36)])
def test_batches_share_a_kernel(layout: str, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    usual = nvrtc._compile
    monkeypatch.setattr(nvrtc, "_memo", {})
    monkeypatch.setattr(nvrtc, "_compile", lambda source, *rest: (compiled.append(source), usual(source, *rest))[1])
    found = [kernel(batch, layout, groups) for batch in BATCHES]
    assert len(compiled) == 1
    assert len({one.binary for one in found}) == 1
    blocks = [one.launches[0].grid[0] * one.launches[0].grid[1] * one.launches[0].grid[2] for one in found]
    assert [blocks[0] * batch for batch in BATCHES] == [BATCHES[0] * count for count in blocks]
