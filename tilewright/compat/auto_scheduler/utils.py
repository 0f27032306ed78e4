"""Workload keys as values, and how far two of them differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import inf
from typing import Any

from ...topi.utils import get_const_tuple as get_const_tuple
from .workload_registry import get_func_name as get_func_name

Decoded = tuple[str, tuple[Any, ...]]


def decode_workload_key(workload_key: str) -> Decoded:
    """Return the name in a key, and the arguments in one tuple."""
    try:
        name, *args = json.loads(workload_key)
    except (ValueError, TypeError):
        return workload_key, ()
    return name, tuple(_flat(args))


def _flat(values: Sequence[Any]) -> list[Any]:
    return [each for value in values for each in (_flat(value) if isinstance(value, list) else [value])]


def calc_workload_dis_factor(target_workload: Decoded, workload: Decoded) -> float:
    """Return how many times as large `target_workload` is as `workload`.

    The result is infinite if the functions or other arguments differ, or if a number is no multiple of its counterpart.
    """
    (name, args), (other, others) = target_workload, workload
    if name != other or len(args) != len(others):
        return inf
    factor = 1.0
    for mine, theirs in zip(args, others, strict=True):
        if mine == theirs:
            continue
        numbers = type(mine) is int and type(theirs) is int
        if not numbers or not mine or not theirs or mine % theirs:
            return inf
        factor *= mine // theirs
    return factor
