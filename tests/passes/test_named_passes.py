"""Passes under the legacy API's names: each changes what its name says, and leaves the meaning alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.bounds.infer import infer_bounds
from tilewright.core.target import Target
from tilewright.loops.build import build_function
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Function, Launch, Program
from tilewright.loops.walk import statements
from tilewright.passes.named_passes import COUNTERPARTS

N = 100


def nest(kind: str) -> Function:
    """A loop nest before any pass: two stages, with a loop of that kind."""
    X = te.placeholder((N,), name="X")
    T = te.compute((N,), lambda i: X[i] + 1.0, name="T")
    Y = te.compute((N,), lambda i: T[i] * 2.0, name="Y")
    s = te.create_schedule(Y.op)
    outer, inner = s[Y].split(Y.op.axis[0], 4 if kind in ("vectorize", "unroll", "parallel") else 32)
    s[T].compute_at(s[Y], outer)
    if kind == "threads":
        s[Y].bind(outer, te.thread_axis("blockIdx.x"))
        s[Y].bind(inner, te.thread_axis("threadIdx.x"))
        s[T].set_scope("shared")
        s[T].bind(s[T].op.axis[0], te.thread_axis("threadIdx.x"))
    elif kind == "vthread":
        s[Y].bind(outer, te.thread_axis("vthread"))
    elif kind == "parallel":
        s[Y].parallel(outer)
    else:
        getattr(s[Y], kind)(inner)
    return build_function(s.value, infer_bounds(s.value), [X, Y], "main", None)


def run(function: Function) -> np.ndarray:
    x, y = np.arange(N, dtype="float32"), np.zeros(N, "float32")
    interpret(function, [x, y])
    return y


EXPECTED = (np.arange(N, dtype="float32") + 1) * 2
ALONE = {"SplitHostDevice", "LowerThreadAllreduce", "InstrumentBoundCheckers", "LowerIntrin"}


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel", "threads", "vthread"])
@pytest.mark.parametrize("name", [name for name in COUNTERPARTS if name not in ALONE])
def test_a_pass_keeps_the_meaning(name: str, kind: str) -> None:
    given = nest(kind)
    flat = tir.transform.FlattenBuffer()(given)
    if kind == "threads" and name in ("ThreadSync", "StorageRewrite", "NarrowDataType", "InjectPTXAsyncCopy"):
        flat = tir.transform.SplitHostDevice()(flat)
    made = getattr(tir.transform, name)()(flat)
    assert isinstance(made, Function)
    if kind != "threads" or name == "ThreadSync":  # shared memory is read by others only behind a barrier
        np.testing.assert_array_equal(run(made), EXPECTED)


CHANGES = [
    ("VectorizeLoop", "vectorize", tir.For, tir.ForKind.VECTORIZED),
    ("UnrollLoop", "unroll", tir.For, tir.ForKind.UNROLLED),
    ("InjectVirtualThread", "vthread", tir.For, tir.ForKind.THREAD_BINDING),
    ("ConvertForLoopsToSerial", "parallel", tir.For, tir.ForKind.PARALLEL),
]


@pytest.mark.parametrize(("name", "kind", "node", "gone"), CHANGES)
def test_a_pass_does_what_its_name_says(name: str, kind: str, node: Any, gone: Any) -> None:
    given = tir.transform.FlattenBuffer()(nest(kind))
    assert any(isinstance(s, node) and s.kind == gone for s in statements(given.body))
    made = getattr(tir.transform, name)()(given)
    assert not any(isinstance(s, node) and s.kind == gone for s in statements(made.body))


def test_vectors_may_be_left_to_loops() -> None:
    made = tir.transform.VectorizeLoop(enable_vectorize=False)(nest("vectorize"))
    assert all(s.kind == tir.ForKind.SERIAL for s in statements(made.body) if isinstance(s, tir.For))


def test_kernels_are_split_off() -> None:
    device = tir.transform.SplitHostDevice()(tir.transform.FlattenBuffer()(nest("threads")))
    assert any(isinstance(s, Launch) and s.threads for s in statements(device.body))
    host = tir.transform.SplitHostDevice()(tir.transform.FlattenBuffer()(nest("unroll")))
    assert any(isinstance(s, Launch) and not s.threads for s in statements(host.body))


def test_targets_bound_to_functions_count() -> None:
    named = tir.transform.BindTarget("llvm")(Program((nest("unroll"),)))
    assert named["main"].attrs["target"] == Target("llvm")
    again = tir.transform.Simplify()(tir.transform.FlattenBuffer()(named))
    assert again["main"].attrs["target"] == Target("llvm")
    for form in (tw.build(again, target="llvm"), tw.build(tw.lower(again), target="llvm")):
        y = tw.nd.array(np.zeros(N, "float32"))
        form(tw.nd.array(np.arange(N, dtype="float32")), y)
        np.testing.assert_array_equal(y.numpy(), EXPECTED)


def test_passes_of_ones_own() -> None:
    module = Program((nest("unroll"),))

    @tir.transform.prim_func_pass(opt_level=1)
    def named(function: Any, mod: Any, ctx: Any) -> Any:
        assert mod is module
        assert ctx.opt_level == 2
        return function.with_attr("seen", True)

    @tw.transform.module_pass(opt_level=0, name="first")
    def first(mod: Any, ctx: Any) -> Any:
        return tir.transform.Filter(lambda f: f.name == "main")(mod)

    @tir.transform.prim_func_pass
    class Marked:
        def __init__(self, mark: str) -> None:
            self.mark = mark

        def transform_function(self, function: Any, mod: Any, ctx: Any) -> Any:
            return function.with_attr("mark", self.mark)

    assert named(module)["main"].attrs["seen"] is True
    assert (named.info.name, named.info.opt_level, first.info.name) == ("named", 1, "first")
    both = tw.transform.Sequential([first, Marked("x"), tir.transform.Apply(lambda f: f.with_attr("y", 1))])
    assert both(module)["main"].attrs | {"global_symbol": ""} == {"mark": "x", "y": 1, "global_symbol": ""}
    assert isinstance(both, tw.transform.Pass)
    assert repr(first) == "<pass first>"


def test_what_passes_refuse() -> None:
    module = Program((nest("unroll"),))
    with refused("Simplify", "3 is not a program", fix="tw.lower"):
        tir.transform.Simplify()(3)
    with refused("Simplify", "the arguments [4] are not known", fix="without arguments"):
        tir.transform.Simplify(4)
    with refused("ThreadSync", "the arguments ['shared', 'x'] are not known", fix="it takes storage_scope"):
        tir.transform.ThreadSync("shared", "x")
    with refused("Sequential", "3 is not a pass", fix="tir.transform"):
        tw.transform.Sequential([3])
    with refused("Apply", "the pass Apply returns 3", fix="returns one"):
        tir.transform.Apply(lambda f: 3)(module)
    with refused("m", "the pass m returns 3", fix="returns one"):
        tw.transform.module_pass(lambda mod, ctx: 3, name="m")(module)
    with refused("pass", "Empty has no method transform_function", fix="define transform_function"):

        @tir.transform.prim_func_pass
        class Empty:
            pass

        Empty()
    broken = tir.PrimFunc([te.var("n")], tir.Evaluate(te.var("m")))
    with refused("VerifySSA", "a variable is not defined just once in 'main'", fix="its own variable"):
        tir.transform.VerifySSA()(broken)


def test_values_that_are_computed_for_nothing_are_left_out() -> None:
    i, n = te.var("i"), te.size_var("n")
    A = tir.decl_buffer((8,), "float32", "A")
    idle = tir.For(i, 0, n, tir.ForKind.SERIAL, tir.IfThenElse(i < 3, tir.Evaluate(i + 1), tir.Evaluate(n)))
    store = tir.BufferStore(A, 1.0, [0])
    called = tir.Evaluate(tir.call_extern("int32", "f", n))
    module = tw.IRModule.from_expr(tir.PrimFunc([A, n], tir.SeqStmt([idle, store, called])))
    left = tir.transform.RemoveNoOp()(module)["main"].body
    assert [type(stmt).__name__ for stmt in left.seq] == ["Store", "Evaluate"]


def test_barriers_are_placed_in_kernels_only() -> None:
    ib, A = tir.ir_builder.create(), tir.decl_buffer((64,), "float32", "A")
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 64)
    near, a = ib.allocate("float32", (64,), name="near", scope="shared"), ib.buffer_ptr(A)
    near[thread.var] = a[thread.var]
    a[thread.var] = near[63 - thread.var]
    module = tw.IRModule.from_expr(tir.PrimFunc([A], ib.get()))
    with pytest.warns(UserWarning, match="SplitHostDevice before it"):
        tir.transform.ThreadSync("shared")(module)
    assert "tvm_storage_sync" in str(tir.transform.ThreadSync("shared")(tir.transform.SplitHostDevice()(module)))
