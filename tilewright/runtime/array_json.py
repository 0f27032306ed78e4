"""Arrays as JSON: their type, their shape, and their bytes; arrays are read to the CPU."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..loops.json_form import VALUES
from .array import NDArray, array


def _written(value: NDArray) -> dict[str, Any]:
    held = np.ascontiguousarray(value.numpy())
    return {"dtype": str(value.dtype), "shape": list(held.shape), "bytes": b64encode(held.tobytes()).decode()}


def _read(data: dict[str, Any]) -> NDArray:
    held = np.frombuffer(b64decode(data["bytes"]), DType(data["dtype"]).numpy)
    return array(held.reshape(data["shape"]))


VALUES["NDArray"] = (NDArray, _written, _read)
