"""What a type checker knows of the one-line calls, te and autotvm, in small programs under `mypy --strict`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tilewright.core.precision import PRECISIONS
from tilewright.functional.arguments import signature
from tilewright.topi.templates import epilogue

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import numpy as np
import numpy.typing as npt

import tilewright as tw


class Tensor: ...


def layer(x: Tensor, w: Tensor) -> Tensor:
    y = tw.conv2d(x, w, None, stride=(1, 2), padding="same", groups=8, activation="relu", layout="NHWC", tune="quick")
    z = tw.conv1d(y, w, padding=((1, 2),), activation=lambda v: v * 2, residual=y, precision="tf32", out=x)
    return tw.avg_pool2d(z, (2, 2), tune=0.5)


x: npt.NDArray[np.float32] = np.ones((1, 8, 6, 6), np.float32)
reveal_type(tw.depthwise_conv2d(x, x, groups=8))
reveal_type(tw.max_pool2d(input=x, kernel_size=2))
reveal_type(tw.explain_call(tw.conv2d, x, x))
tw.conv2d(x, x, activation="rlu")
tw.conv1d(x, x, layout="NCHW")
tw.conv2d(x, x, precision="half")
tw.conv2d(x, x, strides=1)
"""
SCHEDULED = """\
import numpy as np

import tilewright as tw
from tilewright import autotvm, te
from tilewright.target import Target


@autotvm.template("user/product")
def product(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), "float32", "B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    autotvm.get_config().define_knob("factor", [2, 4])
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    s[c].vectorize(inner)
    return s, [a, b, c]


task = autotvm.task.create("user/product", args=(16,), target="llvm")
option = autotvm.measure_option(autotvm.LocalBuilder(), autotvm.LocalRunner(number=1))
autotvm.tuner.XGBTuner(task).tune(10, measure_option=option, callbacks=[autotvm.callback.log_to_file("x.log")])
with autotvm.apply_history_best("x.log"), Target("llvm"):
    reveal_type(product(16))
    reveal_type(tw.build(*product(16)))
reveal_type(tw.nd.array(np.ones(16)).numpy())
reveal_type(tw.te.create_schedule([]))
reveal_type(tw.topi.nn.relu)
"""


def checked(program: str, folder: Path) -> list[tuple[int, str]]:
    """Return the lines that mypy has something to say about, and its words."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    (folder / "user.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=folder, env=environment)
    assert "user.py:" in done.stdout, done.stdout + done.stderr
    said = re.findall(r"^user\.py:(\d+): (?:note: Revealed type is|error:) (.*)", done.stdout, re.M)
    return [(int(line), words) for line, words in said]


@pytest.mark.slow
def test_a_program_of_a_user_under_mypy(tmp_path: Path) -> None:
    said = checked(PROGRAM, tmp_path)
    assert [line for line, _ in said] == list(range(17, 24))
    wanted = ["numpy.ndarray", '"Any"', '"str"', '"activation"', '"layout"', '"precision"', '"strides"']
    for (_, words), part in zip(said, wanted, strict=True):
        assert part in words


@pytest.mark.slow
def test_a_script_that_schedules_and_tunes_under_mypy(tmp_path: Path) -> None:
    wanted = ["Schedule", "Module", "numpy.ndarray", "Schedule", "Tensor"]
    for (_, words), part in zip(checked(SCHEDULED, tmp_path), wanted, strict=True):
        assert part in words


def test_the_literals_are_the_accepted_values() -> None:
    annotations = pytest.importorskip("tilewright.functional.annotations", reason="typing_extensions is not installed")
    assert get_args(annotations.ActivationName) == signature.ACTIVATIONS
    assert get_args(annotations.Precision) == PRECISIONS


def test_tables_of_activations_have_the_same_names() -> None:
    by_xla = pytest.importorskip("tilewright.functional.jax.by_xla", reason="JAX is not installed")
    names = {*signature.ACTIVATIONS}
    assert {*epilogue.ACTIVATIONS} == names == {*by_xla.ACTIVATIONS}
    assert {*epilogue.GRADIENTS} == {name + signature.GRADIENT for name in names}


def test_tables_of_pytorchs_activations_have_the_same_names() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from tilewright.functional.pytorch import native  # needs PyTorch

    assert {*native.ACTIVATIONS} == {*native.ACTIVATION_GRADIENTS} == {*signature.ACTIVATIONS}
