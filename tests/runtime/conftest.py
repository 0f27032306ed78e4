"""Each numeric test runs on OpenCL (the CPU will do) and, where there is one, on an NVIDIA GPU."""

from __future__ import annotations

import pytest

from tilewright.runtime.device import Device, device


@pytest.fixture(params=[pytest.param(kind, marks=getattr(pytest.mark, kind)) for kind in ("opencl", "cuda")])
def dev(request: pytest.FixtureRequest) -> Device:
    """A device that runs kernels."""
    return device(request.param)
