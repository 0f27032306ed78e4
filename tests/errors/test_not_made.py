"""Classes that are public to be asked for by `isinstance`: called with rubbish, they say what makes them."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.runtime.module import Module


@pytest.mark.parametrize(
    ("cls", "args", "fix"),
    [
        (te.ComputeOp, ("B", (), 3), "te.compute"),
        (te.PlaceholderOp, ("A", 3, ()), "te.placeholder"),
        (te.ScanOp, ("S", None, (), (), ()), "te.scan"),
        (te.ExternOp, ("E", (), (), (), None, (), ()), "te.extern"),
        (te.Tensor, ("A", 0), "te.placeholder"),
        (te.TensorSlice, ("A", ()), "A[i]"),
        (te.IterVar, ("i", 4, 0), "te.reduce_axis"),
        (te.Schedule, (5,), "te.create_schedule"),
        (te.Stage, (5, 0), "s[B]"),
        (tir.Buffer, ("A", "float32", 4), "tir.decl_buffer"),
        (tw.nd.Device, ("gpu3", 0), "tw.cpu()"),
        (tw.nd.NDArray, ("cpu", "float32", (4,), None), "nd.array"),
        (Module, ("program",), "tw.build"),
    ],
)
def test_what_makes_it(cls: Any, args: tuple[Any, ...], fix: str) -> None:
    name = {"PlaceholderOp": "Operation", "ScheduleHandle": "Schedule", "StageHandle": "Stage"}
    with refused(name.get(cls.__name__, cls.__name__), "is not made of these arguments", fix=fix):
        cls(*args)
