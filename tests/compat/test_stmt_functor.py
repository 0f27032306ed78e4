"""Statements made, visited, rewritten and asked about under the legacy API's names."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import ir, te, tir
from tilewright.loops.interpret import interpret

A = tir.decl_buffer((8, 4), "float32", name="A")
B = tir.decl_buffer((8, 4), "float32", name="B")
i, j, n = tir.Var("i", "int32"), tir.Var("j", "int32"), tir.Var("n", "int32")
STORE = tir.BufferStore(B, tir.BufferLoad(A, [i, j]) * 2.0, [i, j])
INNER = tir.For(j, 0, 4, tir.ForKind.VECTORIZED, STORE)
LOOPS = tir.For(i, 0, 8, tir.ForKind.SERIAL, INNER)
FUNCTION = tir.PrimFunc([A, B], LOOPS)
VALUES = np.arange(32, dtype="float32").reshape(8, 4)


def run(function: Any) -> np.ndarray:
    """What the interpreter makes of a function of A and B."""
    found = np.zeros((8, 4), "float32")
    interpret(function, [VALUES.copy(), found])
    return found


def test_statements_have_their_legacy_names_and_fields() -> None:
    assert isinstance(LOOPS, tir.For)
    assert isinstance(LOOPS, tir.Stmt)
    assert not isinstance(LOOPS, tir.AttrStmt)
    assert (LOOPS.loop_var, LOOPS.min.value, LOOPS.extent.value) == (i, 0, 8)
    assert LOOPS.kind == tir.ForKind.SERIAL
    assert (LOOPS.thread_binding, LOOPS.annotations) == (None, {})
    assert isinstance(STORE, tir.BufferStore)
    assert (STORE.buffer, STORE.indices) == (B, (i, j))
    assert isinstance(STORE.value.a, tir.BufferLoad)
    assert not isinstance(STORE.value.a, tir.ProducerLoad)
    assert STORE.value.a.buffer is A
    branch = tir.IfThenElse(i < 4, STORE, INNER)
    assert isinstance(branch, tir.IfThenElse)
    assert (branch.then_case, branch.else_case) == (STORE, INNER)
    both = tir.SeqStmt([STORE, tir.Evaluate(i)])
    assert isinstance(both, tir.SeqStmt)
    assert (len(both), both[0], both.seq, both.size) == (2, STORE, both.stmts, 2)
    assert tir.stmt_list(both) == list(both.seq)
    assert tir.stmt_list(STORE) == [STORE]
    let = tir.LetStmt(n, i + 1, STORE)
    assert (let.var, let.value, let.body) == (n, i + 1, STORE)
    held = tir.Allocate(A, "float32", [8, 4], True, LOOPS)
    assert isinstance(held, tir.Allocate)
    assert (held.buffer_var, held.dtype, held.extents, held.condition.value) == (A, "float32", A.shape, 1)
    assert tir.Let(n, i + 1, n * n) is (i + 1) * (i + 1)
    assert LOOPS.same_as(LOOPS)
    for value, kind in ((i + 1, tir.Add), (tir.Not(i < 1), tir.Not), (tir.Select(i < 1, i, 2), tir.Select)):
        assert isinstance(value, kind)
    assert isinstance(tir.Cast("float32", i), tir.Cast)
    tensor = te.placeholder((8,), name="T")
    assert isinstance(tensor[i], tir.ProducerLoad)
    assert tensor[i].producer is tensor
    with refused("", "reads a tensor, which is not its buffer", fix="ask for .producer"):
        tensor[i].buffer
    with refused("", "reads a buffer, which is not its producer", fix="ask for .buffer"):
        STORE.value.a.producer


def test_a_statement_prints_as_the_loops_that_it_is() -> None:
    assert str(STORE) == "B[i, j] = A[i, j] * T.float32(2)"
    assert (
        str(LOOPS)
        == LOOPS.script()
        == ("for i in range(8):\n    for j in T.vectorized(4):\n        B[i, j] = A[i, j] * T.float32(2)")
    )
    assert str(tir.IfThenElse(i < n, STORE, None)) == "if i < n:\n    B[i, j] = A[i, j] * T.float32(2)"


def test_a_statement_prints_so_before_any_face_is_imported() -> None:
    alone = (
        "import sys; from tilewright.expr.operators import const; from tilewright.loops.nodes import Evaluate; "
        "print(Evaluate(const(7)), 'tilewright.tir' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", alone], text=True) == "7 False\n"


def test_threads_and_pragmas() -> None:
    tx = te.thread_axis("threadIdx.x")
    bound = tir.AttrStmt(tx, "thread_extent", 8, tir.stmt_functor.substitute(INNER, {i: tx.var}))
    assert isinstance(bound, tir.AttrStmt)
    assert bound.kind == tir.ForKind.THREAD_BINDING
    assert bound.thread_binding.thread_tag == "threadIdx.x"
    same = tir.For(tx.var, 0, 8, tir.ForKind.THREAD_BINDING, bound.body, thread_binding=tx)
    assert same is bound
    marked = tir.AttrStmt(i, "pragma_unroll_explicit", True, LOOPS)
    assert marked.annotations == {"unroll_explicit": True}
    assert tir.For(i, 0, 8, 0, INNER, annotations={"unroll_explicit": True}) is marked
    np.testing.assert_array_equal(run(tir.PrimFunc([A, B], bound)), 2 * VALUES)


def test_functions_and_modules() -> None:
    assert isinstance(FUNCTION, tir.PrimFunc)
    assert FUNCTION.buffer_map == {A: A, B: B}
    handle = tir.Var("a", "handle")
    assert tir.PrimFunc([handle, B], LOOPS, buffer_map={handle: A}).params == (A, B)
    named = FUNCTION.with_attr("global_symbol", "twice").with_attr({"k": 3})
    assert (named.name, named.attrs) == ("twice", {"global_symbol": "twice", "k": 3})
    assert "k" not in named.without_attr("k").attrs
    module = ir.IRModule({"twice": FUNCTION})
    assert isinstance(module, ir.IRModule)
    assert module["twice"].name == "twice"
    assert module.get_global_vars() == ["twice"]
    assert str(module) == module.script()
    assert "def twice(A: T.Buffer((8, 4)" in module.script()
    assert ir.IRModule.from_expr(named)["twice"] is named
    assert str(FUNCTION).startswith("@T.prim_func\ndef main(")
    np.testing.assert_array_equal(run(FUNCTION), 2 * VALUES)


@pytest.mark.parametrize("given", [FUNCTION, ir.IRModule({"main": FUNCTION}), tw.lower(FUNCTION)])
def test_functions_made_by_hand_are_built(given: Any) -> None:
    a, b = tw.nd.array(VALUES), tw.nd.array(np.zeros((8, 4), "float32"))
    tw.build(given, target="llvm")(a, b)
    np.testing.assert_array_equal(b.numpy(), 2 * VALUES)


def test_a_broken_function_is_refused() -> None:
    loose = tir.PrimFunc([B], LOOPS)
    with refused("lower", "the function main is broken", fix="let every buffer be a parameter"):
        tw.build(loose, target="llvm")


def test_visits() -> None:
    seen: list[Any] = []
    tir.stmt_functor.post_order_visit(LOOPS, seen.append)
    assert seen[-1] is LOOPS
    assert seen.index(STORE) < seen.index(INNER)
    assert len(seen) == len(set(seen)), "each distinct node once"
    from_above: list[Any] = []
    tir.stmt_functor.pre_order_visit(FUNCTION, from_above.append)
    assert from_above[0] is LOOPS
    assert set(from_above) == set(seen)
    loops: list[Any] = []

    def outer(node: Any) -> bool:
        loops.append(node)
        return not isinstance(node, tir.For)

    tir.stmt_functor.pre_order_visit(LOOPS, outer)
    assert loops == [LOOPS]


def test_transforms() -> None:
    def serial(node: Any) -> Any:
        return tir.For(node.loop_var, node.min, node.extent, "serial", node.body) if node.extent.value == 4 else None

    plain = tir.stmt_functor.ir_transform(LOOPS, None, serial, ["tir.For"])
    assert plain.body.kind == tir.ForKind.SERIAL
    assert tir.stmt_functor.ir_transform(LOOPS, None, lambda node: None) is LOOPS
    tripled = tir.stmt_functor.ir_transform(
        LOOPS, lambda node: te.const(3.0) if isinstance(node, tir.FloatImm) else None, None
    )
    np.testing.assert_array_equal(run(tir.PrimFunc([A, B], tripled)), 3 * VALUES)
    twice = tir.stmt_functor.ir_transform(LOOPS, None, lambda node: tir.SeqStmt([node, node]), ["tir.BufferStore"])
    assert len(twice.body.body) == 2
    kept: list[Any] = []
    tir.stmt_functor.ir_transform(LOOPS, lambda node: kept.append(node) or node, None)
    assert kept == [LOOPS], "what stands in a node's place is not looked into"


def test_substitution() -> None:
    assert tir.stmt_functor.substitute(i + j, {i: 3}) is tir.Add(te.const(3), j)
    axis = te.thread_axis("threadIdx.x")
    assert tir.stmt_functor.substitute(axis.var + j, {axis: j}) is j + j
    gone = tir.stmt_functor.substitute(INNER, {i: n})
    assert tir.analysis.undefined_vars(gone) == [n]


def test_analysis() -> None:
    assert tir.analysis.expr_deep_equal(i + 1, i + 1)
    assert not tir.analysis.expr_deep_equal(i + 1, j + 1)
    assert tir.analysis.undefined_vars(STORE) == [i, j]
    assert tir.analysis.undefined_vars(STORE, [i]) == [j]
    assert tir.analysis.undefined_vars(LOOPS) == []
    assert tir.analysis.undefined_vars(tir.For(i, 0, i, "serial", STORE)) == [i, j]
    assert tir.analysis.undefined_vars(tir.LetStmt(n, n + 1, STORE), [i, j]) == [n]
    assert tir.analysis.verify_ssa(FUNCTION)
    assert not tir.analysis.verify_ssa(tir.PrimFunc([A, B], tir.SeqStmt([LOOPS, LOOPS, LOOPS.body])))
    assert not tir.analysis.verify_ssa(tir.PrimFunc([A, B], tir.SeqStmt([LOOPS, LOOPS])))
    assert not tir.analysis.verify_ssa(tir.PrimFunc([A, B], tir.For(i, 0, 8, "serial", LOOPS)))
    assert not tir.analysis.verify_ssa(tir.PrimFunc([A, B], INNER)), "i is not defined"
    rows = tir.decl_buffer((n,), "float32", "rows")
    assert tir.analysis.verify_ssa(tir.PrimFunc([rows], tir.BufferStore(rows, 1.0, [n - 1])))


def tiles(shared: bool = True) -> Any:
    """A schedule of 16 threads and 4 vthreads on tiles of 64 elements."""
    X = te.placeholder((256,), name="X")
    Y = te.compute((256,), lambda i: X[i] + 1.0, name="Y")
    s = te.create_schedule(Y.op)
    block, inside = s[Y].split(Y.op.axis[0], 64)
    v, t = s[Y].split(inside, 16)
    s[Y].bind(block, te.thread_axis("blockIdx.x"))
    s[Y].bind(v, te.thread_axis("vthread"))
    s[Y].bind(t, te.thread_axis("threadIdx.x"))
    if shared:
        XS = s.cache_read(X, "shared", [Y])
        s[XS].compute_at(s[Y], block)
    return X, Y, s


def test_memory_is_for_kernels() -> None:
    X, Y, s = tiles(shared=False)
    lowered = tw.lower(s, [X, Y])
    assert tir.analysis.verify_memory(lowered, "cuda")
    assert tir.analysis.verify_memory(tw.lower(te.create_schedule(Y.op), [X, Y])), "no target: any access is right"
    loose = tw.lower(te.create_schedule(Y.op), [X, Y])["main"]
    assert not tir.analysis.verify_memory(loose, "cuda")
    assert tir.analysis.verify_memory(loose, "llvm")
    assert not tir.analysis.verify_memory(loose.with_attr("target", tw.target.Target("opencl")))
    with tw.target.Target("cuda"):
        assert not tir.analysis.verify_memory(loose)
    with refused("VerifyMemory", "outside of any kernel", fix="bind"), tw.target.Target("cuda"):
        tir.transform.VerifyMemory()(loose)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("max_threads_per_block", 16),
        ("max_thread_x", 16),
        ("max_thread_y", 1),
        ("max_shared_memory_per_block", 256),
        ("max_vthread", 4),
        ("max_vector_bytes", 4),
        ("max_kernels", 1),
        ("max_local_memory_per_block", 0),
    ],
)
def test_limits_of_kernels(name: str, most: int) -> None:
    X, Y, s = tiles()
    plain = tw.lower(s, [X, Y])
    with tw.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 0}}):
        assert tir.analysis.verify_gpu_code(plain, {name: most})
    if most:
        bound = tir.PrimFunc(plain["main"].params, plain["main"].body)
        if name == "max_vthread":  # copies by then
            return
        assert not tir.analysis.verify_gpu_code(bound, {name: most - 1})
        with refused("VerifyGPUCode", "exceeds", fix="fewer threads"):
            tir.transform.VerifyGPUCode({name: most - 1})(plain)


def test_virtual_threads_count_before_they_are_copies() -> None:
    v = te.thread_axis("vthread", name="v")
    tx = te.thread_axis("threadIdx.x")
    body = tir.stmt_functor.substitute(INNER, {i: v.var * 2 + tx.var})
    stmt = tir.AttrStmt(tx, "thread_extent", 2, tir.AttrStmt(v, "virtual_thread", 4, body))
    function = tir.PrimFunc([A, B], stmt)
    assert tir.analysis.verify_gpu_code(function, {"max_vthread": 4, "max_threads_per_block": 2})
    assert not tir.analysis.verify_gpu_code(function, {"max_vthread": 3})
    assert not tir.analysis.verify_gpu_code(function, {"max_threads_per_block": 1})
    with refused("verify_gpu_code", "there is no constraint 'max_warps'", fix="max_vthread"):
        tir.analysis.verify_gpu_code(function, {"max_warps": 3})


def test_workspace() -> None:
    X = te.placeholder((100,), name="X")
    T = te.compute((100,), lambda i: X[i] + 1.0, name="T")
    U = te.compute((100,), lambda i: T[i] * 2.0, name="U")
    Y = te.compute((100,), lambda i: U[i] + T[99 - i], name="Y")
    held = tir.analysis.calculate_workspace_bytes(tw.lower(te.create_schedule(Y.op), [X, Y])["main"], 64)
    assert held == 2 * 448, "100 elements of 4 bytes, up to a multiple of 64"
    size = te.size_var("n")
    V = te.placeholder((size,), name="V")
    W = te.compute((size,), lambda i: V[i] + 1.0, name="W")
    Z = te.compute((size,), lambda i: W[size - 1 - i], name="Z")
    with refused("calculate_workspace_bytes", "the size of 'W' depends on the arguments", fix="constant extents"):
        tir.analysis.calculate_workspace_bytes(tw.lower(te.create_schedule(Z.op), [V, Z])["main"])
    with refused("calculate_workspace_bytes", "workspace_byte_alignment='x'", fix="give an int"):
        tir.analysis.calculate_workspace_bytes(FUNCTION, "x")
    with refused("verify_ssa", "3 is not a function", fix="tw.lower"):
        tir.analysis.verify_ssa(3)


def test_a_while_loop_is_built_from_statements() -> None:
    """The number of halvings until 1, by the constructor that the legacy API has."""
    n = tir.decl_buffer((2,), "int32", "n")
    value, steps = (tir.BufferLoad(n, [k]) for k in (0, 1))
    step = tir.SeqStmt([tir.BufferStore(n, value // 2, [0]), tir.BufferStore(n, steps + 1, [1])])
    stmt = tir.While(value > 1, step)
    assert isinstance(stmt, tir.While)
    f = tw.build(tir.PrimFunc([n], stmt), target="llvm")
    values = tw.nd.array(np.array([37, 0], "int32"))
    f(values)
    assert values.numpy().tolist() == [1, 5]
