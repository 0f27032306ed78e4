"""padding="same" means what it means in PyTorch, whichever function or command it is given to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import autotvm, te, topi
from tilewright.cli.tune import OPERATORS, workload_of
from tilewright.core.errors import UserError
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, Depthwise

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional

WINDOWS = list(itertools.product(range(1, 7), range(1, 4)))
"""Kernel sizes and dilations."""


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-4, atol=1e-4)


def drawn(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(len(shape)).standard_normal(shape).astype("float32"))


@pytest.mark.parametrize(("taps", "dilation"), WINDOWS)
def test_calls_and_modules(taps: int, dilation: int) -> None:
    x, w, other = drawn(1, 2, 9, 17), drawn(3, 2, taps, 7 - taps), 4 - dilation
    both = (dilation, other)
    close(tw.conv2d(x, w, padding="same", dilation=both), F.conv2d(x, w, None, 1, "same", both))
    line, kernel = x[:, :, 0].contiguous(), w[:, :, :, 0].contiguous()
    close(tw.conv1d(line, kernel, padding="same", dilation=dilation), F.conv1d(line, kernel, None, 1, "same", dilation))
    module = tw.nn.Conv1d(2, 3, taps, padding="same", dilation=dilation, bias=False)
    module.load_state_dict({"weight": kernel})
    close(module(line).detach(), F.conv1d(line, kernel, None, 1, "same", dilation))


@pytest.mark.parametrize("call", [tw.conv_transpose2d, lambda x, w, **options: tw.max_pool2d(x, 2, **options)])
def test_the_word_is_for_convolutions(call: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="padding is 'same'"):
        call(drawn(1, 2, 9, 17), drawn(2, 3, 3, 3), padding="same")


def tuned(operator: str, **sizes: Any) -> Any:
    """The workload of `tilewright tune`, which takes text."""
    text = {name: "x".join(map(str, v)) if isinstance(v, tuple) else str(v) for name, v in sizes.items()}
    return workload_of(OPERATORS[operator], text)


def task_workload(operator: str, **sizes: Any) -> Any:
    task = getattr(autotvm.templates, operator).task("llvm", **sizes)
    kind = {"conv1d": Conv1dVector, "conv2d": Conv2dLayer, "depthwise": Depthwise}[operator]
    return kind(*task.args) if operator == "conv1d" else kind(*task.args, "NCHW")


def template(operator: str, **sizes: Any) -> Any:
    return {"conv1d": Conv1dVector, "conv2d": Conv2dLayer, "depthwise": Depthwise}[operator].of(**sizes)


@pytest.mark.parametrize("door", [tuned, task_workload, template])
def test_workloads(door: Callable[..., Any]) -> None:
    x, line = drawn(1, 2, 9, 17), drawn(11)
    for taps, dilation in WINDOWS:
        kernel, spread = (taps, 7 - taps), (dilation, 4 - dilation)
        for operator, w, groups in (("conv2d", drawn(2, 2, *kernel), 1), ("depthwise", drawn(2, 1, *kernel), 2)):
            found = door(operator, shape=(1, 2, 9, 17), kernel=kernel, dilation=spread, padding="same")
            close(found.numpy(x.numpy(), w.numpy()), F.conv2d(x, w, None, 1, "same", spread, groups))
        w = drawn(taps)
        found = door("conv1d", shape=11, kernel=taps, padding="same")  # a convolution's kernel runs backwards
        wanted = F.conv1d(line[None], w.flip(0)[None, None], None, 1, "same")[0]
        close(found.numpy(line.numpy(), w.numpy()), wanted)
    with pytest.raises(UserError, match="needs a convolution of stride 1"):
        door("conv2d", shape=(1, 2, 9, 17), kernel=3, stride=2, padding="same")
    assert door("conv2d", shape=(1, 2, 9, 17), kernel=4, stride=2).padding == (1, 1, 2, 2)


def legacy_same(x: Any, kernel: tuple[int, ...], dilation: int) -> Any:
    """The padded data of the legacy word: of an odd number of zeros, the additional one is before."""
    around = [(k - 1) * dilation for k in kernel]
    return F.pad(x, [zeros for n in reversed(around) for zeros in ((n + 1) // 2, n // 2)])


def test_the_legacy_word_has_the_additional_zero_before() -> None:
    x = drawn(1, 2, 9, 17)
    X = te.placeholder(x.shape, name="X")
    weights = [drawn(3, 2, taps, 7 - taps) for taps, _ in WINDOWS]
    W = [te.placeholder(w.shape, name=f"W{i}") for i, w in enumerate(weights)]
    results = [topi.nn.conv2d_nchw(X, w, 1, "SAME", d) for w, (_, d) in zip(W, WINDOWS, strict=True)]
    program = tw.build(te.create_schedule([t.op for t in results]), [X, *W, *results], target="llvm")
    out = [tw.nd.array(np.zeros([int(e) for e in t.shape], "float32")) for t in results]
    program(*map(tw.nd.array, [x.numpy(), *(w.numpy() for w in weights)]), *out)
    for found, w, (taps, d) in zip(out, weights, WINDOWS, strict=True):
        close(found.numpy(), F.conv2d(legacy_same(x, (taps, 7 - taps), d), w, dilation=d))
    with pytest.raises(UserError, match="padding is 'same'"):
        topi.nn.conv2d_nchw(X, W[0], 1, "same", 1)


@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (2, 1), (4, 2), (5, 3)])
def test_tasks_of_the_legacy_operators(taps: int, dilation: int) -> None:
    x, w = drawn(1, 2, 9, 17), drawn(3, 2, taps, 7 - taps)
    given = [("TENSOR", tuple(t.shape), "float32") for t in (x, w)]
    task = autotvm.task.create("conv2d_NCHWc.x86", (*given, 1, "SAME", dilation, "NCHW", "NCHW", None), "llvm")
    s, tensors = task.instantiate(task.config_space.get(0))
    out = tw.nd.array(np.zeros([int(e) for e in tensors[-1].shape], "float32"))
    tw.build(s, tensors, target="llvm")(tw.nd.array(x.numpy()), tw.nd.array(w.numpy()), out)
    close(out.numpy(), F.conv2d(legacy_same(x, (taps, 7 - taps), dilation), w, dilation=dilation))
