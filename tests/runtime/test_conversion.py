"""tvm.runtime.convert: Python values as those of programs."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir

TYPES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64".split()


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_keep_the_type_of_numpy(dtype: str) -> None:
    assert tw.runtime.convert(np.dtype(dtype).type(1)).dtype == dtype


def test_other_values() -> None:
    x = te.var("x")
    assert [tw.convert(v).dtype for v in (True, 1, 1.0)] == ["bool", "int32", "float32"]
    assert isinstance(tw.convert("text"), tir.StringImm)
    one, (two, same) = tw.convert([1, (2, x)])
    assert (one.value, two.value, same) == (1, 2, x)
    assert tw.convert({x: 3})[x].value == 3
    assert tw.convert(None) is None
    packed = tw.convert(lambda a: tw.convert(lambda b: a - b))
    assert isinstance(packed, tw.runtime.PackedFunc)
    assert packed(5)(3) == 2
    n = tw.convert(12)
    assert tuple(int(e) for e in te.compute((n, n - 2), lambda i, j: i + j).shape) == (12, 10)
