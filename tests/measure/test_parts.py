"""The parts of measuring: messages, pools of processes, guarded arrays, and what a workload is."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.measure import reference, reference_file
from tilewright.measure.channel import Channel, Garbled, wait
from tilewright.measure.guarded_array import GUARD, GuardedArray
from tilewright.measure.pool import Died, WorkerPool
from tilewright.runtime.cpu_driver import CpuDriver
from tilewright.runtime.device import device
from tilewright.runtime.driver import DeviceError
from tilewright.topi.templates import named
from tilewright.topi.templates.convolutions import Conv2dLayer

CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_TF32 = named("topi/conv2d.tf32")

SM_90 = Target("cuda -arch=sm_90")


class TestChannel:
    """Messages between processes."""

    def test_messages_arrive_in_order_and_whole(self) -> None:
        a, b = Channel.pair()
        for message in ("one", {"two": 2}, b"3" * 10_000):
            a.send(message)
        assert b.receive() == "one"
        assert b.arrived() == [{"two": 2}, b"3" * 10_000]
        assert b.arrived() == []

    def test_half_a_message_does_not_block(self) -> None:
        a, b = Channel.pair()
        a.send("hello")
        data = b.socket.recv(1 << 10)
        for half in (data[:3], data[3:-1]):
            a.socket.sendall(half)
            assert b.arrived() == []
        a.socket.sendall(data[-1:])
        assert b.arrived() == ["hello"]

    def test_what_was_said_before_the_end_is_heard(self) -> None:
        a, b = Channel.pair()
        a.send("last words")
        a.close()
        assert b.arrived() == ["last words"]
        assert b.closed
        with pytest.raises(EOFError):
            b.receive()

    def test_nonsense_is_no_message(self) -> None:
        a, b = Channel.pair()
        a.send("sense")
        a.socket.sendall(b"\xff" * 64)
        assert b.arrived() == ["sense", Garbled("sent data that are not a message", final=True)]
        assert b.closed

    def test_a_message_that_was_damaged_is_none(self) -> None:
        a, b = Channel.pair()
        a.send("hello")
        data = bytearray(b.socket.recv(1 << 10))
        data[-2] ^= 1
        a.socket.sendall(data)
        assert b.arrived() == [Garbled("sent a damaged message", final=True)]

    def test_a_receiver_that_takes_nothing_is_given_up(self) -> None:
        a, _b = Channel.pair()
        with pytest.raises(OSError, match="timed out"):
            a.send(b"0" * (1 << 24), seconds=0.05)


def run(work: Callable[[int], Any], numbers: list[int], size: int = 2, timeout: float = 120) -> dict[int, Any]:
    """What a pool makes of some work."""
    pool = WorkerPool(work, size, timeout)
    pool.submit(numbers)
    found: dict[int, Any] = {}
    try:
        found.update(pool.advance())
        while pool.active:
            wait(pool.descriptors(), pool.deadline)
            found.update(pool.advance())
    finally:
        pool.close()
    return found


def collected(pool: WorkerPool) -> list[tuple[int, Any]]:
    """What comes next of a pool's work, however long that takes."""
    while True:
        wait(pool.descriptors(), pool.deadline)
        if found := pool.advance():
            return found


