"""widen_indices: which functions count in 64 bits, and that nothing else of them changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, store, thread
from tests.passes.running import run_pass
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Cast, Expr, Ramp, Select, Var
from tilewright.expr.operators import const, floordiv, floormod, less
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.layout import StorageLayout
from tilewright.loops.nodes import Allocate, Buffer, For, Function, If, Launch, Let, Stmt, Store, seq
from tilewright.loops.verify import verify
from tilewright.passes import widen_indices as widening
from tilewright.passes.widen_indices import NARROW, widen_indices

A, B = buf("A", 64), buf("B", 64)
i, j, tx, v = Var("i"), Var("j"), Var("tx"), Var("v")
copy = store(B, i, load(A, i))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a single element were too many for 32 bits."""
    monkeypatch.setattr(widening, "NARROW", 0)


def widened(*body: Stmt, dtype: str = "float32") -> Any:
    """The body with wide indices; both forms are well formed and compute the same."""
    before = function((A, B), *body)
    made = run_pass(widen_indices, before)
    assert made is not before
    for form in (before, made):
        verify(form)
    a = np.random.default_rng(0).integers(-9, 10, 64).astype("float32")
    results = []
    for form in (before, made):
        b = np.zeros(64, "float32")
        interpret(form, [a, b], races=False)
        results.append(b)
    np.testing.assert_array_equal(*results)
    return made.body


def bits(root: Any) -> set[int]:
    """The widths of the loops, launches and indices."""
    found: set[int] = set()
    for node in post_order(root):
        if isinstance(node, For):
            found |= {node.var.dtype.bits, node.min.dtype.bits, node.extent.dtype.bits}
        if isinstance(node, Launch):
            found |= {e.dtype.bits for _, var, extent in node.threads for e in (var, extent)}
        if isinstance(node, Store):
            found |= {index.dtype.bits for index in node.indices}
    return found


# Which functions.


def of_size(*shape: Any, dtype: str = "int8", steps: tuple[Expr, ...] | None = None) -> Function:
    """A function that stores the first element of a large buffer."""
    extents = tuple(e if isinstance(e, Expr) else const(e, "int32" if e < 2**31 else "int64") for e in shape)
    layout = StorageLayout() if steps is None else StorageLayout(given=steps)
    large = Buffer("X", dtype, extents, layout=layout)
    return function((large,), Store(large, tuple(const(0) for _ in shape), const(1, dtype)))


@pytest.mark.parametrize(
    ("before", "wide"),
    [
        (of_size(NARROW), False),
        (of_size(NARROW + 1), True),
        (of_size(2**15, 2**15), False),
        (of_size(2**15, 2**15 + 1), True),
        (of_size(0, 2**30), False),
        (of_size(2**31), True),
        (of_size(2**28, dtype="float32x4"), False),
        (of_size(2**28 + 1, dtype="float32x4"), True),
        (of_size(Var("n")), False),
        (of_size(Var("n"), 2**30), False),
        (of_size(Var("n"), 2**16, 2**16), True),
        (of_size(Var("n", "int64")), True),
        (of_size(4, steps=(Var("step"),)), False),
        (of_size(4, steps=(Var("step", "int64"),)), True),
    ],
)
def test_arrays(before: Function, wide: bool) -> None:
    made = run_pass(widen_indices, before)
    assert (made is not before) == wide
    assert bits(made.body) == {64 if wide else 32}


@pytest.mark.parametrize(("extent", "wide"), [(NARROW, False), (NARROW + 1, True), (Var("n"), False)])
def test_loops(extent: Any, wide: bool) -> None:
    before = function((B,), loop(i, extent, store(B, floormod(i, 64), 1.0)))
    made = run_pass(widen_indices, before)
    assert (made is not before) == wide
    assert bits(made.body) == {64 if wide else 32}


def test_loops_over_sizes_of_64_bits() -> None:
    n = Var("n", "int64")
    at = Var("i", "int64")
    nest = For(at, const(0, "int64"), n, loop(i, 1, copy).kind, None, (), store(B, 0, 1.0))
    assert bits(run_pass(widen_indices, function((B, n), nest)).body) == {64}


def test_storage_inside() -> None:
    large = buf("L", NARROW + 1, scope="global", dtype="int8")
    body = alloc(large, loop(i, 4, store(large, i, const(1, "int8"))))
    made = run_pass(widen_indices, function((B,), body)).body
    assert isinstance(made, Allocate)
    assert made.buffer.shape[0].dtype == "int64"
    assert bits(made) == {64}


# What becomes of them.


