"""What tests of passes on kernels share: two arrays, variables, kernels of one block, and their results."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.loops.programs import buf, function, launch, load, store
from tilewright.expr.nodes import Var
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Function, Launch, Stmt, seq
from tilewright.loops.verify import Form, verify

A, B = buf("A", 64), buf("B", 64)
tx, i, j, v = Var("tx"), Var("i"), Var("j"), Var("v")


def kernel(*body: Stmt, threads: int = 8) -> Function:
    return function((A, B), launch(seq(*body), tx=(tx, threads)))


def inside(made: Function) -> Any:
    """What stands in the kernel."""
    verify(made, Form.FINISHED)
    assert isinstance(made.body, Launch)
    return made.body.body


def copy(index: Any) -> Stmt:
    return store(B, index, load(A, index))


def same(before: Function, after: Function) -> None:
    """Both compute the same."""
    a = np.random.default_rng(5).standard_normal(64).astype("float32")
    results = []
    for made in (before, after):
        b = np.zeros(64, "float32")
        interpret(made, [a, b], races=False)
        results.append(b)
    np.testing.assert_array_equal(*results)
