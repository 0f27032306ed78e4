"""Interned nodes: identity is structural equality, across pickling and garbage collection too."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import struct
import threading
import weakref
from typing import Any

import pytest

from tilewright.core.dtype import BOOL, FLOAT32, INT32, INT64, DType
from tilewright.core.errors import UserError
from tilewright.expr import nodes as n
from tilewright.expr.operators import const
from tilewright.expr.traverse import post_order

FLOAT64 = DType("float64")
x, y = n.Var("x"), n.Var("y")


def test_the_same_node_is_the_same_object() -> None:
    assert n.Add(x, y) is n.Add(x, y)
    assert n.Add(x, y) is not n.Add(y, x)
    assert n.Add(x, y) is not n.Sub(x, y)
    assert n.Call("exp", (x,), INT32) is n.Call("exp", (x,), INT32)
    assert n.Ramp(x, const(1), 4) is n.Ramp(x, const(1), 4)
    assert n.StringImm("a") is n.StringImm("a")


def test_a_variable_is_itself_not_its_name() -> None:
    assert n.Var("x") is not n.Var("x")
    assert n.Add(n.Var("x"), y) is not n.Add(n.Var("x"), y)


def test_one_and_true_and_one_point_zero_are_different_constants() -> None:
    ones = [const(1), const(1, INT64), const(True), const(1.0), const(1.0, FLOAT64)]
    assert len(set(map(id, ones))) == len(ones)
    assert [type(c.value) for c in ones] == [int, int, int, float, float]
    assert [str(c) for c in ones] == ["1", "T.int64(1)", "T.bool(True)", "T.float32(1)", "T.float64(1)"]


def test_true_does_not_take_the_place_of_one() -> None:
    assert type(const(True, INT32).value) is int
    assert const(True, INT32) is const(1, INT32)
    assert const(True) is n.TRUE
    assert const(False) is n.FALSE


def test_floats_are_interned_by_their_bits() -> None:
    assert const(0.0) is not const(-0.0)
    assert const(0.0) is const(0.0)
    assert const(math.nan) is const(math.nan)
    (other_nan,) = struct.unpack("d", struct.pack("Q", 0x7FF8000000000123))
    assert n.FloatImm(other_nan, FLOAT64) is not n.FloatImm(math.nan, FLOAT64)
    assert const(math.inf) is not const(-math.inf)


@pytest.mark.parametrize(
    "e",
    [
        x + y * 2,
        const(-0.0),
        const(math.nan, "float16"),
        const(7, "uint8"),
        n.IfThenElse(x < y, x, y),
        n.Call("exp", (const(1.5),), FLOAT32),
        n.Broadcast(n.Cast(INT64, x), 4),
        n.StringImm("name"),
    ],
    ids=str,
)
def test_pickling_interns_again(e: n.Expr) -> None:
    closed = all(not isinstance(part, n.Var) for part in post_order(e))
    again = pickle.loads(pickle.dumps(e))
    assert str(again) == str(e)
    assert (again is e) == closed
    assert again.dtype is e.dtype
    pair = pickle.loads(pickle.dumps((e, e, e.children())))
    assert pair[0] is pair[1]
    assert all(a is b for a, b in zip(pair[0].children(), pair[2], strict=True))
    assert copy.deepcopy(e) is e or not closed


def test_a_variable_keeps_its_identity_within_one_pickle() -> None:
    a, b = pickle.loads(pickle.dumps((x + y, y + x)))
    assert a.a is b.b
    assert a.b is b.a
    assert a.a is not x


def test_the_tables_let_nodes_go() -> None:
    v = n.Var("v")
    node = n.Add(v, n.Mul(v, const(12345)))
    died: list[str] = []
    for what, name in ((node, "sum"), (node.b, "product"), (node.b.b, "constant"), (v, "variable")):
        weakref.finalize(what, died.append, name)
    del node, v, what
    gc.collect()
    assert sorted(died) == ["constant", "product", "sum", "variable"]


def test_a_node_that_was_freed_can_be_made_again() -> None:
    for _ in range(3):
        node = n.Add(x, const(987654))
        assert node is n.Add(x, const(987654))
        del node
        gc.collect()


def test_threads_agree_on_one_node() -> None:
    v = n.Var("v")
    made: list[list[n.Expr]] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        made.append([n.Add(v, n.IntImm(i, INT32)) for i in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(a is b for row in made[1:] for a, b in zip(made[0], row, strict=True))


def test_children_and_map_children() -> None:
    e = n.IfThenElse(x < y, n.Call("f", (x, y), INT32), x)
    assert e.children() == (e.condition, e.true_value, x)
    assert e.map_children(lambda c: c) is e
    assert e.true_value.map_children(lambda c: {x: y}.get(c, c)).args == (y, y)
    z = n.Var("z")
    changed = e.map_children(lambda c: z if c is x else c)
    assert changed.false_value is z
    assert changed.condition is e.condition
    assert const(1).children() == ()
    assert const(1).map_children(lambda c: z) is const(1)


def test_types_that_follow_from_the_parts() -> None:
    class Source:
        name, dtype = "A", DType("float16")

    wide = n.Ramp(x, const(1), 4)
    assert n.Add(x, y).dtype is INT32
    assert n.LT(x, y).dtype is BOOL
    assert n.LT(wide, wide).dtype == "boolx4"
    assert wide.dtype == "int32x4"
    assert n.Broadcast(const(1.0), 2).dtype == "float32x2"
    assert n.Load(Source(), (x, y)).dtype == "float16"
    assert n.Load(Source(), (x, wide)).dtype == "float16x4"
    assert n.StringImm("a").dtype == "handle"
    assert n.Select(x < y, const(1.0), const(2.0)).dtype is FLOAT32


def test_truth_values() -> None:
    assert bool(x.equal(x)) is True
    assert bool(x == y) is False
    assert bool(x != y) is True
    assert bool(n.Add(x, y) == n.Add(x, y)) is True
    assert x in [y, x]
    assert x not in [y]
    assert (x == None) is n.FALSE  # noqa: E711  # the comparison is what is tested
    assert (x != "a") is n.TRUE
    assert bool(const(3)) is True
    assert bool(const(0)) is False
    values: Any = [x < y, x, x + y, const(1.0)]
    for value in values:
        with pytest.raises(UserError, match="is not known while the program is built"):
            bool(value)
    with pytest.raises(UserError, match="chained comparisons"):
        0 < x < 10
    with pytest.raises(UserError, match=r"te\.all"):
        x < y and y < x


def test_constants_are_numbers_to_python() -> None:
    assert int(const(7)) == 7
    assert list(range(10))[const(3)] == 3
    assert float(const(2.5)) == 2.5