class TestPool:
    """Processes that build."""

    def test_work_is_done_by_others(self) -> None:
        found = run(lambda number: (number * 2, os.getpid()), list(range(10)))
        assert {number: double for number, (double, _) in found.items()} == {n: 2 * n for n in range(10)}
        assert len({pid for _, pid in found.values()} | {os.getpid()}) == 3

    def test_what_travels_reaches_workers_forked_before(self) -> None:
        known = ["a"]
        pool = WorkerPool(lambda text: (text * 2, os.getpid(), os.nice(0)), 1, 60, known.__getitem__, nice=3)
        found: list[tuple[int, Any]] = []
        for number, text in enumerate(("b", "c"), 1):
            known.append(text)
            pool.submit([number])
            found += pool.advance()
            while len(found) < number:
                wait(pool.descriptors(), pool.deadline)
                found += pool.advance()
        pool.close()
        (_, (two, worker, nice)), (_, (other, same, _)) = found
        assert (two, other) == ("bb", "cc")
        assert worker == same != os.getpid()
        assert nice >= min(os.nice(0) + 3, 19)

    def test_threads_that_the_first_work_leaves_are_its_libraries(self) -> None:
        def work(number: int) -> int:
            if number in (0, 2):
                threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            return os.getpid()

        found = run(work, list(range(4)), size=1)
        assert found[0] == found[1] == found[2] != found[3]

    def test_the_dead_are_replaced(self) -> None:
        def work(number: int) -> int:
            if number % 3 == 0:
                os._exit(number)
            if number % 3 == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return number

        found = run(work, list(range(9)))
        assert [found[n] for n in (2, 5, 8)] == [2, 5, 8]
        assert [found[n].how for n in (3, 6)] == ["exited with status 3", "exited with status 6"]
        assert all(found[n].how == "was killed by SIGKILL" and found[n].killed for n in (1, 4, 7))

    def test_the_slow_are_ended(self) -> None:
        pool = WorkerPool(lambda number: time.sleep(600 * number), 1, 0.3)
        pool.submit([1])
        pool.start()
        ((_, late),) = collected(pool)
        assert isinstance(late, Died)
        assert late.overdue
        pool.timeout = 600.0
        pool.submit([0])
        pool.start()
        assert collected(pool) == [(0, None)]
        pool.close()

    def test_what_was_done_in_time_counts_however_late_it_is_collected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pool = WorkerPool(lambda number: number, 1, 600.0)
        pool.submit([5])
        pool.start()
        (child,) = pool._busy
        while not (came := child.channel.arrived()):
            wait([child.channel.fileno()], None)
        monkeypatch.setattr(child.channel, "arrived", lambda: came)
        pool._busy[child].deadline = time.monotonic() - 0.1
        assert pool.advance() == [(5, 5)]
        pool.close()

    def test_a_result_that_cannot_travel_is_a_death(self, capfd: pytest.CaptureFixture[str]) -> None:
        found = run(lambda number: lambda: number, [1])
        assert isinstance(found[1], Died)
        assert "Can't " in capfd.readouterr().err  # pickle; from Python 3.13 on, get local object


