"""Shapes as numbers, and which targets can run here."""

from __future__ import annotations

import pytest

import tilewright
from tilewright import te, testing, topi
from tilewright.core.errors import UserError


def test_shapes_as_numbers() -> None:
    n = te.size_var("n")
    A = te.placeholder((2, n, 3), name="A")
    assert topi.utils.get_const_tuple(A.shape) == (2, n, 3)
    assert topi.utils.get_const_int(A.shape[0] * A.shape[2] + 1) == 7
    with pytest.raises(UserError, match="`n` is not a constant integer"):
        topi.utils.get_const_int(n)


def test_what_can_run_here() -> None:
    assert tilewright.runtime.enabled("llvm")
    assert tilewright.runtime.enabled("llvm -mcpu=native")
    assert tilewright.runtime.enabled("cuda") == tilewright.cuda().exist
    assert not tilewright.runtime.enabled("rocm")
    assert testing.device_enabled("opencl") == tilewright.opencl().exist
    here = dict(testing.enabled_targets())
    assert here["llvm"] == tilewright.cpu(0)
    assert all(device.exist for device in here.values())
