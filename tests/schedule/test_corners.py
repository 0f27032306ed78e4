"""Every primitive on tensors of no dimension, on axes of extent 1, and on operations of several values.

Each is applied to the producer and to the output of a small graph. What is accepted computes what NumPy does: as
lowered, as finished for a GPU, and on this CPU where nothing is bound to threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tests.passes.running import finish
from tilewright import te
from tilewright.loops.interpret import interpret
from tilewright.loops.verify import Form, verify
from tilewright.schedule.handle import PRIMITIVES

both = te.comm_reducer(
    lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda a, b: (te.const(0, a), te.min_value(b)), name="both"
)


class Corner:
    """C = 2 * B - D over `shape`, where B and D are two values of one operation, or one, which may reduce A."""

    def __init__(self, shape: tuple[int, ...], pair: bool, terms: int | None) -> None:
        self.A = te.placeholder(shape if terms is None else (*shape, terms), name="A")
        k = te.reduce_axis((0, terms or 1), name="k")

        def value(*i: Any) -> Any:
            if terms is None:
                return (self.A(*i) + 1.0, self.A(*i) * 3.0) if pair else self.A(*i) + 1.0
            element = self.A(*i, k)
            return both((element, element), axis=k) if pair else te.sum(element, axis=k)

        made = te.compute(shape, value, name="B")
        self.B, D = made if pair else (made, made)
        self.C = te.compute(shape, lambda *i: self.B(*i) * 2.0 - D(*i), name="C")
        self.s = te.create_schedule(self.C.op)
        self.values = np.random.default_rng(0).integers(-9, 9, [int(e) for e in self.A.shape]).astype("float32")
        first, second = (
            (self.values + 1, self.values * 3) if terms is None else (self.values.sum(-1), self.values.max(-1))
        )
        self.expected = 2 * first - (second if pair else first)

    def check(self, on_cpu: bool) -> None:
        """Whatever was done to the schedule, C is right."""
        (low,) = tilewright.lower(self.s, [self.A, self.C]).functions
        verify(low, Form.FLAT)
        for made in (low, finish(low, check=True)):
            result = np.full(self.expected.shape, np.nan, "float32")
            interpret(made, [self.values, result], races=made is not low, outputs=made.buffers[1:])
            np.testing.assert_array_equal(result, self.expected)
        if on_cpu:
            arrays = [tilewright.nd.array(self.values), tilewright.nd.empty(self.expected.shape)]
            tilewright.build(self.s, [self.A, self.C], "llvm")(*arrays)
            np.testing.assert_array_equal(arrays[1].numpy(), self.expected)


CORNERS: dict[str, tuple[tuple[int, ...], bool, int | None]] = {
    "no dimension": ((), False, None),
    "pair of no dimension": ((), True, None),
    "sum of all": ((), False, 3),
    "pair of sums of all": ((), True, 3),
    "extents of 1": ((1, 1), False, None),
    "sum of one": ((1, 1), False, 1),
    "pair": ((3, 2), True, None),
    "pair of extents of 1": ((1, 1), True, None),
    "pair of sums": ((3, 1), True, 2),
}


def within(s: te.Schedule, B: te.Tensor, C: te.Tensor) -> None:
    """Compute B inside of C."""
    s[B].compute_at(s[C], loop(s, C))


def loop(s: te.Schedule, T: te.Tensor) -> Any:
    """A loop over data, the outermost; where there is none, one of extent 1."""
    data = [axis for axis in s[T].leaf_iter_vars if axis.iter_type == 0]
    return data[0] if data else s[T].fuse()


def to_block(s: te.Schedule, T: te.Tensor, x: Any) -> None:
    """A kernel of one block, whose threads share out a loop."""
    outer, inner = s[T].split(x, nparts=1)
    s[T].bind(outer, te.thread_axis("blockIdx.x"))
    s[T].bind(inner, te.thread_axis("threadIdx.x"))


def rounded(s: te.Schedule, B: te.Tensor, C: te.Tensor) -> None:
    """Round B up to tiles of three, over a copy of its input that is zero beyond it."""
    s.cache_read(s[B].op.input_tensors[0], "global", [B])
    s[B].round_up(*((axis, 3) for axis in s[B].op.axis))
    within(s, B, C)


ANY: dict[str, Callable[[te.Schedule, te.Tensor, Any], Any]] = {
    "split": lambda s, T, x: s[T].split(x, factor=2),
    "split nparts": lambda s, T, x: s[T].split(x, nparts=3),
    "fuse": lambda s, T, x: s[T].fuse(*s[T].op.axis),
    "reorder": lambda s, T, x: s[T].reorder(*s[T].leaf_iter_vars[::-1]),
    "tile": lambda s, T, x: s[T].tile(*s[T].split(x, factor=2), 2, 1),
    "bind": lambda s, T, x: to_block(s, T, x),
    "bind vthread": lambda s, T, x: s[T].bind(s[T].split(x, nparts=2)[0], te.thread_axis("vthread")),
    "unroll": lambda s, T, x: s[T].unroll(x),
    "vectorize": lambda s, T, x: s[T].vectorize(x),
    "parallel": lambda s, T, x: s[T].parallel(x),
    "pragma": lambda s, T, x: s[T].pragma(x, "auto_unroll_max_step", 16),
    "compute_root": lambda s, T, x: s[T].compute_root(),
    "cache_write": lambda s, T, x: s.cache_write(T, "global"),
    "cache_read": lambda s, T, x: s.cache_read(s[T].op.input_tensors[-1], "global", [T]),
    "set_store_predicate": lambda s, T, x: s[T].set_store_predicate(x.var >= 0),
}
INNER: dict[str, Callable[[te.Schedule, te.Tensor, te.Tensor], Any]] = {
    "compute_at": within,
    "compute_inline": lambda s, B, C: s[B].compute_inline(),
    "set_scope": lambda s, B, C: (within(s, B, C), s[B].set_scope("local")),
    "storage_align": lambda s, B, C: (within(s, B, C), [s[B].storage_align(axis, 8, 3) for axis in s[B].op.axis]),
    "double_buffer": lambda s, B, C: (within(s, B, C), s[B].double_buffer()),
    "pipeline": lambda s, B, C: (within(s, B, C), s[B].pipeline(3)),
    "compute_at and vectorize": lambda s, B, C: (within(s, B, C), s[B].vectorize(loop(s, B))),
    "cache_read and compute_at": lambda s, B, C: within(s, s.cache_read(B, "local", [C]), C),
    "transform_layout": lambda s, B, C: s[B].transform_layout(lambda *i: [*i[::-1], 0]),
    "round_up": lambda s, B, C: rounded(s, B, C),
    "cache_write and compute_at": lambda s, B, C: within(s, s.cache_write(C, "local"), C),
}


FACTORED: dict[str, Callable[[te.Schedule, te.Tensor], Any]] = {
    "rfactor": lambda s, T: s.rfactor(T, T.op.reduce_axis[0]),
    "rfactor of a part": lambda s, T: s.rfactor(T, s[T].split(T.op.reduce_axis[0], factor=2)[1]),
    "rfactor last": lambda s, T: s.rfactor(T, T.op.reduce_axis[0], factor_axis=len(T.shape)),
}
SCANS: dict[str, tuple[int, int]] = {"one column": (4, 1), "one step": (1, 3), "one of each": (1, 1), "several": (4, 5)}
"""Steps and columns."""


ELSEWHERE = {"env_threads", "tensorize", "as_product", "storage_swizzle", "prefetch", "rolling_buffer", "redeclare"}
"""Primitives that need more than a corner has: scans, shapes of matrix instructions, sums of products, rows of 16 bytes
in shared memory, loops that read ahead or again, convolutions. They have tests of their own."""


def test_every_primitive_is_here() -> None:
    assert {name.partition(" ")[0] for name in (*ANY, *INNER, *FACTORED)} | ELSEWHERE == set(PRIMITIVES)


@pytest.mark.parametrize("step", ANY)
@pytest.mark.parametrize("which", ["B", "C"])
@pytest.mark.parametrize("corner", CORNERS)
def test_a_step_of_one_stage(corner: str, which: str, step: str) -> None:
    case = Corner(*CORNERS[corner])
    stage = case.B if which == "B" else case.C
    ANY[step](case.s, stage, loop(case.s, stage))
    case.check(on_cpu=step != "bind")


@pytest.mark.parametrize("step", INNER)
@pytest.mark.parametrize("corner", CORNERS)
def test_a_step_of_a_stage_inside_another(corner: str, step: str) -> None:
    case = Corner(*CORNERS[corner])
    if step == "compute_inline" and case.B.op.reduce_axis:
        with refused("compute_inline", "stage 'B' is a reduction", fix="compute_at"):
            case.s[case.B].compute_inline()
        return
    INNER[step](case.s, case.B, case.C)
    case.check(on_cpu=True)


@pytest.mark.parametrize("step", FACTORED)
@pytest.mark.parametrize("corner", CORNERS)
def test_a_reduction_in_two_steps(corner: str, step: str) -> None:
    case = Corner(*CORNERS[corner])
    if not case.B.op.reduce_axis:
        with refused("rfactor", "stage 'B' is not a reduction", fix="te.sum"):
            case.s.rfactor(case.B, case.B.op.axis[0] if case.B.op.axis else loop(case.s, case.B))
        return
    FACTORED[step](case.s, case.B)
    case.check(on_cpu=True)


@pytest.mark.parametrize("corner", SCANS)
def test_a_scan_on_threads_of_its_own(corner: str) -> None:
    steps, columns = SCANS[corner]
    X = te.placeholder((steps, columns), name="X")
    state = te.placeholder((steps, columns), name="state")
    first = te.compute((1, columns), lambda _, i: X[0, i], name="first")
    step = te.compute((steps, columns), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    total = te.scan(first, step, state, inputs=[X], name="total")
    s = te.create_schedule(total.op)
    s[total].env_threads([te.thread_axis((0, 1), "blockIdx.x"), te.thread_axis((0, columns), "threadIdx.x")])
    for stage, axis in ((first, first.op.axis[1]), (step, step.op.axis[1])):
        s[stage].bind(axis, te.thread_axis((0, columns), "threadIdx.x"))
    values = np.random.default_rng(0).integers(-9, 9, (steps, columns)).astype("float32")
    (low,) = tilewright.lower(s, [X, total]).functions
    for made in (low, finish(low, check=True)):
        result = np.full(values.shape, np.nan, "float32")
        interpret(made, [values, result], races=made is not low, outputs=made.buffers[1:])
        np.testing.assert_array_equal(result, values.cumsum(0))


def test_a_predicate_of_a_reduction_axis_is_refused() -> None:
    case = Corner(*CORNERS["sum of one"])
    case.s[case.B].set_store_predicate(case.B.op.reduce_axis[0].var < 1)
    with refused("set_store_predicate", "uses 'k', which has no value there", fix="data axes of the stage"):
        tilewright.lower(case.s, [case.A, case.C])


def test_a_predicate_may_name_the_threads_of_a_stage_inside() -> None:
    """As schedules of reductions do: what follows a sum is stored by the first of the threads that share the sum."""
    A, k = te.placeholder((4, 32), name="A"), te.reduce_axis((0, 32), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: B[i] / 32, name="C")
    s = te.create_schedule(C.op)
    thread = te.thread_axis("threadIdx.x")
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].bind(k, thread)
    s[C].set_store_predicate(thread.var.equal(0))
    assert "if threadIdx_x == 0:\n" in str(tilewright.lower(s, [A, C]))