class TestGuards:
    """Arrays that notice."""

    def make(self) -> GuardedArray:
        array = GuardedArray("B", (3, 5), "float32", device("cpu"))
        array.fill(np.arange(15, dtype="float32").reshape(3, 5))
        return array

    def test_what_is_put_in_comes_out(self) -> None:
        array = self.make()
        values, damage = array.read()
        assert not damage
        np.testing.assert_array_equal(values, np.arange(15).reshape(3, 5))
        np.testing.assert_array_equal(array.array.numpy(), values)
        assert not array.changed()

    def test_values_stay_as_they_were_read_when_the_array_is_read_again(self) -> None:
        array = self.make()
        before, _ = array.read()
        array.fill(None)
        after, _ = array.read()
        np.testing.assert_array_equal(before, np.arange(15).reshape(3, 5))
        assert np.isnan(after).all()

    @pytest.mark.parametrize(
        ("offset", "said"),
        [
            (-1, "it writes outside of B, 1 byte before its first element"),
            (-GUARD, f"it writes outside of B, {GUARD:,} bytes before its first element"),
            (60, "it writes outside of B, 1 byte after its last element"),
            (60 + 99, "it writes outside of B, 100 bytes after its last element"),
            (4, "it writes to its input B"),
        ],
    )
    def test_a_byte_that_changes_is_noticed(self, offset: int, said: str) -> None:
        array = self.make()
        address = int(array.array.handle) + offset
        ctypes.memset(address, (ctypes.string_at(address, 1)[0] + 1) % 256, 1)
        assert array.changed() == said
        array.fill(None)
        assert not array.changed()

    @pytest.mark.parametrize(
        ("offset", "said"),
        [
            (-1_200_000, "it writes outside of B, 1,200,000 bytes before its first element"),
            (60 + 1_199_999, "it writes outside of B, 1,200,000 bytes after its last element"),
            (60 + GUARD, f"it writes outside of B, {GUARD + 1:,} bytes after its last element"),
        ],
    )
    def test_a_byte_far_away_is_noticed(self, offset: int, said: str) -> None:
        array = self.make()
        assert not array.stray()
        address = int(array.array.handle) + offset
        ctypes.memset(address, (ctypes.string_at(address, 1)[0] + 1) % 256, 1)
        assert (array.changed() or array.stray()) == said
        array.fill(None)
        assert not array.stray(), "it is mended"

    @pytest.mark.parametrize(
        ("name", "offset", "said"),
        [
            ("A", -1_200_000, "outside of A, 1,200,000 bytes before its first element"),
            ("A", 12 + GUARD, f"outside of A, {GUARD + 1:,} bytes after its last element"),
            ("A", GUARD + 4096, f"outside of B, {GUARD:,} bytes before its first element"),
            ("A", 3 * GUARD, "writes to its input B"),
            ("C", 1_200_000, "outside of C, 1,200,000 bytes after its last element"),
        ],
    )
    def test_arrays_in_a_row_have_far_guards_at_its_ends(self, name: str, offset: int, said: str) -> None:
        """Between them, what is near a neighbour notices, or the neighbour itself."""
        wanted = [("A", (3,), "float32"), ("B", (1 << 16,), "float32"), ("C", (1,), "int8")]
        row = GuardedArray.row(wanted, device("cpu"))
        for array in row:
            array.fill(np.ones(array.shape, array.dtype.numpy))
        assert not any(array.changed() or array.stray() for array in row)
        (from_,) = (array for array in row if array.name == name)
        ctypes.memset(int(from_.array.handle) + offset, 77, 1)
        assert said in "".join(array.changed() or array.stray() for array in row)

    def test_large_arrays_lie_apart(self) -> None:
        row = GuardedArray.row([("A", (5 << 20,), "float32"), ("B", (5 << 20,), "float32")], device("cpu"))
        assert [array.far for array in row] == [20 << 20] * 2

    def test_guards_are_as_wide_as_the_array_where_there_is_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        array = GuardedArray("B", (1 << 20,), "float32", device("cpu"))
        assert array.far == 1 << 22
        given = device("cpu").driver.allocate

        def mean(self: Any, index: int, size: int) -> Any:
            if size > 1 << 20:
                raise DeviceError("no more than a megabyte at a time")
            return given(index, size)

        monkeypatch.setattr(CpuDriver, "allocate", mean)
        small = self.make()
        assert small.far == 0
        assert not small.stray()

    @pytest.mark.parametrize(("dtype", "poison"), [("float32", np.nan), ("int32", -1), ("uint8", 255), ("bool", True)])
    def test_poison(self, dtype: str, poison: float) -> None:
        array = GuardedArray("B", (7,), dtype, device("cpu"))
        array.fill(None)
        np.testing.assert_array_equal(array.read()[0], np.full(7, poison, dtype))

    def test_arrays_without_elements(self) -> None:
        array = GuardedArray("B", (0, 4), "float32", device("cpu"))
        array.fill(np.zeros((0, 4)))
        assert array.read()[0].shape == (0, 4)
        assert not array.changed()


def conv(channels: int = 8, width: int = 3, dtype: str = "float32", twice: bool = False, shift: int = 0) -> list[Any]:
    """A small convolution with padding; each call declares it anew."""
    data = te.placeholder((1, channels, 10), dtype, name="anything")
    kernel = te.placeholder((4, channels, width), dtype, name="else")
    padded = te.compute(
        (1, channels, 12),
        lambda n, c, x: te.if_then_else(te.all(x >= 1, x < 11), data[n, c, x - 1], te.const(shift, dtype)),
    )
    c, k = te.reduce_axis((0, channels)), te.reduce_axis((0, width))
    out = te.compute(
        (1, 4, 13 - width), lambda n, f, x: te.sum(padded[n, c, x + k] * kernel[f, c, k], axis=[c, k]), name="out"
    )
    if twice:
        out = te.compute(out.shape, lambda n, f, x: out[n, f, x] + out[n, f, x])
    return [data, kernel, out]


