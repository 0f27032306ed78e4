"""Deep programs: expressions of 10,000 levels, chains of thousands of stages, on every target.

Each runs in a process of its own, on a thread with a C stack of 256 KiB where no foreign compiler runs: a walk that
took C stack at every level would end that process.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir
from tilewright.arith.simplify import simplify
from tilewright.core.recursion import FRAMES
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Expr
from tilewright.expr.traverse import substitute
from tilewright.tune.flops import count_flop

DECLARE = """
import sys, threading
import numpy as np
import tilewright as tw
from tilewright import te, tir
from tilewright.loops.interpret import interpret

A = te.placeholder((8,), name="A")
data = np.arange(8, dtype="float32")

def terms(count):
    def body(i):
        x = A[i]
        for k in range(count):
            x = x + A[i] if k % 2 else x * te.const(0.5, "float32")
        return x
    return te.compute((8,), body, name="B")

def chain(count, inline):
    x, stages = A, []
    for k in range(count):
        x = te.compute((8,), lambda i, p=x: p[i] + te.const(1, "float32"), name=f"B{k}")
        stages.append(x)
    s = te.create_schedule(x.op)
    for stage in stages[:-1]:
        if inline:
            s[stage].compute_inline()
    return s, x
"""


def in_process(program: str, small_stack: bool = True) -> str:
    """What a program prints that begins with `DECLARE`; `run()` is what it does."""
    start = "threading.stack_size(256 * 1024); t = threading.Thread(target=run); t.start(); t.join()"
    source = DECLARE + textwrap.dedent(program) + (start if small_stack else "run()") + "\n"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout + done.stderr


def deep_index(count: int) -> tuple[Expr, Expr]:
    """A variable, and an expression of it that is three times as deep as `count`."""
    i = te.var("i")
    e = i
    for _ in range(count):
        e = (e * 3 + i) % 17
    return i, e


def test_an_expression_of_depth_10000_is_walked_and_rewritten() -> None:
    i, e = deep_index(3_400)
    assert str(e).count("%") == 3_400
    j = te.var("j")
    moved = substitute(e, {i: j})
    assert moved is not e
    assert substitute(moved, {j: i}) is e
    simple = simplify(e)
    assert evaluate(simple, {i: 1000}) == evaluate(e, {i: 1000})


def test_pickling_keeps_a_deep_expression() -> None:
    i, e = deep_index(3_400)
    again, j = pickle.loads(pickle.dumps((e, i)))
    assert substitute(again, {j: i}) is e


@pytest.mark.parametrize("again", [lambda T: pickle.loads(pickle.dumps(T)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_copies_of_a_tensor_with_800_stages_below_it(again: Callable[[te.Tensor], te.Tensor]) -> None:
    """Stages read the one before, and some much earlier; what several read stays one operation."""
    A = te.placeholder((4,), name="A")
    stages = [A]
    for k in range(1, 801):
        earlier = stages[-1 - k % 60 if k > 60 else 0]
        stages.append(te.compute((4,), lambda i, a=earlier, b=stages[-1]: b[i] + a[i] * 0.5, name=f"T{k}"))
    copied = again(stages[-1])
    assert copied is not stages[-1]
    s = te.create_schedule(copied.op)
    assert [stage.op.name for stage in s.stages] == [t.op.name for t in stages]
    (read,) = s.stages[1].op.input_tensors
    assert read.op is s.stages[0].op
    assert len(again(A).shape) == 1


def test_the_recursion_limit_is_as_it_was() -> None:
    before = sys.getrecursionlimit()
    _, e = deep_index(2_000)
    simplify(e)
    assert sys.getrecursionlimit() == before < FRAMES


def test_lowering_printing_and_interpreting_take_no_c_stack() -> None:
    printed = in_process("""
        def run():
            B = terms(10_000)
            s = te.create_schedule(B.op)
            m = tw.lower(s, [A, B])
            assert len(str(m)) > 100_000
            out = np.zeros(8, "float32")
            interpret(m.functions[0], [data, out])
            print("done", out[4])
    """)
    assert "done" in printed


@pytest.mark.parametrize("inline", [False, True])
def test_long_chains_of_stages_are_lowered_without_c_stack(inline: bool) -> None:
    printed = in_process(f"""
        def run():
            s, B = chain(3_000 if {inline} else 500, {inline})
            print("done", len(str(tw.lower(s, [A, B]))) > 30_000)
    """)
    assert "done True" in printed


@pytest.mark.opencl
@pytest.mark.parametrize("depth", [10, 300])
def test_deep_expressions_run_on_opencl(depth: int) -> None:
    """C compilers stop at 256 nested brackets: variables hold what is deeper."""
    printed = in_process(
        f"""
        def run():
            A = te.placeholder((8,), name="A")
            def body(i):
                x = A[i]
                for k in range({depth}):
                    x = te.max(A[i] - x * te.const(0.5, "float32"), A[(i + k) % 8])
                return x
            B = te.compute((8,), body, name="B")
            s = te.create_schedule(B.op)
            s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
            f = tw.build(s, [A, B], "opencl")
            dev = tw.opencl(0)
            out = tw.nd.array(np.zeros(8, "float32"), dev)
            f(tw.nd.array(data, dev), out)
            x = data.copy()
            for k in range({depth}):
                x = np.maximum(data - x * np.float32(0.5), np.roll(data, -k))
            assert np.array_equal(out.numpy(), x)
            print("done", "part" in f.imported_modules[0].get_source())
        """,
        small_stack=False,
    )
    assert f"done {depth > 64}" in printed


def test_nested_choices_take_time_in_proportion_to_their_number() -> None:
    A = te.placeholder((64,), name="A")

    def body(i: Expr) -> Expr:
        value = A[i]
        for k in range(500):  # each level looked at once more under its condition would be 2 ** 500 looks
            value = te.if_then_else((i * 7) % (k + 2) == 1, A[(i + k) % 64], value)
        return value

    B = te.compute((64,), body, name="B")
    assert "T.if_then_else" in str(tw.lower(te.create_schedule(B.op), [A, B]))


@pytest.mark.opencl
def test_a_value_that_is_read_under_conditions_is_written_once() -> None:
    A = te.placeholder((64,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(60):
            x = te.if_then_else(x > k, x - 1.0, x * 0.5) + 1.0
        return x

    B = te.compute((64,), body, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    source = tw.build(s, [A, B], "opencl").imported_modules[0].get_source()
    assert len(source) < 100_000


@pytest.mark.parametrize("choose", [te.if_then_else, tir.Select])
def test_a_value_that_both_branches_read_is_computed_before_them(choose: Callable[..., Expr]) -> None:
    """Its code in each branch would double at every level."""
    A = te.placeholder((8,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(300):
            x = choose(A[(i + k) % 8] > 0.5, x + 1.0, x * 0.5)
        return x

    B = te.compute((8,), body, name="B")
    for target in ("llvm", "cuda"):
        s = te.create_schedule(B.op)
        if target == "cuda":
            s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
        module = tw.build(s, [A, B], target)
        source = (module if target == "llvm" else module.imported_modules[0]).get_source()
        assert len(source) < 300 * 600
        if target == "llvm":
            a, b = tw.nd.array(np.linspace(0, 1, 8, dtype="float32")), tw.nd.empty((8,))
            module(a, b)
            want = a.numpy()
            for k in range(300):
                want = np.where(np.roll(a.numpy(), -k) > 0.5, want + 1, want * 0.5)
            np.testing.assert_allclose(b.numpy(), want, rtol=1e-5)


def test_in_lanes_too_a_value_that_both_branches_read_is_computed_before_them() -> None:
    A = te.placeholder((64,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(40):
            x = te.if_then_else(A[i] > k / 40, x + A[i], x * 0.5)
        return x

    B = te.compute((64,), body, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    module = tw.build(s, [A, B], "llvm")
    assert len(module.get_source()) < 100_000
    a, b = tw.nd.array(np.linspace(0, 1, 64, dtype="float32")), tw.nd.empty((64,))
    module(a, b)
    want = a.numpy()
    for k in range(40):
        want = np.where(a.numpy() > np.float32(k / 40), want + a.numpy(), want * 0.5)
    np.testing.assert_allclose(b.numpy(), want, rtol=1e-4)


def test_operations_of_a_deep_expression_are_counted() -> None:
    A = te.placeholder((8,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for _ in range(5_000):
            x = x * 0.5 + A[i]
        return x

    B = te.compute((8,), body, name="B")
    assert count_flop(te.create_schedule(B.op).value) == 80_000


def test_large_blocks_are_compiled_in_little_time() -> None:
    """LLVM's time grows with the square of a block's length: what is longer is not optimised."""
    A = te.placeholder((8,), "int32", name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(10_000):
            x = (x ^ k) + 1
        return x

    B = te.compute((8,), body, name="B")
    module = tw.build(te.create_schedule(B.op), [A, B], "llvm")
    a, b = tw.nd.array(np.arange(8, dtype="int32")), tw.nd.empty((8,), "int32")
    module(a, b)
    want = np.arange(8)
    for k in range(10_000):
        want = (want ^ k) + 1
    np.testing.assert_array_equal(b.numpy(), want)


def test_many_stored_stages_run_on_the_cpu() -> None:
    """More basic blocks than LLVM optimises, and more scratch memory than the stack has."""
    count, A = 1500, te.placeholder((8,), name="A")
    stage = A
    for k in range(count):
        stage = te.compute((8,), lambda i, below=stage: below[i] + 1.0, name=f"T{k}")
    module = tw.build(te.create_schedule(stage.op), [A, stage], "llvm")
    assert len(module.get_source()) < 1500 * count  # leaving early costs one block a stage
    a, b = tw.nd.array(np.arange(8, dtype="float32")), tw.nd.array(np.zeros(8, "float32"))
    module(a, b)
    assert b.numpy().tolist() == [x + count for x in range(8)]


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_an_axis_that_is_split_300_times(target: str) -> None:
    A = te.placeholder((1000,), name="A")
    B = te.compute((1000,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    block, axis = s[B].split(B.op.axis[0], factor=100)
    if target == "cuda":
        s[B].bind(block, te.thread_axis("blockIdx.x"))
    for _ in range(300):
        _, axis = s[B].split(axis, nparts=1)
    tw.build(s, [A, B], target)


def test_nested_selects_with_divisions_are_compiled_for_cuda_in_time_in_proportion() -> None:
    """NVRTC takes seconds over 1,000 choices within few expressions, and minutes over some thousands."""
    A = te.placeholder((64,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(150):  # each level reads the one below twice: 2 ** 150 occurrences of it
            x = tir.Select(x > k, x + 2.0, A[(i + k) % 64])
        return x

    B = te.compute((64,), body, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    source = tw.build(s, [A, B], "cuda -arch=sm_90").imported_modules[0].get_source()
    assert source.count("?") < 4 * 150
    assert max(line.count("?") for line in source.splitlines()) < 20


@pytest.mark.parametrize(
    "step",
    [
        lambda x, k: te.max(x, x * 0.5 + k),
        lambda x, k: te.if_then_else(x > k, x + 2.0, x * 0.5),
        lambda x, k: tir.Select(x > k, x + 2.0, x * 0.5),
    ],
    ids=["max", "if_then_else", "Select"],
)
def test_a_chain_that_reads_each_level_twice_is_written_once(step: Callable[[Expr, int], Expr]) -> None:
    """NVRTC did not end in 40 s over 500 levels, of which each C expression repeated seven."""
    A = te.placeholder((64,), name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(400):
            x = step(x, k)
        return x

    B = te.compute((64,), body, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    source = tw.build(s, [A, B], "cuda -arch=sm_90").imported_modules[0].get_source()
    assert len(source) < 400 * 120


def pick(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`: of expressions and of arrays."""
    return te.if_then_else(condition, a, b) if isinstance(condition, Expr) else np.where(condition, a, b)


