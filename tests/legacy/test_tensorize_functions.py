"""The registered functions that show the regions and the values of tensorized loops."""

from __future__ import annotations

import numpy as np

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats
from tilewright import te, tir


def add_of(n: int, tail: te.Tensor | None = None, last: int = 0) -> te.TensorIntrin:
    """z = x + y of n elements; with `tail`, elements from `last` on are 0."""
    x, y = te.placeholder((n,), name="vx"), te.placeholder((n,), name="vy")

    def value(i: te.Var) -> te.PrimExpr:
        return x[i] + y[i] if tail is None else tir.Select(tail * n + i < last, x[i] + y[i], 0.0)

    z = te.compute((n,), value, name="z")
    return te.decl_tensor_intrin(
        z.op,
        lambda ins, outs: tir.call_packed("tests.add_rows", ins[0], ins[1], outs[0]),
        default_buffer_params={"offset_factor": 1},
    )


def addition(n: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    return x, y, te.compute((n,), lambda i: x[i] + y[i], name="z")


def test_regions_and_values_of_tensorized_loops() -> None:
    x, _, z = addition(128)
    s = te.create_schedule(z.op)
    outer, inner = s[z].split(z.op.axis[0], factor=16)
    intrin = add_of(16)
    s[z].tensorize(inner, intrin)
    infer = tw.get_global_func("test.op.InferTensorizeRegion")
    computed, read = infer(s[z], te.schedule.InferBound(s))
    assert tw.ir.structural_equal(computed[z.op.axis[0]].min, outer * 16)
    assert computed[z.op.axis[0]].extent.value == 16
    assert read.items()[0][0] is x
    assert read[x][0].extent.value == 16
    match = tw.get_global_func("test.op.MatchTensorizeBody")
    assert str(match(s[z], computed, read, intrin)) == "[vx[i] + vy[i]]"
    with refused("MatchTensorizeBody", "is not tensorized by", fix="the intrinsic given to"):
        match(s[z], computed, read, add_of(16))
    with refused("InferTensorizeRegion", "is not a tensorized stage", fix="after s[C].tensorize"):
        infer(te.create_schedule(z.op)[z], {})


def test_a_select_of_an_intrinsic_matches_the_guard_of_a_tail() -> None:
    x, y, z = addition(40)
    s = te.create_schedule(z.op)
    s[z].split(z.op.axis[0], factor=16)
    copy = s.cache_write(z, "global")
    outer, inner = copy.op.axis
    s[copy].tensorize(inner, add_of(16, outer, 40))
    assert "tests.add_rows" in str(tw.lower(s, [x, y, z]))


def test_an_intrinsic_of_the_very_operation() -> None:
    x, y, z = addition(8)
    name = "tests.add_arrays"

    def added(a: tw.nd.NDArray, b: tw.nd.NDArray, c: tw.nd.NDArray) -> None:
        c.copyfrom(a.numpy() + b.numpy())

    tw.register_func(name, added, override=True)
    whole = te.decl_tensor_intrin(z.op, lambda ins, outs: tir.call_packed(name, ins[0], ins[1], outs[0]))
    s = te.create_schedule(z.op)
    s[z].tensorize(z.op.axis[0], whole)
    first, second, out = floats(8), floats(8), empty(8)
    given = [tw.nd.array(a) for a in (first, second, out)]
    tw.build(s, [x, y, z], "llvm")(*given)
    np.testing.assert_allclose(given[2].numpy(), first + second)
