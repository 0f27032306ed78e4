"""Arrays in programs as JSON."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw


@pytest.mark.parametrize("dtype", ["float32", "int8", "bfloat16", "bool"])
def test_an_array_comes_back(dtype: str) -> None:
    given = tw.nd.array(np.arange(6).reshape(2, 3).astype(tw.nd.empty((1,), dtype).numpy().dtype))
    found = tw.ir.load_json(tw.ir.save_json({"weights": [given], "count": 3}))
    assert found["count"] == 3
    (read,) = found["weights"]
    assert (read.dtype, read.shape) == (given.dtype, given.shape)
    np.testing.assert_array_equal(read.numpy(), given.numpy())
