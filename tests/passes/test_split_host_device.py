"""Kernels from loops over hardware threads, and who stores what in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, load, loop, store, thread
from tests.passes.running import finish, run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.driver import lower
from tilewright.expr.nodes import Var
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Barrier, For, Function, If, Launch, Let, Seq, Stmt, Store
from tilewright.loops.verify import Form, verify
from tilewright.passes.split_host_device import split_host_device

A, B = buf("A", 8), buf("B", 8)


def split(*body: Stmt) -> Function:
    made = run_pass(split_host_device, function((A, B), *body))
    verify(made, Form.FINISHED)
    return made


def launches(made: Function) -> list[Launch]:
    return [node for node in post_order(made.body) if isinstance(node, Launch)]


def shape(launch: Launch) -> dict[str, str]:
    return {tag.value: str(extent) for tag, _, extent in launch.threads}


def finished(s: Any, args: list[Any]) -> Function:
    return finish(lower(s, args).functions[0], check=True)


def test_a_nest_of_thread_loops_becomes_one_launch() -> None:
    made = split(thread("bx", 2, lambda b: thread("tx", 4, lambda t: store(B, b * 4 + t, load(A, b * 4 + t)))))
    assert isinstance(made.body, Launch)
    assert made.body.name == "main_kernel"
    assert shape(made.body) == {"blockIdx.x": "2", "threadIdx.x": "4"}
    assert isinstance(made.body.body, Store)


def test_indices_come_in_one_order() -> None:
    made = split(
        thread("ty", 1, lambda y: thread("bz", 2, lambda b: thread("tx", 4, lambda t: store(B, b * 4 + t + y, 1.0))))
    )
    assert list(shape(launches(made)[0])) == ["blockIdx.z", "threadIdx.x", "threadIdx.y"]


def test_each_outermost_nest_is_a_kernel_of_its_own() -> None:
    i = Var("i")
    made = split(
        thread("tx", 8, lambda t: store(B, t, 1.0)),
        loop(i, 3, thread("tx", 8, lambda t: store(B, t, load(B, t) + 1.0))),
        store(B, 0, 5.0),
    )
    assert [launch.name for launch in launches(made)] == ["main_kernel", "main_kernel_1"]
    assert isinstance(made.body, Seq)
    assert [type(part) for part in made.body.stmts] == [Launch, For, Store]


def test_loops_of_one_tag_are_one_index() -> None:
    """Even where one stands inside the other."""
    S = buf("S", 4, scope="shared")
    inner = thread("tx", 4, lambda t: store(S, t, load(A, t)))
    made = split(thread("tx", 4, lambda t: alloc(S, inner, store(B, t, load(S, 3 - t)))))
    (launch,) = launches(made)
    assert shape(launch) == {"threadIdx.x": "4"}
    assert isinstance(launch.body, Allocate)
    assert isinstance(launch.body.body, Seq)
    first, second = launch.body.body.stmts
    assert isinstance(first, Store)
    assert isinstance(second, Store)
    assert first.indices[0] is second.indices[0] is launch.threads[0][1]


def test_one_tag_of_two_extents_is_refused_by_the_names_of_the_stages() -> None:
    T = buf("T", 8, scope="shared")
    with pytest.raises(UserError, match=r"threadIdx.x has extent 4 for stage 'T' and 8 for stage 'B'"):
        split(
            thread("bx", 1, lambda b: Seq((thread("tx", 4, lambda t: store(T, t, 1.0)),
                                           thread("tx", 8, lambda t: store(B, t, 1.0)))))
        )  # fmt: skip


def test_a_loop_for_cpu_threads_in_a_kernel_is_refused() -> None:
    i = Var("i")
    with pytest.raises(
        UserError, match="the loop 'i' of stage 'B' is distributed over CPU threads, but is inside a kernel"
    ):
        split(thread("tx", 2, lambda t: loop(i, 4, store(B, t * 4 + i, 1.0), LoopKind.PARALLEL)))


def guards(made: Function) -> list[str]:
    """`condition: buffers stored` of each guard."""
    found = (node for node in post_order(made.body) if isinstance(node, If))
    return [
        f"{node.condition}: {' '.join(s.buffer.name for s in post_order(node.then) if isinstance(s, Store))}"
        for node in found
    ]


def rowsum(cached: str | None, threads: int = 4) -> tuple[Any, list[Any]]:
    """The sums of rows, in `cached` memory first, computed inside the loop of the threads that read them."""
    A, k = te.placeholder((8, 16), name="A"), te.reduce_axis((0, 16), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    C = s.cache_write(B, cached)
    outer, inner = s[B].split(B.op.axis[0], factor=threads)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[C].compute_at(s[B], inner)
    return s, [A, B]


def check(made: Function) -> None:
    """The sums of rows come out, without a race."""
    a = np.random.default_rng(1).integers(-3, 4, (8, 16)).astype("float32")
    b = np.full(8, np.nan, "float32")
    interpret(made, [a, b], outputs=made.buffers[1:])
    np.testing.assert_array_equal(b, a.sum(axis=1))


def test_a_sum_in_shared_memory_that_all_threads_compute_is_left_to_the_first() -> None:
    made = finished(*rowsum("shared"))
    assert guards(made) == ["threadIdx.x == 0: B.shared B.shared"]
    check(made)


def test_a_sum_of_each_threads_own_needs_no_guard() -> None:
    made = finished(*rowsum("local"))
    assert guards(made) == []
    check(made)
    s, (A, B) = rowsum("shared")
    C = s.stages[1]
    C.compute_at(s[B], s[B].leaf_iter_vars[0])
    C.bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    made = finished(s, [A, B])
    assert guards(made) == []
    check(made)


def test_a_place_that_is_named_before_belongs_to_its_thread() -> None:
    """The index of the update holds no thread index itself, but the value that it names does."""
    place, memory = Var("place"), buf("memory", 8, scope="shared")
    update = store(memory, place, load(memory, place) + 1)
    made = split(thread("tx", 8, lambda t: alloc(memory, Let(place, 7 - t, update))))
    assert guards(made) == []


def test_what_feeds_a_guarded_sum_is_not_guarded_with_it() -> None:
    """Else the barrier between the two would stand where only one thread passes."""
    s, (A, B) = rowsum("shared")
    C = s.stages[1]
    outer, _ = C.split(C.op.reduce_axis[0], factor=4)
    AS = s.cache_read(A, "shared", [C.op])
    s[AS].compute_at(C, outer)
    made = finished(s, [A, B])
    by_one = [guard for guard in guards(made) if guard.startswith("threadIdx.x")]
    assert by_one == ["threadIdx.x == 0: B.shared", "threadIdx.x == 0: B.shared"]
    assert not any(
        isinstance(node, Barrier) for g in post_order(made.body) if isinstance(g, If) for node in post_order(g)
    )
    check(made)


def test_an_output_that_no_loop_of_its_own_gives_to_threads() -> None:
    """Threads that only the cache uses do not repeat the sum."""
    A, k = te.placeholder((8, 16), name="A"), te.reduce_axis((0, 16), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[AS].compute_at(s[B], B.op.axis[0])
    s[AS].bind(s[AS].op.axis[1], te.thread_axis("threadIdx.x"))
    made = finished(s, [A, B])
    assert guards(made) == ["threadIdx.x == 0: B B"]
    assert shape(launches(made)[0]) == {"blockIdx.x": "8", "threadIdx.x": "16"}
    check(made)


def test_pairs_are_guarded_together() -> None:
    A, k = te.placeholder((8, 16), name="A"), te.reduce_axis((0, 16), "k")
    both = te.comm_reducer(lambda x, y: (x[0] + y[0], te.max(x[1], y[1])), lambda a, b: (0.0, te.min_value(b)))
    S, M = te.compute((8,), lambda i: both((A[i, k], A[i, k]), axis=k), name="T")
    B = te.compute((8,), lambda i: S[i] + M[i], name="B")
    s = te.create_schedule(B.op)
    s[S].set_scope("shared")
    outer, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[S].compute_at(s[B], outer)
    made = finished(s, [A, B])
    assert guards(made) == ["threadIdx.x == 0: T.v0 T.v1 T.v0 T.v1"]
    a = np.random.default_rng(1).integers(-3, 4, (8, 16)).astype("float32")
    b = np.full(8, np.nan, "float32")
    interpret(made, [a, b], outputs=made.buffers[1:])
    np.testing.assert_array_equal(b, a.sum(axis=1) + a.max(axis=1))


def test_a_condition_on_threads_says_who_updates() -> None:
    """Each thread adds to the elements that it owns, though their places do not name it."""
    k = Var("k", "int32")

    def own(t: Any) -> Stmt:
        return loop(k, 8, If((k % 4).equal(t), store(B, k, load(B, k) + load(A, k)), None))

    made = split(thread("tx", 4, own))
    assert len([node for node in post_order(made.body) if isinstance(node, If)]) == 1
    values, out = np.arange(8, dtype="float32"), np.ones(8, "float32")
    interpret(made, [values, out])
    np.testing.assert_array_equal(out, values + 1)