@pytest.mark.usefixtures("always")
def test_all_loops_and_indices_count_in_64_bits() -> None:
    made = widened(loop(i, 8, loop(j, 8, store(B, i * 8 + j, load(A, j * 8 + i)))))
    assert bits(made) == {64}
    assert str(made.body.body.indices[0]) == "i * T.int64(8) + j"


@pytest.mark.usefixtures("always")
def test_quotients_selections_and_conditions_of_indices() -> None:
    where = Select(less(i, 5), floordiv(i, 2), floormod(i, 3) + 7)
    made = widened(loop(i, 16, If(less(i * 4, 50), store(B, where, load(A, where)), None)))
    assert bits(made) == {64}
    assert made.body.condition.a.dtype == "int64"


@pytest.mark.usefixtures("always")
def test_threads() -> None:
    assert bits(widened(thread("bx", 2, lambda b: thread("tx", 8, lambda t: store(B, b * 8 + t, load(A, t)))))) == {64}
    assert bits(widened(launch(store(B, tx, load(A, tx)), tx=(tx, 8)))) == {64}


@pytest.mark.usefixtures("always")
def test_vectors() -> None:
    made = widened(loop(i, 4, store(B, ramp(i * 4, 4), load(A, ramp(i * 4 + 1, 4)))))
    (index,) = made.body.indices
    assert isinstance(index, Ramp)
    assert (index.base.dtype, index.stride.dtype) == ("int64", "int64")


@pytest.mark.usefixtures("always")
def test_data_keeps_its_type() -> None:
    """A loop variable that is stored is one of 32 bits again; data that is an index is widened."""
    N = buf("N", 8, dtype="int32")
    made = widened(
        alloc(N, loop(i, 8, store(N, i, i * 3)), loop(j, 8, store(B, load(N, j), load(N, j).astype("float32"))))
    )
    first, second = made.body.stmts
    assert first.body.value.dtype == "int32"
    assert isinstance(second.body.indices[0], Cast)
    assert second.body.indices[0].dtype == "int64"
    assert second.body.indices[0].value.dtype == "int32"


@pytest.mark.usefixtures("always")
def test_data_that_wraps_around_does_so_still() -> None:
    N = buf("N", 8, dtype="int32")
    large = const(2**31 - 1, "int32")
    wrapped = (load(N, j) + large).astype("float32")
    widened(alloc(N, loop(i, 8, store(N, i, i)), loop(j, 8, store(B, j, wrapped))))


@pytest.mark.usefixtures("always")
def test_comparisons_of_data_are_not_widened() -> None:
    N = buf("N", 8, dtype="int32")
    condition = less(load(N, i) + i, 9)
    made = widened(alloc(N, loop(j, 8, store(N, j, j)), loop(i, 8, If(condition, copy, None))))
    assert made.body.stmts[1].body.condition.a.dtype == "int32"


@pytest.mark.usefixtures("always")
def test_named_values() -> None:
    made = widened(loop(i, 8, Let(v, i * 2, store(B, v, load(A, v + i)))))
    assert bits(made) == {64}
    assert made.body.var.dtype == made.body.value.dtype == "int32"


@pytest.mark.usefixtures("always")
def test_buffers_keep_what_else_they_are() -> None:
    shared = Buffer("S", "float32", (const(8, "int32"),), MemoryScope.SHARED, 32, note="stage", stages=2)
    made = run_pass(
        widen_indices, function((A, B), alloc(shared, store(shared, 0, load(A, 0)), store(B, 0, load(shared, 0))))
    )
    assert isinstance(made.body, Allocate)
    buffer = made.body.buffer
    assert (buffer.name, buffer.scope, buffer.align, buffer.note, buffer.stages) == (
        "S",
        MemoryScope.SHARED,
        32,
        "stage",
        2,
    )
    assert [p.shape[0].dtype for p in made.buffers] == ["int64", "int64"]


@pytest.mark.usefixtures("always")
def test_views_stay_views_of_the_same_buffer() -> None:
    view = buf("V", 64, of=A)
    before = function((A, B), loop(i, 8, seq(store(B, i, load(view, i)), store(B, i + 8, load(A, i)))))
    made = run_pass(widen_indices, before)
    sources = {n.source for n in post_order(made.body) if hasattr(n, "source")}
    assert {getattr(source.alias_of, "name", None) for source in sources} == {None, "A"}
    assert {source.alias_of or source for source in sources} == {made.buffers[0]}


@pytest.mark.usefixtures("always")
def test_parameters_that_are_sizes_stay() -> None:
    n = Var("n")
    made = run_pass(widen_indices, function((A, B, n), loop(i, n, copy)))
    assert made.params[2] is n
    assert isinstance(made.body, For)
    assert str(made.body.extent) == 'T.Cast("int64", n)' or made.body.extent.dtype == "int64"
