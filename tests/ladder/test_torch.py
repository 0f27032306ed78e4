"""PyTorch's row computes the same convolution."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tilewright.ladder.conv1d import Conv1dLadder
from tilewright.ladder.depthwise import DepthwiseLadder
from tilewright.ladder.rivals import has_torch, torch_row
from tilewright.ladder.rung import Ladder
from tilewright.ladder.trial import CheckedProblem
from tilewright.runtime.device import Device, device

pytestmark = pytest.mark.skipif(not has_torch(), reason="PyTorch is not installed")
DEVICES = [pytest.param("cpu"), pytest.param("cuda", marks=pytest.mark.cuda)]
LADDERS = [
    Conv1dLadder(M=50, N=7),
    Conv1dLadder(M=3, N=8),
    DepthwiseLadder(batch=2, channels=3, height=9, width=5, kernel=5),
]


def test_a_torch_that_does_not_work_costs_its_own_row_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # importing it raises
    row = torch_row(CheckedProblem.of(LADDERS[0]), device("cpu"), 3)
    assert row.failure.startswith("ModuleNotFoundError: ")
    assert row.seconds == ()


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("ladder", LADDERS, ids=Ladder.sizes)
def test_torch_is_right_and_timed(ladder: Ladder, kind: str) -> None:
    on: Device = device(kind)
    row = torch_row(CheckedProblem.of(ladder), on, 3)
    assert (row.name, row.kind, len(row.seconds)) == ("PyTorch", "rival", 3)
    assert ("CUDA graph" in row.does) == (kind == "cuda")
    assert row.max_error is not None
    assert row.max_error < 1e-5
    assert np.min(row.seconds) > 0
