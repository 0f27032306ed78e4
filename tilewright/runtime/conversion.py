"""Python values as the legacy API's objects: the results of `tvm.runtime.convert`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..expr.nodes import StringImm
from ..expr.operators import const
from .packed import PackedFunc


def convert(value: Any, span: Any = None) -> Any:
    """Convert a value of Python's to one for programs.

    Parameters
    ----------
    value
        Numbers become constants (of type int32, float32 and bool, NumPy's numbers of their own type), texts become text
        constants, and functions packed ones. The elements of lists, tuples and dictionaries are converted.
    span
        Accepted for old scripts.

    Returns
    -------
    The converted `value`; everything else, such as a tensor, an expression or None, is returned unchanged.
    """
    if isinstance(value, (bool, int, float, np.bool_, np.number)):
        return const(value)
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, (list, tuple)):
        return [convert(each) for each in value]
    if isinstance(value, Mapping):
        return {key: convert(each) for key, each in value.items()}
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return PackedFunc(getattr(value, "__name__", "function"), value)
    return value
