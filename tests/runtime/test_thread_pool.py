"""The thread pool of CPU code: results, nesting, several callers, forks, sizes, errors."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from tests.codegen.llvm.harness import build, flat, loop
from tilewright.core.errors import UserError
from tilewright.expr import operators as op
from tilewright.expr.nodes import Load, Var
from tilewright.loops.nodes import Allocate, Buffer, LoopKind, Store, seq
from tilewright.runtime import num_threads, set_num_threads
from tilewright.runtime.array import array
from tilewright.runtime.module import Module
from tilewright.runtime.thread_pool import POOL, SPIN_CYCLES, VARIABLE, Cost

PARALLEL = LoopKind.PARALLEL


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    set_num_threads(None)


def rows(count: int, columns: int) -> Module:
    """b[i, j] = a[i, j] * 2 + i, the rows in parallel."""
    size = count * columns
    a, b, i, j = flat("a", size), flat("b", size), Var("i"), Var("j")
    at = i * columns + j
    value = Load(a, (at,)) * 2.0 + op.cast("float32", i)
    return build(loop(i, count, loop(j, columns, Store(b, (at,), value)), PARALLEL), a, b)


def check(module: Module, count: int, columns: int) -> None:
    """Whether a call gives what it should."""
    x = np.random.default_rng(count).random((count, columns)).astype("float32")
    out = array(np.full((count * columns,), np.nan, "float32"))
    module(array(x.reshape(-1)), out)
    wanted = x * np.float32(2) + np.arange(count, dtype="float32")[:, None]
    np.testing.assert_array_equal(out.numpy().reshape(count, columns), wanted)


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
def test_any_number_of_threads_runs_any_number_of_iterations(threads: int) -> None:
    set_num_threads(threads)
    assert num_threads() == threads
    for count in (1, 2, 3, 7, 64, 1001):
        module = rows(count, 5)
        for _ in range(5):
            check(module, count, 5)


def test_loops_one_right_after_the_other() -> None:
    set_num_threads(4)
    n, steps = 37, 50
    a = flat("a", n)
    body = [loop(i := Var("i"), n, Store(a, (i,), Load(a, (i,)) + 1.0), PARALLEL) for _ in range(steps)]
    module = build(seq(*body), a)
    out = array(np.zeros(n, "float32"))
    for call in range(1, 21):
        module(out)
        np.testing.assert_array_equal(out.numpy(), np.full(n, call * steps))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_parallel_loop_within_a_parallel_loop(threads: int) -> None:
    set_num_threads(threads)
    a, i, j, k = flat("a", 8 * 9 * 10), Var("i"), Var("j"), Var("k")
    at = (i * 9 + j) * 10 + k
    body = Store(a, (at,), op.cast("float32", at) * 0.5)
    for inner in (PARALLEL, LoopKind.SERIAL):
        module = build(loop(i, 8, loop(j, 9, loop(k, 10, body, inner), PARALLEL), PARALLEL), a)
        out = array(np.zeros(720, "float32"))
        module(out)
        np.testing.assert_array_equal(out.numpy(), np.arange(720) * 0.5)


def test_scratch_of_each_iteration_is_its_own() -> None:
    set_num_threads(4)
    for size in (8, 50_000):  # on the stack; on the heap
        count = 32
        a, i, j, k = flat("a", count), Var("i"), Var("j"), Var("k")
        scratch = Buffer("scratch", "float32", (op.const(size),))
        last = Load(scratch, (op.const(size - 1),))
        body = seq(
            loop(j, size, Store(scratch, (j,), op.cast("float32", i))),
            loop(k, 1, Store(a, (i,), last + Load(scratch, (op.const(0),)))),
        )
        module = build(loop(i, count, Allocate(scratch, body), PARALLEL), a)
        out = array(np.zeros(count, "float32"))
        module(out)
        np.testing.assert_array_equal(out.numpy(), np.arange(count) * 2)


def test_scratch_that_cannot_be_had_within_a_parallel_loop_is_an_error() -> None:
    set_num_threads(3)
    n, i, a = Var("n", "int64"), Var("i"), flat("a", 64)
    scratch = Buffer("scratch", "float32", (n,))
    at = (n - 1,)
    body = seq(Store(scratch, at, op.cast("float32", i)), Store(a, (i,), Load(scratch, at)))
    module = build(loop(i, 64, Allocate(scratch, body), PARALLEL), a, n)
    out = array(np.zeros(64, "float32"))
    for _ in range(20):
        with pytest.raises(Exception, match="ran out of memory"):
            module(out, 1 << 60)
        module(out, 10)
        np.testing.assert_array_equal(out.numpy(), np.arange(64))


def test_several_callers_at_once() -> None:
    set_num_threads(3)
    failures: list[BaseException] = []

    def work(count: int) -> None:
        try:
            module = rows(count, 20)
            for _ in range(200):
                check(module, count, 20)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(count,)) for count in (5, 17, 33, 64)]
    for thread in threads:
        thread.start()
    for number in (1, 4, 2, 8, 3) * 4:
        set_num_threads(number)
        time.sleep(0.005)
    for thread in threads:
        thread.join()
    assert not failures


def test_a_child_process_has_threads_of_its_own() -> None:
    set_num_threads(3)
    module = rows(100, 50)
    check(module, 100, 50)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            check(module, 100, 50)
            set_num_threads(2)
            check(module, 100, 50)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    check(module, 100, 50)


def test_threads_sleep_when_there_is_nothing_to_do() -> None:
    set_num_threads(4)
    module = rows(64, 64)
    check(module, 64, 64)
    end = time.monotonic() + 60
    while POOL.sleeping < 3 and time.monotonic() < end:
        time.sleep(0.01)
    assert POOL.sleeping == 3
    check(module, 64, 64)  # and they wake


def wait_until_all_sleep() -> None:
    """A thread that comes late to a loop counts as asleep for a moment, until it sees the loop: look several times."""
    end, seen = time.monotonic() + 60, 0
    while seen < 5 and time.monotonic() < end:
        time.sleep(0.001)
        seen = seen + 1 if POOL.sleeping == num_threads() - 1 else 0
    assert seen == 5


def woken_by_a_run(module: Module, count: int, columns: int) -> int:
    """How many threads a run wakes when all of them sleep."""
    POOL.start()
    wait_until_all_sleep()
    before = POOL.woken
    check(module, count, columns)
    return POOL.woken - before


def cost_of(module: Module, count: int, columns: int) -> Cost:
    """What is known of the only loop: it runs until its caller comes first to some part of it, and measures that."""
    while not POOL.costs:
        check(module, count, columns)
    (cost,) = POOL.costs
    return cost


def test_a_loop_wakes_as_many_threads_as_it_is_worth() -> None:
    """By what its last run took, which this test says, since a machine that is busy interrupts runs."""
    set_num_threads(4)
    module = rows(64, 5)
    assert woken_by_a_run(module, 64, 5) == 3  # nothing is known of it yet
    cost = cost_of(module, 64, 5)
    for worth, woken in ((0, 0), (0.1, 0), (1.9, 0), (2.1, 1), (3.1, 2), (4.1, 3), (1000, 3), (0.1, 0)):
        cost.cycles = worth * SPIN_CYCLES / 64
        assert woken_by_a_run(module, 64, 5) == woken, worth


def test_the_cost_of_a_loop_is_measured_and_at_most_doubles() -> None:
    set_num_threads(4)
    module = rows(64, 5)
    cost = cost_of(module, 64, 5)
    assert cost.cycles > 0
    for before in (1e-6, 1e-3):
        cost.cycles = before
        check(module, 64, 5)
        assert cost.cycles == 2 * before  # no loop is as short
    cost.cycles = 1e15  # days
    while cost.cycles == 1e15:  # until the caller comes first to some part of the loop
        check(module, 64, 5)
    assert 0 < cost.cycles < 1e14


def test_a_long_loop_wakes_all_threads() -> None:
    set_num_threads(4)
    module = rows(64, 50_000)
    assert [woken_by_a_run(module, 64, 50_000) for _ in range(3)] == [3, 3, 3]


def test_the_processors_that_this_process_may_use_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert num_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv(VARIABLE, "5")
    assert num_threads() == 5
    set_num_threads(2)
    assert num_threads() == 2


@pytest.mark.parametrize("number", [0, -1, 2.5, "3", True, 10**9])
def test_a_number_of_threads_that_is_none(number: object) -> None:
    with pytest.raises(UserError, match="not a positive whole number"):
        set_num_threads(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "many", "-2", "1000000000"])
def test_a_variable_that_is_no_number(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    set_num_threads(None)
    with pytest.raises(UserError, match=VARIABLE):
        POOL.start()


def test_a_process_with_a_pool_ends_well() -> None:
    program = (
        "import tests.runtime.test_thread_pool as t\n"
        "t.set_num_threads(4)\n"
        "m = t.rows(64, 64)\n"
        "for _ in range(50): t.check(m, 64, 64)\n"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
