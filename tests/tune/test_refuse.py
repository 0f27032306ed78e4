"""Refusal before cost: which limit a candidate breaks, by which step, told from its bounds in milliseconds."""

from __future__ import annotations

import math
import os
import re
import statistics
import time

import pytest

from tests.counting import function_calls
from tests.tune import fakes, tutorial
from tilewright import autotvm, lower, te
from tilewright.core.hardware import MemoryScope
from tilewright.driver import build
from tilewright.error import UserError
from tilewright.target import Target
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.session.prefilter import Prefilter
from tilewright.tune.space.config import Config
from tilewright.tune.task import PureTemplate, Task


def seen(make, target="opencl", kind="knob"):
    """The inspection of the one schedule that `make` returns."""
    template = PureTemplate("tests/one", lambda: None, lambda config: make())
    return inspect_candidate(Task("tests/one", (), None, template), Config({}), Target(target), kind)


def copy_through(scope, elements, threads=32, grid_tag="blockIdx.x", thread_tag="threadIdx.x"):
    """A copy by blocks of `elements`, each fetched into `scope` memory first."""
    A = te.placeholder((elements * 8,), name="A")
    B = te.compute((elements * 8,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    cache = s.cache_read(A, scope, [B])
    block, rest = s[B].split(B.op.axis[0], factor=elements)
    thread, _ = s[B].split(rest, nparts=threads)
    s[B].bind(block, te.thread_axis(grid_tag))
    s[B].bind(thread, te.thread_axis(thread_tag))
    s[cache].compute_at(s[B], block if scope == "shared" else thread)
    return s, [A, B]


def test_too_much_shared_memory_names_the_cache():
    assert seen(lambda: copy_through("shared", 12 * 1024)).refusal is None  # 48 KiB, to the byte
    refusal = seen(lambda: copy_through("shared", 12 * 1024 + 32)).refusal
    assert refusal.reason.startswith("49,280 bytes of shared memory, but opencl has 49,152 per block (A.shared alone")
    assert refusal.step.startswith("s.cache_read(A, ")
    assert "test_refuse.py:" in refusal.step
    assert seen(lambda: copy_through("shared", 12 * 1024 + 32), "cuda -arch=sm_90").refusal is None
    with pytest.raises(UserError, match="49,280 bytes of shared memory"):
        build(*copy_through("shared", 12 * 1024 + 32), target="opencl")


@pytest.mark.parametrize(
    ("threads", "tag", "says"),
    [
        (2048, "threadIdx.x", r"2,048 threads per block \(threadIdx.x 2048\), but cuda allows 1,024"),
        (128, "threadIdx.z", "threadIdx.z has extent 128, but cuda allows 64"),
    ],
)
def test_too_many_threads_name_the_binding(threads, tag, says):
    refusal = seen(lambda: copy_through("local", 4096, threads, thread_tag=tag), "cuda").refusal
    assert refusal is not None
    assert re.fullmatch(says, refusal.reason)
    assert re.fullmatch(rf"s\[B\]\.bind\(.*, {tag}\) at .*", refusal.step)


def test_arrays_that_no_registers_hold_are_refused():
    refusal = seen(lambda: copy_through("local", 4096, threads=1)).refusal
    assert refusal.reason.startswith("4,096 words of local arrays per thread")
    assert refusal.step.startswith("s.cache_read(A, ")
    assert seen(lambda: copy_through("local", 4096, threads=32)).refusal is None


def test_what_a_template_raises_is_the_reason():
    def wrong():
        s, args = copy_through("shared", 64)
        s[args[1]].split(args[1].op.axis[0], factor=0)
        return s, args

    refusal = seen(wrong).refusal
    assert refusal.reason == "axis 'i' of stage 'B' is no longer a loop: it became i.outer, i.inner"
    assert refusal.step.startswith("split at ")
    assert seen(lambda: 1 // 0).refusal.reason.startswith("ZeroDivisionError")

    @autotvm.template("tests/choosy")
    def choosy():
        cfg = autotvm.get_config()
        cfg.define_knob("v", [1, 2])
        if cfg["v"].val == 2:
            cfg.raise_error("2 is too many")
        return copy_through("shared", 64)

    task = autotvm.task.create("tests/choosy", (), "opencl")
    assert inspect_candidate(task, task.config_space.get(0), task.target).refusal is None
    assert inspect_candidate(task, task.config_space.get(1), task.target).refusal.reason == "2 is too many"
    with pytest.raises(autotvm.task.InstantiationError, match="2 is too many"):
        task.instantiate(task.config_space.get(1))


def test_a_stage_that_its_reader_cannot_see_is_refused():
    def unseen():
        s, args = copy_through("shared", 64)
        cache = s.stages[1]
        return (cache.set_scope("local"), cache.compute_root(), (s, args))[2]

    assert "exists within one kernel" in seen(unseen).refusal.reason


def test_cpu_targets_have_no_such_limits():
    A = te.placeholder((1 << 20,), name="A")
    B = te.compute((1 << 20,), lambda i: A[i] + 1.0, name="B")
    assert seen(lambda: (te.create_schedule(B.op), [A, B]), "llvm").refusal is None


def test_memory_is_what_the_lowered_program_allocates():
    """Against the allocations of the program itself: never more, so nothing legal is refused; here the same."""
    task = autotvm.task.create("tutorial/conv2d_no_batching", args=tutorial.LAYER, target="cuda")
    for index in (4881186, 3605182, 1263092, 8921130, 5036371, 3582580, 4107668):
        config = task.config_space.get(index)
        use = inspect_candidate(task, config, task.target).uses[0]
        program = lower(*task.instantiate(config)).script()
        words = {scope: _allocated(program, scope) for scope in ("shared", "local")}
        assert use.bytes_in(MemoryScope.SHARED) == 4 * words["shared"]
        assert use.local_words == words["local"]
        threads = [int(line.split(", ")[1].rstrip(")")) for line in _launches(program)]
        assert use.threads == threads[0] * threads[1] * threads[2]


@pytest.mark.parametrize(("depth", "padding", "elements"), [(1, 0, 1024), (3, 0, 3072), (1, 8, 1280), (2, 1, 2112)])
def test_stages_and_padding_count_as_shared_memory(depth, padding, elements):
    A, W = te.placeholder((32, 128), name="A"), te.placeholder((128, 32), name="W")
    r = te.reduce_axis((0, 128), name="r")
    B = te.compute((32, 32), lambda i, j: te.sum(A[i, r] * W[r, j], axis=r), name="B")
    s = te.create_schedule(B.op)
    sums = s.cache_write(B, "local")
    tile = s.cache_read(A, "shared", [sums])
    i, j = B.op.axis
    s[B].bind(i, te.thread_axis("threadIdx.y"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[sums].compute_at(s[B], j)
    outer, _ = s[sums].split(r, factor=32)
    s[tile].compute_at(s[sums], outer)
    if depth > 1:
        s[tile].pipeline(depth)
    if padding:
        s[tile].storage_align(tile.op.axis[0], 32, padding)
    use = seen(lambda: (s, [A, W, B]), "cuda").uses[0]
    assert use.bytes_in(MemoryScope.SHARED) == 4 * elements == 4 * _allocated(lower(s, [A, W, B]).script(), "shared")


def _allocated(program, scope):
    lines = [line for line in program.splitlines() if "T.allocate(" in line and f'"{scope}"' in line]
    return sum(int(line.partition("([")[2].partition("]")[0]) for line in lines)


def _launches(program):
    return [line.strip() for line in program.splitlines() if '= T.launch_thread("threadIdx' in line]


def test_an_inspection_takes_milliseconds():
    """As a count of function calls: 50,000 of them take about 10 ms."""
    task = autotvm.task.create("tutorial/conv2d_no_batching", args=tutorial.LAYER, target="cuda")
    configs = [task.config_space.get(i) for i, _, _ in tutorial.TRIALS]
    counts = [function_calls(lambda c=c: inspect_candidate(task, c, task.target)) for c in configs]
    assert statistics.median(counts) < 80_000


def test_features_tell_configurations_apart():
    task = fakes.add_task()
    for kind in ("itervar", "curve"):
        inspections = [inspect_candidate(task, task.config_space.get(i), task.target, kind) for i in range(40)]
        rows = [one.features for one in inspections if one.refusal is None]
        assert len(rows) > 30
        assert all(rows)
        assert len({tuple(sorted(row.items())) for row in rows}) == len(rows)
        assert all(isinstance(v, float) for v in rows[0].values())
    assert inspect_candidate(task, task.config_space.get(0), task.target).features == {}


def test_features_say_how_memory_is_walked():
    s = {}

    def transposed():
        A = te.placeholder((64, 64), name="A")
        B = te.compute((64, 64), lambda i, j: A[j, i] + 1.0, name="B")
        s["s"] = te.create_schedule(B.op)
        i, j = B.op.axis
        s["s"][B].bind(i, te.thread_axis("blockIdx.x"))
        s["s"][B].bind(j, te.thread_axis("threadIdx.x"))
        return s["s"], [A, B]

    row = seen(transposed, kind="itervar").features
    assert row["0.B.threadIdx.x.0.stride"] == math.log2(1 + 1)  # B, written: neighbours side by side
    assert row["0.B.threadIdx.x.1.stride"] == math.log2(1 + 64)  # A, read: a row apart
    assert row["0.B.threadIdx.x.1.touched"] == math.log2(1 + 64)
    assert row["0.B.blockIdx.x.1.touched"] == math.log2(1 + 64 * 64)
    assert row["kernel0.threads"] == math.log2(1 + 64)
    curve = seen(transposed, kind="curve").features
    assert curve["0.B.1.stride"] == math.log2(1 + 64)


def test_a_template_that_hangs_or_ends_its_process_harms_nobody():
    @autotvm.template("tests/harmful")
    def harmful(n):
        autotvm.get_config().define_knob("does", ["well", "exit", "hang"])
        match autotvm.get_config()["does"].val:
            case "exit":
                os._exit(3)
            case "hang":
                time.sleep(1000)
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        s = te.create_schedule(B.op)
        s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
        return s, [A, B]

    task = autotvm.task.create("tests/harmful", (8,), "opencl")
    with Prefilter(task, Target("opencl"), "knob", processes=1, timeout=600.0) as prefilter:
        inspections = prefilter.inspect([1])
        inspections |= prefilter.inspect([0, 1, 0])
    assert list(inspections) == [1, 0]
    assert inspections[0].refusal is None
    assert inspections[1].refusal.reason == "its template exited with status 3"
    with Prefilter(task, Target("opencl"), "knob", processes=1, timeout=0.5) as prefilter:
        assert re.fullmatch(r"making its loops takes longer than \d+ s", prefilter.inspect([2])[2].refusal.reason)
