"""Every access has one index afterwards, and views say whose memory they show."""

from __future__ import annotations

from tests.loops.programs import alloc, buf, function, load, loop, store
from tests.passes.running import run_pass
from tilewright.expr.nodes import Var
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Allocate, Buffer, Function, Stmt, Store
from tilewright.loops.verify import Form, verify
from tilewright.passes.flatten_storage import flatten_storage

i, j = Var("i"), Var("j")


def flat(params: tuple[Buffer, ...], *body: Stmt) -> Function:
    made = run_pass(flatten_storage, function(params, *body))
    verify(made, Form.FLAT)
    return made


def stores(made: Function) -> list[Store]:
    return [node for node in post_order(made.body) if isinstance(node, Store)]


def test_rows_follow_each_other() -> None:
    A, B = buf("A", 4, 5, 6), buf("B", 120)
    (made,) = stores(flat((A, B), loop(i, 4, loop(j, 5, store(B, i, load(A, i, j, 3))))))
    assert str(made.value) == "A[i * 30 + j * 6 + 3]"


def test_a_parameter_of_one_dimension_stays() -> None:
    A, B = buf("A", 4), buf("B", 4)
    (made,) = stores(flat((A, B), store(B, 0, load(A, 1))))
    assert made.buffer is B
    assert made.value.source is A  # type: ignore[attr-defined]


def test_a_parameter_of_another_rank_is_seen_through_one_view() -> None:
    A, B = buf("A", 4, 4), buf("B")
    made = flat((A, B), store(B, (), load(A, 1, 2) + load(A, 3, 0)), store(B, (), load(A, 0, 0)))
    first, second = stores(made)
    views = {node.source for store_ in (first, second) for node in post_order(store_.value) if hasattr(node, "source")}
    (view,) = views
    assert view.alias_of is A
    assert [str(e) for e in view.shape] == ["16"]
    assert first.buffer.alias_of is B
    assert str(first.indices[0]) == "0"


def test_what_is_allocated_becomes_flat_itself() -> None:
    A, T = buf("A", 4), buf("T", 2, 3, scope="shared")
    made = flat((A,), alloc(T, store(T, (1, 2), 1.0), store(A, 0, load(T, 1, 2))))
    assert isinstance(made.body, Allocate)
    buffer = made.body.buffer
    assert (buffer.alias_of, [str(e) for e in buffer.shape], buffer.scope, buffer.name) == (None, ["6"], T.scope, "T")
    assert all(str(s.indices[0]) in ("5", "1 * 3 + 2", "0") for s in stores(made))


def test_alignment_is_as_large_as_the_storage_up_to_64() -> None:
    A = buf("A", 4)
    for elements, align in ((1, 4), (3, 8), (4, 16), (8, 32), (16, 64), (100, 64)):
        T = buf("T", elements, scope="local")
        made = flat((A,), alloc(T, store(T, 0, 1.0), store(A, 0, load(T, 0))))
        assert isinstance(made.body, Allocate)
        assert made.body.buffer.align == align


def test_sizes_may_be_variables() -> None:
    n = Var("n")
    A, B = buf("A", n, n + 1), buf("B", n)
    made = run_pass(flatten_storage, function((A, B), loop(i, n, store(B, i, load(A, i, 2)))))
    assert str(stores(made)[0].value) == "A[i * (n + 1) + 2]"
