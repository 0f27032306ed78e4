"""The HWCN convolution of the examples with its tiles in rings of several stages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate
from tilewright.topi.testing import conv2d_hwcn_python

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import conv2d_hwcn

SMALL = conv2d_hwcn.Problem(batch=64, in_channel=32, out_channel=64, size=2)


def pipelined(depth: int, step: Any = conv2d_hwcn.vector, p: Any = SMALL) -> tuple[Any, list[Any]]:
    s, *args = step(p)
    for stage in s.stages:
        if stage.op.name.endswith(".shared"):
            stage.pipeline(depth)
    return s, list(args)


def data(p: Any = SMALL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (p.size, p.size, p.in_channel, p.batch)).astype("float32")
    w = rng.integers(-2, 3, (p.kernel, p.kernel, p.in_channel, p.out_channel)).astype("float32")
    return a, w, conv2d_hwcn_python(a, w, 1, p.pad)


@pytest.mark.parametrize("step", [conv2d_hwcn.shared, conv2d_hwcn.vector])
def test_it_is_right_and_keeps_three_stages(step: Any) -> None:
    plain, deep = (tilewright.lower(*made).functions[0] for made in (pipelined(1, step), pipelined(3, step)))

    def shared(function: Any) -> list[int]:
        held = (node.buffer for node in post_order(function.body) if isinstance(node, Allocate))
        return [buffer.shape[0].value for buffer in held if buffer.scope.value == "shared"]

    assert shared(deep) == [3 * size for size in shared(plain)]
    a, w, expected = data()
    b = np.full(expected.shape, np.nan, "float32")
    interpret(finish(deep, check=True), [a, w, b], outputs=deep.buffers[2:])
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize(
    "target", [pytest.param("opencl", marks=pytest.mark.opencl), pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_it_is_right_where_it_runs(target: str, depth: int) -> None:
    a, w, expected = data()
    device = tilewright.device(target, 0)
    b = tilewright.nd.empty(expected.shape, "float32", device)
    module = tilewright.build(*pipelined(depth), target)
    module(tilewright.nd.array(a, device), tilewright.nd.array(w, device), b)
    np.testing.assert_array_equal(b.numpy(), expected)


def test_it_compiles_for_cuda_with_three_stages_of_shared_memory() -> None:
    module = tilewright.build(*pipelined(3), "cuda")
    (resources,) = module.resources.values()
    assert resources.shared_bytes == 3 * 2 * 8 * 64 * 4