STEPS: dict[str, Callable[[Any, Any, int], Any]] = {
    "then": lambda a, x, k: pick(a > k / 256, x + 1.0, a),
    "else": lambda a, x, k: pick(a > k / 256, a + k, x * 0.5),
    "both": lambda a, x, k: pick(x > k / 256, x + 1.0, x * 0.5),
    "junctions": lambda a, x, k: (
        pick(tir.any((a > k / 256), tir.all(a > 0.125, x > 0.5)), a, a + k)
        if isinstance(a, Expr)
        else pick((a > k / 256) | ((a > 0.125) & (x > 0.5)), a, a + k)
    ),
}


@pytest.mark.opencl
@pytest.mark.parametrize("target", ["llvm", "opencl"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_chains_of_conditions_that_are_deeper_than_brackets_nest(
    step: Callable[[Any, Any, int], Any], target: str
) -> None:
    """C compilers take 256 nested brackets, and what a condition guards has no variable outside of it."""
    A = te.placeholder((16,), name="A")

    def chain(a: Any) -> Any:
        x = a
        for k in range(200):
            x = step(a, x, k)
        return x

    B = te.compute((16,), lambda i: chain(A[i]), name="B")
    s = te.create_schedule(B.op)
    if target == "opencl":
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    module = tw.build(s, [A, B], target)
    values = np.linspace(0, 1.5, 16, dtype="float32")
    dev = tw.device(target, 0)
    b = tw.nd.empty((16,), "float32", dev)
    module(tw.nd.array(values, dev), b)
    np.testing.assert_allclose(b.numpy(), chain(values), rtol=1e-5)


def test_a_guarded_chain_that_reads_each_level_twice_is_written_in_parts() -> None:
    """Written out, its text would have 2 ** 30 terms."""
    A = te.placeholder((16,), "int32", name="A")

    def body(i: Expr) -> Expr:
        x = A[i]
        for k in range(30):
            x = (x ^ k) * (x + A[i])
        return te.if_then_else(i > 3, x, A[i])

    B = te.compute((16,), body, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    assert len(tw.build(s, [A, B], "cuda -arch=sm_90").imported_modules[0].get_source()) < 500_000