class TestWorkloads:
    """What a kernel computes, and what it should have."""

    def test_a_declaration_is_the_same_whoever_makes_it(self) -> None:
        first, second = reference.describe(conv()), reference.describe(conv())
        assert first == second
        assert first.outputs == (2,)

    @pytest.mark.parametrize(
        "other",
        [
            {"channels": 9},
            {"width": 2},
            {"dtype": "float16"},
            {"twice": True},
            {"shift": 1},
        ],
    )
    def test_different_declarations_differ(self, other: dict[str, Any]) -> None:
        assert reference.describe(conv()).declaration != reference.describe(conv(**other)).declaration

    def test_the_order_of_arguments_counts(self) -> None:
        a, b = te.placeholder((4,), name="A"), te.placeholder((4,), name="B")
        c = te.compute((4,), lambda i: a[i] - b[i])
        assert reference.describe([a, b, c]).declaration != reference.describe([b, a, c]).declaration

    def test_combiners_and_conditions_count(self) -> None:
        def reduced(how: Callable[..., Any], **options: Any) -> str:
            a = te.placeholder((4, 6), name="A")
            k = te.reduce_axis((0, 6))
            return reference.describe([a, te.compute((4,), lambda i: how(a[i, k], axis=k))]).declaration

        assert len({reduced(how) for how in (te.sum, te.max, te.min)}) == 3
        assert reduced(te.sum) == reduced(te.sum)

    def test_longer_sums_and_coarser_types_may_be_further_off(self) -> None:
        short, long = reference.describe(conv(2)), reference.describe(conv(200))
        assert short.tolerance < long.tolerance < 1e-4
        assert reference.describe(conv(2, dtype="float16")).tolerance > 100 * short.tolerance
        a = te.placeholder((4,), "int32", name="A")
        assert reference.describe([a, te.compute((4,), lambda i: a[i] + 1)]).tolerance == 0

    @pytest.mark.parametrize(
        ("value", "branches"),
        [
            (lambda a, i: tir.Select(a[i] > 0.5, a[i], -a[i]), True),
            (lambda a, i: te.floor(a[i]), True),
            (lambda a, i: a[i].astype("int32").astype("float32"), True),
            (lambda a, i: te.fmod(a[i], 0.3), True),
            (lambda a, i: tir.Select(i > 2, a[i], -a[i]), False),
            (lambda a, i: tir.Max(a[i], tir.const(0.0, "float32")), False),
            (lambda a, i: a[tir.floordiv(i, 2)].astype("float16").astype("float32"), False),
        ],
    )
    def test_comparisons_and_steps_of_floats_are_branches(self, value: Any, branches: bool) -> None:
        a = te.placeholder((4,), name="a")
        assert reference.describe([a, te.compute((4,), lambda i: value(a, i))]).branches == branches

    def test_sums_are_judged_in_their_own_type(self) -> None:
        """Storing in 16 bits rounds once: it does not excuse a lost term of hundreds summed in float32."""
        a, b = (te.placeholder((4, 900), "float16", name) for name in "AB")
        k = te.reduce_axis((0, 900))
        sums = te.compute((4,), lambda i: te.sum(a[i, k].astype("float32") * b[i, k].astype("float32"), axis=k))
        stored = reference.describe([a, b, te.compute((4,), lambda i: sums[i].astype("float16"))]).tolerance
        assert 2**-10 < stored < 1 / 30  # one of 900 terms is a thirtieth of the magnitude of their sum

    def test_operands_that_the_instruction_shortens_may_be_further_off(self) -> None:
        of = Conv2dLayer.of((1, 16, 8, 8), filters=16)

        def schedule(template: Any) -> Any:
            return template.instantiate(template.default_config(of, SM_90), of.args, SM_90)[0].value

        exact, rounded = schedule(CONV2D_MMA).rounding, schedule(CONV2D_TF32).rounding
        assert (exact, rounded) == (0, 2**-10)
        tensors = of.declare()
        assert (
            reference.describe(tensors, exact).tolerance < 1e-4 < 3e-3 < reference.describe(tensors, rounded).tolerance
        )

    def test_expected_values(self, tmp_path: Path) -> None:
        (data, kernel), (want,) = reference.compute(conv(), np.random.default_rng(1))
        assert data.dtype == kernel.dtype == np.float32
        assert np.abs(data).max() <= 1
        wide = np.pad(data.astype("float64"), ((0, 0), (0, 0), (1, 1)))
        for x in range(10):
            np.testing.assert_allclose(want[0, :, x], np.einsum("ck,fck->f", wide[0, :, x : x + 3], kernel), rtol=1e-12)
        reference_file.save(tmp_path / "r.npz", [data, kernel], [want])
        inputs, expected = reference_file.load(tmp_path / "r.npz")
        for before, after in zip([data, kernel, want], [*inputs, *expected], strict=True):
            np.testing.assert_array_equal(before, after)

    def test_inputs_avoid_what_is_undefined(self) -> None:
        a = te.placeholder((50,), name="A")
        logs = te.compute((50,), lambda i: te.log(a[i]))
        (values,), (want,) = reference.compute([a, logs], np.random.default_rng(1))
        assert values.min() >= 0.5
        assert np.isfinite(want).all()

    def test_indices_stay_inside(self) -> None:
        a, at = te.placeholder((5,), name="A"), te.placeholder((40,), "int32", name="at")
        (_, values), _ = reference.compute([a, at, te.compute((40,), lambda i: a[at[i]])], np.random.default_rng(1))
        assert 0 <= values.min() <= values.max() < 2

    def test_types_that_numpy_does_not_know(self, tmp_path: Path) -> None:
        values = reference_file.random((3, 4), "bfloat16", np.random.default_rng(1))
        reference_file.save(tmp_path / "r.npz", [values], [])
        ((loaded,), _) = reference_file.load(tmp_path / "r.npz")
        np.testing.assert_array_equal(loaded.view(values.dtype), values)

    def test_sizes_must_be_known(self) -> None:
        with pytest.raises(UserError, match="only tensors of known shape"):
            reference.describe([te.var("n")])


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(), (7,), (304,), (1 << 15,), ((1 << 15) + 1,)])
def test_guards_of_an_opencl_array_of_any_size(shape):
    array = GuardedArray("B", shape, "float32", device("opencl"))
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    array.fill(values)
    found, damage = array.read()
    np.testing.assert_array_equal(found, values)
    assert (damage, array.stray(), array.changed()) == ("", "", "")


