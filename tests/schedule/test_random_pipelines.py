"""Random pipelines compute what NumPy computes: as CUDA runs them, in the interpreter; on OpenCL; and on a GPU."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tilewright
from tests.passes.running import compiled
from tests.schedule.random_pipelines import draw
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Await, Copy

SEEDS = range(12)


def interpreted(seed: int) -> collections.Counter[int]:
    """Runs the program of a seed in the interpreter; returns the sizes of its copies."""
    program = draw(seed)
    function = compiled(program.schedule, program.tensors)
    out = np.full(program.expected.shape, -7, program.expected.dtype)
    interpret(function, [*program.inputs, out], outputs=function.buffers[-1:])
    np.testing.assert_array_equal(out, program.expected)
    nodes = list(post_order(function.body))
    assert any(isinstance(node, Await) for node in nodes) == any(isinstance(node, Copy) for node in nodes)
    return collections.Counter(node.size for node in nodes if isinstance(node, Copy))


def ran(seed: int, target: str) -> None:
    program = draw(seed)
    device = tilewright.device(target, 0)
    out = tilewright.nd.array(np.full(program.expected.shape, -7, program.expected.dtype), device)
    module = tilewright.build(program.schedule, program.tensors, target)
    module(*(tilewright.nd.array(array, device) for array in program.inputs), out)
    np.testing.assert_array_equal(out.numpy(), program.expected, str(seed))


def test_random_pipelines_are_right_and_most_are_asynchronous() -> None:
    found = [interpreted(seed) for seed in SEEDS]
    assert sum(bool(sizes) for sizes in found) * 2 > len(found)
    assert set().union(*found) == {4, 8, 16}


@pytest.mark.parametrize("seed", [1, 4])
def test_random_pipelines_compile(seed: int) -> None:
    program = draw(seed)
    assert tilewright.build(program.schedule, program.tensors, "cuda -arch=sm_80").resources


@pytest.mark.opencl
@pytest.mark.parametrize("seed", [2, 3])
def test_random_pipelines_run_on_opencl(seed: int) -> None:
    ran(seed, "opencl")


@pytest.mark.cuda
def test_random_pipelines_run_on_a_gpu() -> None:
    for seed in range(40):
        ran(seed, "cuda")


@pytest.mark.slow
def test_many_random_pipelines_are_right() -> None:
    for seed in range(len(SEEDS), 400):
        interpreted(seed)
