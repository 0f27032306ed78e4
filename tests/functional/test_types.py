"""What a type checker knows of the one-line calls, in a small program of a user under `mypy --strict`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tilewright.core.precision import PRECISIONS
from tilewright.functional import signature

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


def test_a_program_of_a_user_under_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed")
    (tmp_path / "user.py").write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment)
    said = re.findall(r"^user\.py:(\d+): (?:note: Revealed type is|error:) (.*)", done.stdout, re.M)
    assert [int(line) for line, _ in said] == list(range(17, 24)), done.stdout + done.stderr
    wanted = ["numpy.ndarray", '"Any"', '"str"', '"activation"', '"layout"', '"precision"', '"strides"']
    for text, part in zip([text for _, text in said], wanted, strict=True):
        assert part in text


def test_the_literals_are_the_accepted_values() -> None:
    annotations = pytest.importorskip("tilewright.functional.annotations", reason="typing_extensions is not installed")
    assert get_args(annotations.ActivationName) == signature.ACTIVATIONS
    assert get_args(annotations.Precision) == PRECISIONS
