"""Buffers of type "auto_broadcast": dimensions of extent 1 stand for every index, as the call decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.ir import load_json, save_json
from tilewright.loops.broadcast_buffers import BroadcastBuffer


def added(target: str, cached: bool = False) -> Any:
    """c = a + b of two dimensions, whose extents need not be those of a and b."""
    m, n, p, q, r, t = (te.size_var(name) for name in "mnpqrt")
    A, B = te.placeholder((m, n), name="A"), te.placeholder((p, q), name="B")
    C = te.compute((r, t), lambda i, j: A[i, j] + B[i, j], name="C")
    binds = {T: tir.decl_buffer(T.shape, T.dtype, T.name, buffer_type="auto_broadcast") for T in (A, B)}
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    if target == "llvm":
        outer, inner = s[C].split(j, factor=4)
        s[C].vectorize(inner)
    else:
        outer, inner = s[C].split(j, factor=32)
        s[C].bind(i, te.thread_axis("blockIdx.x"))
        s[C].bind(inner, te.thread_axis("threadIdx.x"))
    if cached:
        s[s.cache_read(A, "local", [C])].compute_at(s[C], inner if target != "llvm" else outer)
    return tw.build(s, [A, B, C], target, binds=binds)


@every_target
def test_shapes_that_broadcast(target: str) -> None:
    f, device = added(target), tw.device(target)
    if not device.exist:
        return
    rng = np.random.default_rng(0)
    for left, right in (((3, 37), (3, 37)), ((1, 37), (3, 37)), ((3, 1), (1, 37)), ((1, 1), (1, 1)), ((3, 37), (1, 1))):
        a, b = rng.random(left, "float32"), rng.random(right, "float32")
        c = tw.nd.array(np.full(np.broadcast_shapes(left, right), np.nan, "float32"), device)
        f(tw.nd.array(a, device), tw.nd.array(b, device), c)
        np.testing.assert_allclose(c.numpy(), a + b, rtol=1e-6)


def test_shapes_that_do_not() -> None:
    f = added("llvm")
    for left in ((2, 5), (3, 4)):
        with pytest.raises(UserError, match="A"):
            f(*(tw.nd.array(np.zeros(shape, "float32")) for shape in (left, (3, 5), (3, 5))))


@every_target
def test_copies_do_not_broadcast(target: str) -> None:
    with refused("lower", "stage 'A.local' copies 'A', and its buffer has the type", fix="leave out cache_read"):
        added(target, cached=True)


def test_results_may_be_cached() -> None:
    A, n = te.placeholder((te.size_var("m"),), name="A"), te.size_var("n")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    s[s.cache_write(B, "local")].compute_at(s[B], B.op.axis[0])
    bound = tir.decl_buffer(A.shape, A.dtype, "A", buffer_type="auto_broadcast")
    b = tw.nd.empty((5,), "float32")
    tw.build(s, [A, B], "llvm", binds={A: bound})(tw.nd.array(np.ones(1, "float32")), b)
    assert (b.numpy() == 2).all()


def test_two_tensors_of_one_name_are_checked_as_always() -> None:
    """Checks name tensors: where two share a name, neither is let through."""
    m, n = te.size_var("m"), te.size_var("n")
    A, B = te.placeholder((m,), name="A"), te.placeholder((m,), name="A")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    bound = tir.decl_buffer(A.shape, A.dtype, "A", buffer_type="auto_broadcast")
    f = tw.build(te.create_schedule(C.op), [A, B, C], "llvm", binds={A: bound})
    with pytest.raises(UserError, match="A"):
        f(*(tw.nd.array(np.zeros(size, "float32")) for size in (1, 1, 5)))


def test_constant_extents_and_json() -> None:
    A = te.placeholder((1, 4), name="A")
    B = te.compute((3, 4), lambda i, j: A[0, j] + 1.0, name="B")
    bound = tir.decl_buffer(A.shape, A.dtype, "A", buffer_type="auto_broadcast")
    b = tw.nd.empty((3, 4), "float32")
    tw.build(te.create_schedule(B.op), [A, B], "llvm", binds={A: bound})(tw.nd.array(np.ones((1, 4), "float32")), b)
    assert (b.numpy() == 2).all()
    assert isinstance(load_json(save_json(bound)), BroadcastBuffer)
