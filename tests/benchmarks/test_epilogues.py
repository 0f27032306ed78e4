"""The benchmark of epilogues: its kernels compile for CUDA, without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.epilogues import EPILOGUES, ROWS, compiled


@pytest.mark.parametrize("name", ["none", "softsign", "residual+relu"])
def test_kernels_compile_for_cuda(name: str) -> None:
    assert name in EPILOGUES
    program = compiled("cuda", ROWS[0], "float16", name)
    assert not isinstance(program, str), program
    assert program.binary is not None
