"""The variants of epilogues that are written by hand: they change their kernels, and compile for CUDA without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.by_hand_epilogues import ROWS, VARIANTS, as_it_is, compiled

CHANGED = [name for name, variant in VARIANTS.items() if variant.rewrite is not as_it_is]


@pytest.mark.parametrize("name", ["bias, at the end", *CHANGED])
def test_variants_compile_for_cuda(name: str) -> None:
    program = compiled(ROWS[0], "float32", name)
    assert program is not None, "the rewrite found nothing to change"
    assert program.binary is not None
