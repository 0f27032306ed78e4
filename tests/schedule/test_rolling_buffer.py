"""rolling_buffer: rows are kept from one iteration to the next; values and reads are those without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tests.programs.harness import build, every_target
from tilewright import te
from tilewright.tensor.reference import reference

Made = tuple[te.Schedule, list[te.Tensor]]


def stencil(height: int = 20, step: int = 1, taps: int = 3) -> Made:
    """C sums rows of B, of which consecutive rows of C share some."""
    A = te.placeholder(((height - 1) * step + taps, 18), name="A")
    B = te.compute((int(A.shape[0]), 16), lambda y, x: A[y, x] + A[y, x + 1] * A[y, x + 2], name="B")
    k = te.reduce_axis((0, taps), name="k")
    C = te.compute((height, 16), lambda y, x: te.sum(B[y * step + k, x], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


def plain(s: te.Schedule, t: list[te.Tensor]) -> None:
    s[t[1]].compute_at(s[t[2]], t[2].op.axis[0])


def tiled(s: te.Schedule, t: list[te.Tensor]) -> None:
    _, B, C = t
    yo, xo, yi, xi = s[C].tile(*C.op.axis, 6, 8)
    s[C].reorder(yo, xo, yi, xi)
    s[C].parallel(yo)
    s[C].vectorize(xi)
    s[B].compute_at(s[C], yi)
    s[B].vectorize(B.op.axis[1])


def along_columns(s: te.Schedule, t: list[te.Tensor]) -> None:
    """The loop over columns: B's own reads of A overlap, in a copy of A."""
    A, B, _ = t
    copied = s.cache_read(A, "global", [B])
    s[copied].compute_at(s[B], B.op.axis[1])
    s[copied].rolling_buffer()


SCHEDULES: list[Callable[[te.Schedule, list[te.Tensor]], None]] = [plain, tiled]


def result(s: te.Schedule, args: list[te.Tensor], target: str, races: bool = True) -> np.ndarray:
    values = floats(*[int(e) for e in args[0].shape])
    out = np.full([int(e) for e in args[-1].shape], 77, "float32")
    if not target:
        run(tw.lower(s, args)["main"], values, out, races=races)
    else:
        f, dev = build(s, args, target), tw.device(target)
        on_device = tw.nd.array(out, dev)
        f(tw.nd.array(values, dev), on_device)
        out = on_device.numpy()
    np.testing.assert_allclose(out, reference(args[-1], {args[0]: values})[0], rtol=1e-5, atol=1e-5)
    return out


