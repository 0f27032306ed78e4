"""Accesses checked when they are made: those beyond a buffer are left out and reported, all others are as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import run as interpreted
from tests.programs.harness import build, every_target, spread
from tests.programs.tensorized import partial_tiles
from tilewright import te, tir
from tilewright.core.options import Options
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.nodes import Load
from tilewright.expr.traverse import post_order, substitute
from tilewright.loops.interpret import InterpretError
from tilewright.loops.nodes import REPORT, Stmt, Tensorized, map_statements
from tilewright.loops.walk import statements
from tilewright.passes.instrument_bound_checkers import instrument_bound_checkers
from tilewright.passes.runner import finishing, run
from tilewright.passes.simplify_program import simplify_program
from tilewright.runtime import load_module
from tilewright.transform import PassContext

CHECKED = {"tir.instrument_bound_checkers": True}


def gather(target: str, vectorized: bool = True) -> tuple[te.Schedule, list[te.Tensor]]:
    """B[i] = A[index[i]] of 40 numbers."""
    A, index = te.placeholder((10,), name="A"), te.placeholder((40,), "int32", "index")
    B = te.compute((40,), lambda i: A[index[i]] + 1.0, name="B")
    s = te.create_schedule(B.op)
    if vectorized:
        spread(s, B, target, threads=16)
    return s, [A, index, B]


def call(module: Any, target: str, *values: np.ndarray) -> np.ndarray:
    """What the last argument holds after a call; the values are those of the arguments."""
    on = tw.device(target)
    given = [tw.nd.array(value, on) for value in values]
    try:
        module(*given)
    finally:
        values[-1][...] = given[-1].numpy()
    return values[-1]


@every_target
def test_a_gather(target: str) -> None:
    with PassContext(config=CHECKED):
        module = build(*gather(target), target)
    a, index, b = np.arange(10, dtype="float32"), np.arange(40, dtype="int32") % 10, np.zeros(40, "float32")
    assert call(module, target, a, index, b).tolist() == (index + 1.0).tolist()
    index[[7, 33]] = 10, -3
    b[:] = 77
    says = "stage 'B' reads A[index["
    with refused("", says, "beyond the ends of 'A': index 0 is", "but must stay within 0 to 9", fix="te.if_then_else"):
        call(module, target, a, index, b)
    assert b[[7, 33]].tolist() == [77, 77]
    assert np.delete(b, [7, 33]).tolist() == (np.delete(index, [7, 33]) + 1.0).tolist()
    index[[7, 33]] = 0, 9
    assert call(module, target, a, index, b).tolist() == (index + 1.0).tolist()


@every_target
def test_a_scatter(target: str) -> None:
    """A store beyond its buffer, in a program that is written statement by statement."""
    index = te.placeholder((8,), "int32", "index")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        at, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if target == "llvm":
            with ib.for_range(0, 8, "i") as i:
                out[at[i]] = 1.0
        else:
            tx = te.thread_axis("threadIdx.x")
            ib.scope_attr(tx, "thread_extent", 8)
            out[at[tx]] = 1.0
        return ib.get()

    B = te.extern((16,), [index], write, name="B", dtype="float32")
    with PassContext(config=CHECKED):
        module = build(te.create_schedule(B.op), [index, B], target)
    places, out = np.array([0, 3, 16, 5, 2**30, 15, -1, 7], "int32"), np.zeros(16, "float32")
    with refused("", "stage 'B' stores to B[index[", "but must stay within 0 to 15"):
        call(module, target, places, out)
    assert np.flatnonzero(out).tolist() == [0, 3, 5, 7, 15]


@pytest.mark.parametrize("target", ["opencl", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_what_threads_exchange(target: str) -> None:
    """All threads take part in an exchange, whatever they read."""
    A, index = te.placeholder((10,), name="A"), te.placeholder((4, 64), "int32", "index")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((4,), lambda i: te.sum(A[index[i, k]], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    with PassContext(config=CHECKED):
        module = build(s, [A, index, B], target)
    at, b = np.full((4, 64), 2, "int32"), np.zeros(4, "float32")
    a = np.arange(10, dtype="float32")
    assert call(module, target, a, at, b).tolist() == [128.0] * 4
    at[1, 5] = 99
    with refused("", "index 0 is 99"):
        call(module, target, a, at, b)
    assert b.tolist() == [128.0, 126.0, 128.0, 128.0]


def test_sizes_of_the_call_and_wrong_guards() -> None:
    n = te.size_var("n")
    A, index = te.placeholder((n,), name="A"), te.placeholder((4,), "int32", "index")
    B = te.compute((4,), lambda i: te.if_then_else(index[i] < 6, A[index[i]], 0.0), name="B")
    with PassContext(config=CHECKED):
        module = tw.build(te.create_schedule(B.op), [A, index, B], "llvm")
    at, b = np.array([0, 99, 5, 2], "int32"), np.zeros(4, "float32")
    assert call(module, "llvm", np.arange(6, dtype="float32"), at, b).tolist() == [0, 0, 5, 2]
    with refused("", "index 0 is 5, but must stay within 0 to n - 1"):
        call(module, "llvm", np.arange(5, dtype="float32"), at, b)


def test_what_is_proven_is_not_checked() -> None:
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="B")
    with PassContext(config=CHECKED):
        checked = tw.lower(te.create_schedule(B.op), [A, B])
        assert REPORT not in str(checked)
        assert str(tw.lower(*gather("llvm", vectorized=False))).count(REPORT) == 1


def test_the_interpreter_reports() -> None:
    with PassContext(config=CHECKED):
        function = tw.lower(*gather("llvm"))["main"]
    a, index, b = np.arange(10, dtype="float32"), np.arange(40, dtype="int32") % 10, np.zeros(40, "float32")
    interpreted(function, a, index, b)
    assert b.tolist() == (index + 1.0).tolist()
    index[3] = 12
    with pytest.raises(InterpretError, match="out of bounds"):
        interpreted(function, a, index, b)


@pytest.mark.parametrize("target", ["llvm", "opencl", "cuda"])
def test_programs_stay_well_formed(target: str) -> None:
    with PassContext(config=CHECKED):
        function = tw.driver.lower_for(Target(target), *gather(target))["main"]
    run(finishing(Target(target)), function, Target(target), check=True)


def test_a_saved_module_checks_too(tmp_path: Any) -> None:
    with PassContext(config=CHECKED):
        tw.build(*gather("llvm"), "llvm").save(str(tmp_path / "gather.tw"))
    module = load_module(str(tmp_path / "gather.tw"))
    with refused("", "index 0 is 10"):
        call(module, "llvm", np.zeros(10, "float32"), np.full(40, 10, "int32"), np.zeros(40, "float32"))


@pytest.mark.parametrize("beyond", [0, 1000])
def test_a_matrix_instruction(beyond: int) -> None:
    """The corners of its tiles are checked; those of a program that is lowered are proven to be inside."""

    def moved(stmt: Stmt) -> Stmt:
        made = map_statements(stmt, moved)
        if not isinstance(made, Tensorized):
            return made
        a = next(e for e in post_order(made.a) if isinstance(e, Load))
        further = Load(a.source, (a.indices[0] + beyond, *a.indices[1:]))
        values = {name: getattr(made, name) for name in made.FIELDS}
        return Tensorized(**{**values, "a": substitute(made.a, {a: further})})

    target = Target("cuda -arch=sm_90")
    program = partial_tiles()
    (function,) = lower_for(target, program.s, list(program.args)).functions
    checked = instrument_bound_checkers(function.with_body(moved(function.body)), target, Options())
    made = simplify_program(checked, target, Options())
    instructions = [part for part in statements(made.body) if isinstance(part, Tensorized)]
    assert len(instructions) == (0 if beyond else 1)
    assert made.checks is not None
    assert any("reads A" in str(check) and "shared" in str(check) for check in made.checks.indices)


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_the_condition_of_a_while_loop(target: str) -> None:
    """The loop looks for the end of a list, which is not there: it ends where its buffer does."""
    following = te.placeholder((4,), "int32", "following")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        after, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if target != "llvm":
            ib.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", 1)
        at = ib.allocate("int32", (1,), "at", scope="local")
        at[0] = 0
        out[0] = 0
        with ib.while_loop(after[at[0]] >= 0):
            at[0] = after[at[0]]
            out[0] += 1
        return ib.get()

    B = te.extern((1,), [following], write, name="B", dtype="int32")
    with PassContext(config=CHECKED):
        module = build(te.create_schedule(B.op), [following, B], target)
    assert call(module, target, np.array([2, -1, 1, 0], "int32"), np.zeros(1, "int32")).tolist() == [2]
    out = np.zeros(1, "int32")
    with refused("", "reads following[at[0]]", "index 0 is 7, but must stay within 0 to 3"):
        call(module, target, np.array([2, -1, 7, 0], "int32"), out)
    assert out.tolist() == [2]
