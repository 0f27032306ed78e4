"""Options of compilation: what they change, what is refused by name, and what each pass is said to have done."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.expr.nodes import Load
from tilewright.loops.nodes import Function, Store
from tilewright.runtime.array import array, empty
from tilewright.transform import PassContext


def program(vectorized: bool = False) -> tuple[te.Schedule, list[te.Tensor]]:
    """B = 2 A of 100 numbers, in loops of 25 by 4."""
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    if vectorized:
        s[B].vectorize(inner)
    return s, [A, B]


def lowered(config: dict[str, Any], **kinds: bool) -> str:
    """The program, lowered under a configuration."""
    with PassContext(opt_level=3, config=config):
        return str(tilewright.lower(*program(**kinds)))


def test_unrolling_by_default() -> None:
    assert "T.grid(25, 4)" in lowered({})
    assert lowered({"tir.UnrollLoop": {"auto_max_step": 4}}).count("B[") == 4
    assert "T.unroll(4)" in lowered({"tir.UnrollLoop": {"auto_max_step": 4, "explicit_unroll": False}})


def test_vectors_can_be_left_out() -> None:
    assert "Broadcast" in lowered({}, vectorized=True)
    assert "T.grid(25, 4)" in lowered({"tir.disable_vectorize": True}, vectorized=True)


def tripled(function: Function) -> Function:
    """A caller's pass: stores three times what would be stored."""

    def visit(node: Any) -> Any:
        made = node if isinstance(node, Load) else node.map_children(visit)
        return Store(made.buffer, made.indices, made.value * 3.0) if isinstance(made, Store) else made

    return function.with_body(visit(function.body))


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_a_pass_of_ones_own_runs_in_its_phase(phase: int) -> None:
    with PassContext(config={"tir.add_lower_pass": [(phase, tripled)]}):
        module = tilewright.build(*program(), "llvm")
    out = empty((100,))
    module(array(np.ones(100, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.full(100, 6))
    with PassContext(config={"tir.add_lower_pass": [(phase, tripled)]}):
        assert "tripled" in [record.name for record in tilewright.lower(*program()).records]


def test_a_pass_that_breaks_the_program_is_named() -> None:
    def forgets(function: Function) -> Function:
        return Function(function.name, function.params[:1], function.body)

    for step, message in ((forgets, "after the pass forgets the program is broken"), (lambda f: None, "returns None")):
        with PassContext(config={"tir.add_lower_pass": [(1, step)]}), pytest.raises(UserError, match=message):
            tilewright.lower(*program())


def test_passes_can_be_left_out() -> None:
    A = te.placeholder((100,), name="A")
    B = te.compute((100,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    module = tilewright.lower(s, [A, B])
    with PassContext(disabled_pass=["tir.CommonSubexprElimTIR"]):  # which is the back end's
        assert "partition_loops" in module.explain("cuda")
    for name in ("partition_loops", "tir.LoopPartition"):
        with PassContext(disabled_pass=[name]):
            assert "partition_loops" not in module.explain("cuda")


@pytest.mark.parametrize(
    ("earlier", "name"), [("spread_fills", "cooperative_fetch"), ("prefetch_fills", "register_prefetch")]
)
def test_passes_go_by_their_earlier_names_too(earlier: str, name: str) -> None:
    assert PassContext(disabled_pass=[earlier]).options == PassContext(disabled_pass=[name]).options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": {"tir.foo": 1}}, "unknown configuration key 'tir.foo'\n  fix: use tir.UnrollLoop, "),
        ({"config": {"tir.UnrollLoop": {"auto_max": 1}}}, "tir.UnrollLoop has no field 'auto_max'"),
        ({"config": {"tir.add_lower_pass": [(9, tripled)]}}, "tir.add_lower_pass holds (9, "),
        ({"config": {"tir.add_lower_pass": [tripled]}}, "fix: give (phase, pass) pairs"),
        (
            {"config": {"tir.detect_global_barrier": True}},
            "tir.detect_global_barrier=True is not supported\n  fix: leave it False",
        ),
        ({"disabled_pass": ["flatten_storage"]}, "the pass 'flatten_storage' cannot be left out\n  fix: these can: "),
        ({"instruments": [1]}, "instruments are not supported"),
    ],
)
def test_what_is_unknown_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        PassContext(**options)


def test_contexts_nest_and_belong_to_a_thread() -> None:
    assert PassContext.current().opt_level == 2
    seen: list[int] = []
    with PassContext(opt_level=3), PassContext(opt_level=1) as inner:
        assert PassContext.current() is inner
        thread = threading.Thread(target=lambda: seen.append(PassContext.current().opt_level))
        thread.start()
        thread.join()
    assert seen == [2]
    assert PassContext.current().config == {}


def test_what_each_pass_changed() -> None:
    text = tilewright.lower(*program(vectorized=True)).explain("llvm")
    first = text.split("\n\n")[0].splitlines()
    assert re.fullmatch(r"── vectorize_loops  \d+\.\d\d ms", first[0])
    assert "-            B[i_outer * 4 + i_inner] = A[i_outer * 4 + i_inner] * T.float32(2)" in first
    assert any(line.startswith("+") and "Broadcast" in line for line in first)
    assert re.search(r"\n\d+ passes, [\d.]+ ms\nno change by widen_indices, flatten_storage", text)
    assert "more changed lines" in tilewright.lower(*program(vectorized=True)).explain(lines=1)


def test_explaining_as_things_are_lowered(capsys: pytest.CaptureFixture[str]) -> None:
    tilewright.lower(*program(), explain=True)
    assert capsys.readouterr().err.startswith("══ lowering main\n")
    with PassContext(config={"tilewright.explain": True}):
        tilewright.build(*program(), "llvm", name="twice")
    told = capsys.readouterr().err
    assert "══ lowering twice\n" in told
    assert "══ finishing twice for llvm\n\n── launch_on_host" in told


def test_loads_run_ahead_only_where_there_are_warps() -> None:
    """On a CPU, what is held over a barrier goes to memory and back: eight times the time of a large convolution."""
    A = te.placeholder((32, 16), name="A")
    k = te.reduce_axis((0, 32), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i], axis=k), name="C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    x = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], x)
    s[AS].compute_at(s[C], s[C].split(C.op.reduce_axis[0], factor=8)[0])
    s[AS].bind(AS.op.axis[1], x)
    ahead = {
        target: "A_shared_next" in tilewright.build(s, [A, C], target).imported_modules[0].get_source()
        for target in ("cuda -arch=sm_90", "opencl -device=gpu", "opencl", "opencl -device=cpu")
    }
    assert list(ahead.values()) == [True, True, False, False]


def test_less_is_unrolled_where_there_may_be_no_registers() -> None:
    """PoCL took 90 s for a kernel of 1,296 stores, which ran no faster than the one with loops."""
    A = te.placeholder((32, 300), name="A")
    B = te.compute((32, 300), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((32, 300), lambda i, j: B[i, 299 - j] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    unrolled = {
        target: tilewright.build(s, [A, C], target).imported_modules[0].get_source().count("unroll")
        for target in ("cuda", "opencl", "opencl -device=gpu")
    }
    assert unrolled == {"cuda": 2, "opencl": 0, "opencl -device=gpu": 2}
    with PassContext(disabled_pass=["unroll_local_accesses"]):
        assert "unroll" not in tilewright.build(s, [A, C], "cuda").imported_modules[0].get_source()


@pytest.mark.parametrize("field", ["auto_max_depth", "auto_max_extent"])
def test_fields_of_unrolling_without_effect(field: str) -> None:
    with pytest.warns(UserWarning, match=f"{field} of tir.UnrollLoop has no effect: auto_max_step alone"):
        PassContext(config={"tir.UnrollLoop": {field: 8}})