@pytest.mark.opencl
@pytest.mark.parametrize("in_a_row", [True, False])
@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (0, ""),
        (4096 * 4, "outside of B, 1 byte after its last element"),
        (4096 * 4 + 1_200_000, "outside of B, 1,200,001 bytes after its last element"),
        (-1, "outside of B, 1 byte before its first element"),
        (-1_200_000, "outside of [AB], "),
    ],
)
def test_what_a_kernel_stores_beside_an_array_on_opencl(in_a_row, offset, said):
    """On a GPU, a part of a buffer that is used before the whole may have memory of its own."""
    on = device("opencl")
    at = on.driver._at(on.index)
    code = "__kernel void store(__global uchar* a, int offset) { a[offset] ^= 255; }"
    kernel = at.cl.Kernel(at.cl.Program(at.context, code).build(options=["-w"]), "store")
    wanted = [(name, (4096,), "float32") for name in "AB"]
    arrays = GuardedArray.row(wanted, on) if in_a_row else [GuardedArray(*each, on) for each in wanted]
    for array in arrays:
        array.fill(np.ones(4096, "float32"))
    kernel.set_args(arrays[1].array.handle, np.int32(offset))
    at.cl.enqueue_nd_range_kernel(at.queue, kernel, (1,), (1,))
    at.queue.finish()
    damage = "; ".join(filter(None, [what for a in arrays for what in (a.read()[1], a.stray())]))
    assert re.search(said.replace("(s)", r"\(s\)"), damage) if said else not damage
    if not offset:
        assert arrays[1].changed() == "it writes to its input B"
