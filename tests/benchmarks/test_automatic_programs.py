"""The programs of `benchmarks.automatic` under automatic schedules, at small sizes, beside their references."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from benchmarks.automatic_fused import FUSED, PAGE
from benchmarks.automatic_programs import LAYER, PRODUCTS, Program, error_of

PROGRAMS = {program.name: program for program in (*FUSED, *PRODUCTS, LAYER, *PAGE)}
DISTINCT = list({(p.declare, *p.small.items()): p.name for p in PROGRAMS.values()}.values())


def wide(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The inputs of the reference."""
    return [array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64) for array in arrays]


def check(program: Program, target: str) -> None:
    inputs, outputs = program.declare(**program.small)
    given = program.arrays(inputs, program.small)
    s = tw.auto_schedule([*inputs, *outputs], target)
    device = tw.device("cpu" if target == "llvm" else target, 0)
    poison = [np.full([int(n) for n in t.shape], np.nan if t.dtype.is_float else -7, str(t.dtype)) for t in outputs]
    arrays = [tw.nd.array(array, device) for array in (*given, *poison)]
    tw.build(s, [*inputs, *outputs], target)(*arrays)
    found = [array.numpy() for array in arrays[len(inputs) :]]
    for ours, right in zip(found, program.expected(np, wide(given)), strict=True):
        assert ours.shape == np.shape(right)
        assert error_of(ours, right) <= program.error


@pytest.mark.parametrize("name", DISTINCT)
def test_on_a_cpu(name: str) -> None:
    check(PROGRAMS[name], "llvm")


@pytest.mark.cuda
@pytest.mark.parametrize("name", DISTINCT)
def test_on_a_gpu(name: str) -> None:
    check(PROGRAMS[name], "cuda")


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_of_the_benchmark_have_schedules(name: str) -> None:
    for target, kind in (("llvm", "cpu"), ("cuda -arch=sm_90", "gpu")):
        inputs, outputs = PROGRAMS[name].declare(**PROGRAMS[name].sizes_for(kind))
        assert tw.auto_schedule([*inputs, *outputs], target).steps