@pytest.mark.parametrize("target", ["", "llvm"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("step", "taps"), [(1, 3), (2, 5), (1, 2), (3, 4)])
def test_stencils(schedule: Callable[..., None], step: int, taps: int, target: str) -> None:
    s, t = stencil(20, step, taps)
    schedule(s, t)
    s[t[1]].rolling_buffer()
    result(s, [t[0], t[2]], target)
    assert f"or {taps - step} <= " in str(tw.lower(s, [t[0], t[2]]))


def test_columns() -> None:
    s, t = stencil()
    along_columns(s, t)
    assert "% 3" in str(tw.lower(s, [t[0], t[2]]))
    result(s, [t[0], t[2]], "")


def test_each_row_is_computed_once() -> None:
    """The elements of B that the program stores: every row once, not three times."""
    stored = []
    for rolls in (False, True):
        A = te.placeholder((22, 16), "int32", name="A")
        B = te.compute((22, 16), lambda y, x, A=A: A[y, x] + 1, name="B")
        C = te.compute((20, 16), lambda y, x, B=B: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
        s = te.create_schedule(C.op)
        s[B].compute_at(s[C], C.op.axis[0])
        if rolls:
            s[B].rolling_buffer()
        stored.append(_stores(tw.lower(s, [A, C])["main"].body))
    assert stored == [20 * 3 * 16, 22 * 16]


def _stores(stmt: Any, **names: int) -> int:
    """How often the program stores to B, by running its loops."""
    from tilewright.expr.evaluate import evaluate
    from tilewright.loops.nodes import For, If, Stmt, Store

    def count(node: Any, values: dict[Any, int]) -> int:
        if isinstance(node, For):
            extent = int(evaluate(node.extent, values))
            return sum(count(node.body, {**values, node.var: i}) for i in range(extent))
        if isinstance(node, If):
            return count(node.then, values) if evaluate(node.condition, values) else 0
        if isinstance(node, Store):
            return int(node.buffer.note == "B")
        return sum(count(child, values) for child in node.children() if isinstance(child, Stmt))

    return count(stmt, {})


def test_a_chain_of_rolling_stages() -> None:
    A = te.placeholder((24, 16), name="A")
    B = te.compute((24, 16), lambda y, x: A[y, x] * 2, name="B")
    C = te.compute((22, 16), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    D = te.compute((20, 16), lambda y, x: C[y, x] + C[y + 1, x] + C[y + 2, x], name="D")
    s = te.create_schedule(D.op)
    for stage in (B, C):
        s[stage].compute_at(s[D], D.op.axis[0])
        s[stage].rolling_buffer()
    for target in ("", "llvm"):
        result(s, [A, D], target)


@every_target
def test_in_shared_memory(target: str) -> None:
    """Each block walks down its rows; its threads share those that are kept."""
    if target == "llvm":
        target = ""
    A = te.placeholder((22, 34), name="A")
    B = te.compute((22, 34), lambda y, x: A[y, x] * 2, name="B")
    ky, kx = te.reduce_axis((0, 3), name="ky"), te.reduce_axis((0, 3), name="kx")
    C = te.compute((20, 32), lambda y, x: te.sum(B[y + ky, x + kx], axis=[ky, kx]), name="C")
    s = te.create_schedule(C.op)
    yo, xo, yi, xi = s[C].tile(*C.op.axis, 5, 16)
    s[C].reorder(yo, xo, yi, xi)
    s[B].compute_at(s[C], yi)
    s[B].set_scope("shared")
    s[B].rolling_buffer()
    tx = te.thread_axis("threadIdx.x")
    s[C].bind(yo, te.thread_axis("blockIdx.y"))
    s[C].bind(xo, te.thread_axis("blockIdx.x"))
    s[C].bind(xi, tx)
    s[B].bind(s[B].split(B.op.axis[1], factor=16)[1], tx)
    result(s, [A, C], target, races=False)  # barriers come later


def test_mistakes() -> None:
    s, (A, B, C) = stencil()
    with refused("rolling_buffer", "stage 'C' is an output"):
        s[C].rolling_buffer()
    with refused("rolling_buffer", "not computed inside a loop", fix="compute_at(reader, axis)"):
        s[B].rolling_buffer()
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].pipeline(2)
    with refused("rolling_buffer", "is pipelined", fix="one of the two"):
        s[B].rolling_buffer()
    s[B].pipeline(1)
    s[B].rolling_buffer()
    s[C].parallel(C.op.axis[0])
    with refused("rolling_buffer", "rolls along the loop 'y', which is parallel", fix="one iteration after the other"):
        tw.lower(s, [A, C])
    with refused("pipeline", "rolls", fix="one of the two"):
        s[B].double_buffer()
    s, (A, B, C) = stencil()
    s[B].compute_at(s[C], C.op.axis[1])
    s[B].rolling_buffer()
    with refused("rolling_buffer", "without common rows", fix="slides"):
        tw.lower(s, [A, C])
    D = te.compute((), lambda: A[0, 0] + 1, name="D")
    E = te.compute((4,), lambda i: D() + i, name="E")
    s = te.create_schedule(E.op)
    s[D].compute_at(s[E], E.op.axis[0])
    with refused("rolling_buffer", "no rows that could be kept"):
        s[D].rolling_buffer()
